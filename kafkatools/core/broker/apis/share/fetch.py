"""Handlers for the records of share groups (KIP-932): ShareFetch, ShareAcknowledge."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafkatools.core.broker.apis.consumer_groups import message_of
from kafkatools.core.broker.apis.contexts import ShareContext
from kafkatools.core.broker.apis.fetch import node_endpoints
from kafkatools.core.broker.apis.share.groups import ensure_enabled
from kafkatools.core.broker.coordinators.share_state.pending import ShareWrite, when_written
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ, TOPIC
from kafkatools.core.broker.replicas.replica_manager import LEADER_ERRORS
from kafkatools.core.broker.replicas.share.delayed_share_fetch import DelayedShareFetch
from kafkatools.core.broker.replicas.share.fetch_read import ShareFetched
from kafkatools.core.broker.replicas.share.partition import GAP, RENEW, Acknowledgement, Wish
from kafkatools.core.broker.replicas.share.session import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    InvalidRecordState,
    InvalidRequest,
    InvalidShareSessionEpoch,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicId,
)
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.messages import encode_fields, response_type

NO_LEADER = (0, 0)
Outcome = tuple[int, str | None]
DONE: Outcome = (0, None)
NO_RENEWALS = "Renewing acquisition locks is not enabled for the group."


def handle_share_fetch(node: ShareContext, request: Request) -> Response:
    """Answer ShareFetch: acknowledge records, then acquire records for a member of a share group (KIP-932).

    It waits for records at most the request's maximum wait, and for the acknowledgements to be durable. The final epoch
    (-1) closes the share session, and a renewal without a record limit only acknowledges. An error of the group or the
    session fails the whole request, any other one partition. Version 2 adds the record limit mode (KIP-1206) and the
    renewal of acquisition locks (KIP-1222).
    """
    entity = request.decode()
    group_id, member_id = entity.group_id or "", entity.member_id or ""
    requested = acknowledgements_of(entity.topics, group_id)
    acknowledged = {key: batches for key, batches in requested.items() if batches}
    is_renewal = entity.is_renew_ack
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, READ, GROUP, group_id)
        session = _session(node, request, entity, requested, has_acknowledgements=bool(acknowledged))
    except KafkaError as error:
        return _respond(node, request, (error.code, message_of(error)), 0, {}, {})
    writes: list[tuple[ShareKey | None, ShareWrite]] = []
    outcomes = acknowledge(node, request, member_id, (acknowledged, is_renewal), writes)
    response = Deferred(request)

    def respond_when_written(fetched: Mapping[ShareKey, ShareFetched]) -> None:
        lock_ms = node.groups.share.settings.lock_duration_ms(group_id)

        def respond() -> None:
            response.complete(_respond(node, request, DONE, lock_ms, fetched, outcomes))

        call_when_written(writes, outcomes, respond)

    if session is None:
        writes += [(None, write) for write in node.share_partitions.close_session((group_id, member_id))]
    if session is None or (is_renewal and entity.max_records <= 0):
        respond_when_written({})
    else:
        _fetch(node, request, entity, session, respond_when_written)
    return response.result()


def _session(
    node: ShareContext, request: Request, entity: Entity, requested: Iterable[ShareKey], *, has_acknowledgements: bool
) -> ShareSession | None:
    """Open or continue the share session of a ShareFetch; None when the request closes it. Raises InvalidRequest,
    ShareSessionNotFound and the errors of `ShareSessions.open_or_go_on`."""
    group_id, member_id = entity.group_id or "", entity.member_id or ""
    asks_for_records = entity.max_bytes or entity.min_bytes or entity.max_records or entity.max_wait
    if not member_id or (entity.is_renew_ack and asks_for_records):  # renewal takes a request of its own (KIP-1222)
        raise InvalidRequest()
    sessions = node.share_partitions.sessions
    if entity.share_session_epoch == FINAL_EPOCH:
        sessions.find((group_id, member_id))
        return None
    places = [(key.topic_id, key.partition) for key in requested]
    forgotten = [(topic.topic_id, index) for topic in entity.forgotten_topics_data for index in topic.partitions]
    node.share_partitions.watch_connection(request.connection)
    return sessions.open_or_go_on(
        (group_id, member_id),
        entity.share_session_epoch,
        request.connection,
        (places, forgotten),
        has_acknowledgements=has_acknowledgements,
    )


def _fetch(
    node: ShareContext,
    request: Request,
    entity: Entity,
    session: ShareSession,
    respond: Callable[[Mapping[ShareKey, ShareFetched]], None],
) -> None:
    keys = [ShareKey(entity.group_id or "", *place) for place in session.partitions]
    refused = _refused(node, request, keys)
    allowed = [key for key in keys if key not in refused]
    manager = node.share_partitions
    wish = Wish(entity.member_id, entity.max_records, max(entity.batch_size, 1), entity.share_acquire_mode)

    def complete() -> None:
        if request.connection.is_closed:
            return
        fetched: dict[ShareKey, ShareFetched] = dict(refused)
        max_records, max_bytes = wish.max_records, entity.max_bytes
        for key in allowed:
            if max_records <= 0 or max_bytes <= 0:
                break
            result = manager.read(key, max_bytes, wish._replace(max_records=max_records))
            max_records -= result.count
            if result.records is not None:
                max_bytes -= len(result.records)
                session.rotate((key.topic_id, key.partition))
            if result.error_code or result.acquired:
                fetched[key] = result
        if entity.share_session_epoch == INITIAL_EPOCH:
            fetched = {key: fetched.get(key) or ShareFetched() for key in keys}
        respond(fetched)

    wait_ms = 0 if refused else entity.max_wait
    delayed_fetch = DelayedShareFetch(wait_ms, manager, allowed, entity.min_bytes, complete)
    if wait_ms <= 0:
        delayed_fetch.force_complete()
        return
    watch_keys: list[Any] = [*allowed, *((key.topic_id, key.partition) for key in allowed)]
    node.fetch_purgatory.try_complete_else_watch(delayed_fetch, watch_keys, node.clock.now_ms())


def _refused(node: ShareContext, request: Request, keys: Sequence[ShareKey]) -> dict[ShareKey, ShareFetched]:
    refused = {}
    for key in keys:
        name = node.replicas.topic_name(key.topic_id)
        if name is None or not node.authorize(request, READ, TOPIC, name):
            error = UnknownTopicId() if name is None else TopicAuthorizationFailed()
            refused[key] = ShareFetched(error_code=error.code, error_message=str(error))
    return refused


def _respond(
    node: ShareContext,
    request: Request,
    refusal: Outcome,
    lock_ms: int,
    fetched: Mapping[ShareKey, ShareFetched],
    outcomes: Mapping[ShareKey, Outcome],
) -> Response:
    partitions = []
    for key in dict.fromkeys((*fetched, *outcomes)):
        result = fetched.get(key) or ShareFetched()
        code, message = outcomes.get(key, DONE)
        fields = {
            "error_code": result.error_code,
            "error_message": result.error_message,
            "acknowledge_error_code": code,
            "acknowledge_error_message": message,
            "records": result.records or b"",
            "acquired_records": [acquired._asdict() for acquired in result.acquired],
        }
        partitions.append((key, result.error_code or code, fields))
    fields = _response_fields(node, request, refusal, lock_ms, partitions)
    fields["throttle_time"] = request.throttle_ms
    return [request.frame_response(encode_fields(response_type(request.api_key, request.version), fields))]


def _response_fields(
    node: ShareContext,
    request: Request,
    refusal: Outcome,
    lock_ms: int,
    partitions: Iterable[tuple[ShareKey, int, Fields]],
) -> Fields:
    """The fields of a ShareFetch or ShareAcknowledge response, from (key, error code, fields) of each partition.

    A partition that this broker does not lead names its leader (as in KIP-951).
    """
    topics: dict[uuid.UUID, list[Fields]] = {}
    leaders: set[int] = set()
    for key, code, fields in partitions:
        leader_id, leader_epoch = NO_LEADER
        if code in LEADER_ERRORS:
            leader_id, leader_epoch = node.replicas.current_leader(None, key.topic_id, key.partition)
            leaders.add(leader_id)
        leader = {"leader_id": leader_id, "leader_epoch": leader_epoch}
        topics.setdefault(key.topic_id, []).append(
            {"partition_index": key.partition, "current_leader": leader, **fields}
        )
    return {
        "error_code": refusal[0],
        "error_message": refusal[1],
        "acquisition_lock_timeout": lock_ms,
        "responses": [{"topic_id": topic_id, "partitions": results} for topic_id, results in topics.items()],
        "node_endpoints": [endpoint._asdict() for endpoint in node_endpoints(node, request, leaders)],
    }


def handle_share_acknowledge(node: ShareContext, request: Request) -> Response:
    """Answer ShareAcknowledge: accept, release, reject or renew acquired records, one result per partition (KIP-932,
    KIP-1222). The final epoch (-1) also closes the share session.

    The response is sent when the acknowledgements are durable. An error of the group or the session fails the whole
    request at once.
    """
    entity = request.decode()
    group_id, member_id = key = (entity.group_id or "", entity.member_id or "")
    requested = acknowledgements_of(entity.topics, group_id)
    writes: list[tuple[ShareKey | None, ShareWrite]] = []
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, READ, GROUP, group_id)
        ensure_session(node, key, entity.share_session_epoch)
    except KafkaError as error:
        return request.respond(_response_fields(node, request, (error.code, message_of(error)), 0, ()))
    outcomes = acknowledge(node, request, member_id, (requested, entity.is_renew_ack), writes)
    if entity.share_session_epoch == FINAL_EPOCH:
        writes += [(None, write) for write in node.share_partitions.close_session(key)]
    response = Deferred(request)

    def respond() -> None:
        lock_ms = node.groups.share.settings.lock_duration_ms(group_id)
        results = [
            (key, code, {"error_code": code, "error_message": message}) for key, (code, message) in outcomes.items()
        ]
        response.respond(_response_fields(node, request, DONE, lock_ms, results))

    call_when_written(writes, outcomes, respond)
    return response.result()


def call_when_written(
    writes: Sequence[tuple[ShareKey | None, ShareWrite]],
    outcomes: dict[ShareKey, Outcome],
    on_written: Callable[[], None],
) -> None:
    """Call `on_written` when all writes in `writes` to the share-group state have succeeded or failed; at once if there
    are none. The errors of partitions are put into `outcomes` first."""

    def over() -> None:
        for key, write in writes:
            if key is not None and write is not None and write.error is not None:
                outcomes[key] = (write.error.code, message_of(write.error))
        on_written()

    when_written([write for _, write in writes], over)


def ensure_session(node: ShareContext, key: tuple[str, str], epoch: int) -> None:
    """Check the share session and epoch of a ShareAcknowledge, and advance the session's epoch unless it is the final
    one (-1). Raises InvalidRequest without a member id, InvalidShareSessionEpoch or ShareSessionNotFound."""
    if not key[1]:
        raise InvalidRequest()
    sessions = node.share_partitions.sessions
    if epoch == INITIAL_EPOCH:
        raise InvalidShareSessionEpoch()
    if epoch == FINAL_EPOCH:
        sessions.find(key)
    else:
        sessions.at(key, epoch)


def acknowledgements_of(topics: Iterable[Any], group_id: str) -> dict[ShareKey, list[Acknowledgement]]:
    """The acknowledgements of a request by share partition; an empty list for a partition without any."""
    acknowledgements: dict[ShareKey, list[Acknowledgement]] = {}
    for topic in topics:
        for partition in topic.partitions:
            key = ShareKey(group_id, topic.topic_id, partition.partition_index)
            acknowledgements.setdefault(key, []).extend(
                Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in partition.acknowledgement_batches
            )
    return acknowledgements


def acknowledge(
    node: ShareContext,
    request: Request,
    member_id: str,
    requested: tuple[Mapping[ShareKey, Sequence[Acknowledgement]], bool],
    writes: list[tuple[ShareKey | None, ShareWrite]],
) -> dict[ShareKey, Outcome]:
    """Acknowledge records, partition by partition; returns (error code, message) of each. `requested` is the
    acknowledgements by share partition, and whether the request may renew locks.

    The writes that the response has to wait for are appended to `writes`.
    """
    by_partition, is_renewal = requested
    outcomes: dict[ShareKey, Outcome] = {}
    for key, acknowledgements in by_partition.items():
        try:
            name = node.replicas.topic_name(key.topic_id)
            if name is None:
                raise UnknownTopicId()
            if not node.authorize(request, READ, TOPIC, name):
                raise TopicAuthorizationFailed()
            _check(acknowledgements, may_renew=is_renewal)
            node.share_partitions.log_partition(key)
        except KafkaError as error:
            outcomes[key] = (error.code, None)
            continue
        try:
            if is_renewal and not node.groups.share.settings.may_renew(key.group_id):
                raise InvalidRecordState(NO_RENEWALS)
            writes.append((key, node.share_partitions.acknowledge(key, member_id, acknowledgements)))
            outcomes[key] = DONE
        except KafkaError as error:
            outcomes[key] = (error.code, str(error))
    return outcomes


def _check(acknowledgements: Sequence[Acknowledgement], *, may_renew: bool) -> None:
    """Raise InvalidRequest for acknowledgements that overlap or have wrong types
    (KafkaApis.validateAcknowledgementBatches)."""
    end = -1
    highest = RENEW if may_renew else RENEW - 1
    for batch in acknowledgements:
        if batch.first_offset > batch.last_offset or batch.first_offset < end:
            raise InvalidRequest()
        if not batch.types or (len(batch.types) > 1 and len(batch.types) != batch.last_offset - batch.first_offset + 1):
            raise InvalidRequest()
        if any(not GAP <= kind <= highest for kind in batch.types):
            raise InvalidRequest()
        end = batch.last_offset
