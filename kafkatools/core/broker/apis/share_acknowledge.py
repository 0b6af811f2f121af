"""ShareAcknowledge (key 79), versions 1-2: what members of a share group did with records (KIP-932, KIP-1222)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.consumer_group_heartbeat import message_of
from kafkatools.core.broker.apis.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.coordinators.share_state.pending import Kept, PendingWrite, when_kept
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ, TOPIC
from kafkatools.core.broker.replicas.replica_manager import LEADER_ERRORS
from kafkatools.core.broker.replicas.share.partition import GAP, RENEW, Acknowledgement
from kafkatools.core.broker.replicas.share.session import FINAL_EPOCH, INITIAL_EPOCH
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicId,
)

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_RENEWAL = 2
NO_LEADER = (0, 0)
Outcome = tuple[int, str | None]
DONE: Outcome = (0, None)


def handle(node: Node, request: Request) -> Response:
    """One answer for each partition."""
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
    is_renewal = request.version >= FIRST_VERSION_OF_RENEWAL and entity.is_renew_ack
    outcomes = acknowledge(node, request, member_id, (wanted, is_renewal), kept)
    if entity.share_session_epoch == FINAL_EPOCH:
        kept += [(None, each) for each in node.share_partitions.close_session(key)]
    later = LaterResponse(request)
    tell_when_kept(node, kept, outcomes, lambda: later.respond(_fields(node, request, key[0], DONE, outcomes)))
    return later.returned()


def tell_when_kept(
    node: Node,
    kept: Sequence[tuple[ShareKey | None, Kept]],
    outcomes: dict[ShareKey, Outcome],
    tell: Callable[[], None],
) -> None:
    """Answer when all is kept; what was not has its error in `outcomes` by then."""

    def over() -> None:
        for key, each in kept:
            if key is not None and isinstance(each, PendingWrite) and each.error is not None:
                outcomes[key] = (each.error.code, message_of(each.error))
        tell()

    when_kept(node.coordination.durability, [each for _, each in kept], over)


def ensure_session(node: Node, key: tuple[str, str], epoch: int) -> None:
    """The session an acknowledgement belongs to, one epoch further. Raises a KafkaError."""
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
    """What a request says of each partition; an empty list where it says nothing."""
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
    node: Node,
    request: Request,
    member_id: str,
    said: tuple[Mapping[ShareKey, Sequence[Acknowledgement]], bool],
    kept: list[tuple[ShareKey | None, Kept]],
) -> dict[ShareKey, Outcome]:
    """Do it, partition by partition; `kept` gets what is to be waited for. `said` also tells whether records may
    be renewed."""
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
    """InvalidRequest (KafkaApis.validateAcknowledgementBatches)."""
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
    node: Node, request: Request, group_id: str, refusal: Outcome, outcomes: Mapping[ShareKey, Outcome]
) -> dict[str, Any]:
    topics: dict[Any, list[dict[str, Any]]] = {}
    leaders: set[int] = set()
    for key, (code, message) in outcomes.items():
        leader = leader_of(node, key, code)
        if leader is not NO_LEADER:
            leaders.add(leader[0])
        topics.setdefault(key.topic_id, []).append(
            {
                "partition_index": key.partition,
                "error_code": code,
                "error_message": message,
                "current_leader": {"leader_id": leader[0], "leader_epoch": leader[1]},
            }
        )
    return {
        "error_code": refusal[0],
        "error_message": refusal[1],
        "acquisition_lock_timeout": 0 if refusal[0] else node.groups.share.settings.lock_duration_ms(group_id),
        "responses": [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
        "node_endpoints": [
            {"node_id": node_id, "host": host, "port": port, "rack": rack}
            for node_id, host, port, rack in endpoints(node, request, leaders)
        ],
    }


def leader_of(node: Node, key: ShareKey, code: int) -> tuple[int, int]:
    """Who leads a partition that this node does not lead, and in which epoch; else NO_LEADER (as KIP-951)."""
    if code not in LEADER_ERRORS:
        return NO_LEADER
    return node.replicas.current_leader(None, key.topic_id, key.partition)


def endpoints(node: Node, request: Request, leaders: Iterable[int]) -> list[tuple[int, str, int, str | None]]:
    """Where clients of this listener find these brokers: node id, host, port, rack."""
    found = [(each, node.replicas.endpoint(each, request.listener_name)) for each in sorted(leaders)]
    return [(each, *endpoint) for each, endpoint in found if endpoint is not None]
