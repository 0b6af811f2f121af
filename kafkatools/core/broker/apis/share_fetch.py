"""Handlers for the records of share groups (KIP-932): ShareFetch, ShareAcknowledge."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkatools.core.broker.apis.consumer_groups import message_of
from kafkatools.core.broker.apis.contexts import ShareContext
from kafkatools.core.broker.apis.fetch import node_endpoints
from kafkatools.core.broker.apis.share_groups import ensure_enabled
from kafkatools.core.broker.coordinators.share_state.pending import Kept, PendingWrite, when_kept
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


def handle_share_fetch(node: ShareContext, request: Request) -> Response:
    """Answer ShareFetch: acknowledge records, then acquire records for a member of a share group, within the request's
    maximum wait (KIP-932).

    Version 2 adds the record limit mode (KIP-1206) and the renewal of acquisition locks (KIP-1222). The response is
    sent when the acknowledgements are durable.
    """
    entity = request.decode()
    member_id = entity.member_id or ""
    group_id = entity.group_id or ""
    said = acknowledgements_of(entity.topics, group_id)
    acknowledged = {key: batches for key, batches in said.items() if batches}
    is_renewal = entity.is_renew_ack
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, READ, GROUP, group_id)
        session = _session(node, request, entity, said, has_acknowledgements=bool(acknowledged))
    except KafkaError as error:
        return _respond(node, request, (error.code, message_of(error)), 0, {}, {})
    kept: list[tuple[ShareKey | None, Kept]] = []
    outcomes = acknowledge(node, request, member_id, (acknowledged, is_renewal), kept)
    answer = _Answer(node, request, group_id, outcomes, kept)
    if session is None:
        kept += [(None, each) for each in node.share_partitions.close_session((group_id, member_id))]
        answer.give({})
        return answer.result()
    wish = Wish(member_id, entity.max_records, max(entity.batch_size, 1), entity.share_acquire_mode)
    if is_renewal and entity.max_records <= 0:
        answer.give({})
        return answer.result()
    _fetch(node, entity, session, wish, answer)
    return answer.result()


def _session(
    node: ShareContext, request: Request, entity: Entity, said: Mapping[ShareKey, object], *, has_acknowledgements: bool
) -> ShareSession | None:
    """Open or continue the share session of a ShareFetch; None when the request closes it. Raises InvalidRequest and
    the errors of `ShareSessions.open_or_go_on`."""
    group_id, member_id = entity.group_id or "", entity.member_id or ""
    if not member_id or _is_bad_renewal(entity):
        raise InvalidRequest()
    sessions = node.share_partitions.sessions
    if entity.share_session_epoch == FINAL_EPOCH:
        sessions.find((group_id, member_id))
        return None
    wanted = [(key.topic_id, key.partition) for key in said]
    forgotten = [(topic.topic_id, index) for topic in entity.forgotten_topics_data for index in topic.partitions]
    node.share_partitions.watch_connection(request.connection)
    return sessions.open_or_go_on(
        (group_id, member_id),
        entity.share_session_epoch,
        request.connection,
        (wanted, forgotten),
        has_acknowledgements=has_acknowledgements,
    )


def _is_bad_renewal(entity: Entity) -> bool:
    """Whether a request that renews acquisition locks also asks for records, which KIP-1222 forbids."""
    asks_for_records = entity.max_bytes or entity.min_bytes or entity.max_records or entity.max_wait
    return bool(entity.is_renew_ack and asks_for_records)


@dataclass(eq=False, repr=False)
class _Answer:
    """The response to one ShareFetch request. It is sent now or later, when its acknowledgements are durable."""

    node: ShareContext
    request: Request
    group_id: str
    outcomes: dict[ShareKey, Outcome]
    kept: Sequence[tuple[ShareKey | None, Kept]]
    _later: Deferred = field(init=False)

    def __post_init__(self) -> None:
        self._later = Deferred(self.request)

    def give(self, fetched: Mapping[ShareKey, ShareFetched]) -> None:
        """Respond with these records as soon as the acknowledgements are durable."""
        lock_ms = self.node.groups.share.settings.lock_duration_ms(self.group_id)

        def tell() -> None:
            self._later.complete(_respond(self.node, self.request, DONE, lock_ms, fetched, self.outcomes))

        tell_when_kept(self.node, self.kept, self.outcomes, tell)

    def result(self) -> Response:
        """The response, or DELAYED, for the handler to return."""
        return self._later.result()


def _fetch(node: ShareContext, entity: Entity, session: ShareSession, wish: Wish, answer: _Answer) -> None:
    keys = [ShareKey(answer.group_id, *place) for place in session.partitions]
    refused = _refused(node, answer.request, keys)
    allowed = [key for key in keys if key not in refused]
    manager = node.share_partitions

    def complete() -> None:
        if answer.request.connection.is_closed:
            return
        fetched: dict[ShareKey, ShareFetched] = dict(refused)
        left, max_bytes = wish.max_records, entity.max_bytes
        for key in allowed:
            if left <= 0 or max_bytes <= 0:
                break
            found = manager.read(key, max_bytes, wish._replace(max_records=left))
            left -= found.count
            if found.records is not None:
                max_bytes -= len(found.records)
                session.rotate((key.topic_id, key.partition))
            if found.error_code or found.acquired:
                fetched[key] = found
        if entity.share_session_epoch == INITIAL_EPOCH:
            fetched = {key: fetched.get(key) or ShareFetched() for key in keys}
        answer.give(fetched)

    wait_ms = 0 if refused else entity.max_wait
    waiting = DelayedShareFetch(wait_ms, manager, allowed, entity.min_bytes, complete)
    if wait_ms <= 0:
        waiting.force_complete()
        return
    watched: list[Any] = [*allowed, *((key.topic_id, key.partition) for key in allowed)]
    node.fetch_purgatory.try_complete_else_watch(waiting, watched, node.clock.now_ms())


def _refused(node: ShareContext, request: Request, keys: Sequence[ShareKey]) -> dict[ShareKey, ShareFetched]:
    refused = {}
    for key in keys:
        name = node.replicas.topic_name(key.topic_id)
        if name is None:
            refused[key] = ShareFetched(error_code=UnknownTopicId.code, error_message=str(UnknownTopicId()))
        elif not node.authorize(request, READ, TOPIC, name):
            error = TopicAuthorizationFailed()
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
    topics: dict[uuid.UUID, list[Fields]] = {}
    leaders: set[int] = set()
    for key in dict.fromkeys((*fetched, *outcomes)):
        found = fetched.get(key) or ShareFetched()
        code, message = outcomes.get(key, DONE)
        fields = {
            "partition_index": key.partition,
            "error_code": found.error_code,
            "error_message": found.error_message,
            "acknowledge_error_code": code,
            "acknowledge_error_message": message,
            "current_leader": _leader_fields(node, key, found.error_code or code, leaders),
            "records": found.records or b"",
            "acquired_records": [each._asdict() for each in found.acquired],
        }
        topics.setdefault(key.topic_id, []).append(fields)
    fields = _response_fields(node, request, refusal, topics, leaders)
    fields.update(throttle_time=request.throttle_ms, acquisition_lock_timeout=lock_ms)
    return [request.frame_response(encode_fields(response_type(request.api_key, request.version), fields))]


def _leader_fields(node: ShareContext, key: ShareKey, code: int, leaders: set[int]) -> Fields:
    """The field CurrentLeader for a partition with an error code; adds the leader's id to `leaders`."""
    leader_id, leader_epoch = leader = leader_of(node, key, code)
    if leader is not NO_LEADER:
        leaders.add(leader_id)
    return {"leader_id": leader_id, "leader_epoch": leader_epoch}


def _response_fields(
    node: ShareContext,
    request: Request,
    refusal: Outcome,
    topics: Mapping[uuid.UUID, list[Fields]],
    leaders: Iterable[int],
) -> Fields:
    """The fields that ShareFetch and ShareAcknowledge responses have in common."""
    return {
        "error_code": refusal[0],
        "error_message": refusal[1],
        "responses": [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
        "node_endpoints": [each._asdict() for each in node_endpoints(node, request, leaders)],
    }


def handle_share_acknowledge(node: ShareContext, request: Request) -> Response:
    """Answer ShareAcknowledge: accept, release, reject or renew acquired records, one result per partition (KIP-932,
    KIP-1222). The response is sent when the acknowledgements are durable."""
    entity = request.decode()
    member_id = entity.member_id or ""
    key = (entity.group_id or "", member_id)
    wanted = acknowledgements_of(entity.topics, key[0])
    kept: list[tuple[ShareKey | None, Kept]] = []
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, READ, GROUP, key[0])
        ensure_session(node, key, entity.share_session_epoch)
    except KafkaError as error:
        return request.respond(_fields(node, request, key[0], (error.code, message_of(error)), {}))
    outcomes = acknowledge(node, request, member_id, (wanted, entity.is_renew_ack), kept)
    if entity.share_session_epoch == FINAL_EPOCH:
        kept += [(None, each) for each in node.share_partitions.close_session(key)]
    later = Deferred(request)
    tell_when_kept(node, kept, outcomes, lambda: later.respond(_fields(node, request, key[0], DONE, outcomes)))
    return later.result()


def tell_when_kept(
    node: ShareContext,
    kept: Sequence[tuple[ShareKey | None, Kept]],
    outcomes: dict[ShareKey, Outcome],
    tell: Callable[[], None],
) -> None:
    """Call `tell` when all acknowledgements in `kept` are durable; a failed write puts its error into `outcomes`
    first."""

    def over() -> None:
        for key, each in kept:
            if key is not None and isinstance(each, PendingWrite) and each.error is not None:
                outcomes[key] = (each.error.code, message_of(each.error))
        tell()

    when_kept(node.coordination.host, [each for _, each in kept], over)


def ensure_session(node: ShareContext, key: tuple[str, str], epoch: int) -> None:
    """Check the share session and epoch of a ShareAcknowledge, and advance the epoch. Raises InvalidRequest,
    InvalidShareSessionEpoch or ShareSessionNotFound."""
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
    found: dict[ShareKey, list[Acknowledgement]] = {}
    for topic in topics:
        for partition in topic.partitions:
            said = found.setdefault(ShareKey(group_id, topic.topic_id, partition.partition_index), [])
            said += [
                Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in partition.acknowledgement_batches
            ]
    return found


def acknowledge(
    node: ShareContext,
    request: Request,
    member_id: str,
    said: tuple[Mapping[ShareKey, Sequence[Acknowledgement]], bool],
    kept: list[tuple[ShareKey | None, Kept]],
) -> dict[ShareKey, Outcome]:
    """Acknowledge records, partition by partition; returns (error code, message) of each. `said` is the
    acknowledgements and whether the request may renew locks; writes to wait for are added to `kept`."""
    wanted, is_renewal = said
    outcomes: dict[ShareKey, Outcome] = {}
    for key, acknowledgements in wanted.items():
        try:
            name = node.replicas.topic_name(key.topic_id)
            if name is None:
                raise UnknownTopicId()
            if not node.authorize(request, READ, TOPIC, name):
                raise TopicAuthorizationFailed()
            may_renew = is_renewal and node.groups.share.settings.may_renew(key.group_id)
            _check(acknowledgements, may_renew=may_renew)
            node.share_partitions.log_partition(key)
        except KafkaError as error:
            outcomes[key] = (error.code, None)
            continue
        try:
            kept.append((key, node.share_partitions.acknowledge(key, member_id, acknowledgements)))
            outcomes[key] = DONE
        except KafkaError as error:
            outcomes[key] = (error.code, str(error))
    return outcomes


def _check(acknowledgements: Sequence[Acknowledgement], *, may_renew: bool) -> None:
    """Raise InvalidRequest for acknowledgements that overlap or have wrong types
    (KafkaApis.validateAcknowledgementBatches)."""
    end = -1
    highest = RENEW if may_renew else RENEW - 1
    for each in acknowledgements:
        if each.first_offset > each.last_offset or each.first_offset < end:
            raise InvalidRequest()
        if not each.types or (len(each.types) > 1 and len(each.types) != each.last_offset - each.first_offset + 1):
            raise InvalidRequest()
        if any(not GAP <= kind <= highest for kind in each.types):
            raise InvalidRequest()
        end = each.last_offset


def _fields(
    node: ShareContext, request: Request, group_id: str, refusal: Outcome, outcomes: Mapping[ShareKey, Outcome]
) -> Fields:
    topics: dict[uuid.UUID, list[Fields]] = {}
    leaders: set[int] = set()
    for key, (code, message) in outcomes.items():
        fields = {
            "partition_index": key.partition,
            "error_code": code,
            "error_message": message,
            "current_leader": _leader_fields(node, key, code, leaders),
        }
        topics.setdefault(key.topic_id, []).append(fields)
    lock_ms = 0 if refusal[0] else node.groups.share.settings.lock_duration_ms(group_id)
    fields = _response_fields(node, request, refusal, topics, leaders)
    return {**fields, "acquisition_lock_timeout": lock_ms}


def leader_of(node: ShareContext, key: ShareKey, code: int) -> tuple[int, int]:
    """The (leader id, leader epoch) for an error code that says this broker does not lead the partition; else NO_LEADER
    (KIP-951)."""
    if code not in LEADER_ERRORS:
        return NO_LEADER
    return node.replicas.current_leader(None, key.topic_id, key.partition)
