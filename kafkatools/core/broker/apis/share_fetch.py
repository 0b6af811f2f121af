"""ShareFetch (key 78), versions 1-2: records for a member of a share group, and its acknowledgements (KIP-932).

Framed by hand. Record limit mode (KIP-1206) and renewal of locks (KIP-1222) are of version 2.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from struct import Struct, pack
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.consumer_group_heartbeat import message_of
from kafkatools.core.broker.apis.join_group import to_ms
from kafkatools.core.broker.apis.share_acknowledge import (
    DONE,
    NO_LEADER,
    Outcome,
    acknowledge,
    acknowledgements_of,
    endpoints,
    leader_of,
    tell_when_kept,
)
from kafkatools.core.broker.apis.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.coordinators.share_state.pending import Kept
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ, TOPIC
from kafkatools.core.broker.replicas.share.delayed_share_fetch import DelayedShareFetch
from kafkatools.core.broker.replicas.share.fetch_read import ShareFetched
from kafkatools.core.broker.replicas.share.partition import BATCH_OPTIMIZED, Wish
from kafkatools.core.broker.replicas.share.session import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Part, Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError, TopicAuthorizationFailed, UnknownTopicId
from kafkatools.core.protocol.plans import UUID_ZERO
from kafkatools.core.protocol.varints import unsigned_varint

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_MODES = 2
_LEADER = Struct(">iib")
_ACQUIRED = Struct(">qqhb")


def handle(node: Node, request: Request) -> Response:
    """Acknowledge first, then acquire now or wait."""
    entity = request.decode()
    has_modes = request.version >= FIRST_VERSION_OF_MODES
    member_id = entity.member_id or ""
    group_id = entity.group_id or ""
    said = acknowledgements_of(entity.topics, group_id)
    acknowledged = {key: batches for key, batches in said.items() if batches}
    is_renewal = has_modes and entity.is_renew_ack
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
        return answer.returned()
    mode = entity.share_acquire_mode if has_modes else BATCH_OPTIMIZED
    wish = Wish(member_id, entity.max_records, max(entity.batch_size, 1), mode)
    if is_renewal and entity.max_records <= 0:
        answer.give({})
        return answer.returned()
    _fetch(node, entity, session, wish, answer)
    return answer.returned()


def _session(
    node: Node, request: Request, entity: Any, said: Mapping[ShareKey, object], *, has_acknowledgements: bool
) -> ShareSession | None:
    """The session, None when it is to end. Raises a KafkaError."""
    group_id, member_id = entity.group_id or "", entity.member_id or ""
    if not member_id or _is_bad_renewal(request, entity):
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


def _is_bad_renewal(request: Request, entity: Any) -> bool:
    """Whether a request that renews locks asks for records too (KIP-1222)."""
    if request.version < FIRST_VERSION_OF_MODES or not entity.is_renew_ack:
        return False
    return bool(entity.max_bytes or entity.min_bytes or entity.max_records or to_ms(entity.max_wait))


class _Answer:
    """The answer of one request: given now or later, and only when what was acknowledged is durable."""

    def __init__(
        self,
        node: Node,
        request: Request,
        group_id: str,
        outcomes: dict[ShareKey, Outcome],
        kept: Sequence[tuple[ShareKey | None, Kept]],
    ) -> None:
        self._node = node
        self.request = request
        self.group_id = group_id
        self._outcomes = outcomes
        self._kept = kept
        self._later = LaterResponse(request)

    def give(self, fetched: Mapping[ShareKey, ShareFetched]) -> None:
        """These are the records."""
        lock_ms = self._node.groups.share.settings.lock_duration_ms(self.group_id)

        def tell() -> None:
            self._later.give(_respond(self._node, self.request, DONE, lock_ms, fetched, self._outcomes))

        tell_when_kept(self._node, self._kept, self._outcomes, tell)

    def returned(self) -> Response:
        """What the handler returns."""
        return self._later.returned()


def _fetch(node: Node, entity: Any, session: ShareSession, wish: Wish, answer: _Answer) -> None:
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

    wait_ms = 0 if refused else to_ms(entity.max_wait)
    waiting = DelayedShareFetch(wait_ms, manager, allowed, entity.min_bytes, complete)
    if wait_ms <= 0:
        waiting.force_complete()
        return
    watched: list[Any] = [*allowed, *((key.topic_id, key.partition) for key in allowed)]
    node.fetch_purgatory.try_complete_else_watch(waiting, watched, node.clock.now_ms())


def _refused(node: Node, request: Request, keys: Sequence[ShareKey]) -> dict[ShareKey, ShareFetched]:
    refused = {}
    for key in keys:
        name = node.replicas.topic_name(key.topic_id)
        if name is None:
            refused[key] = ShareFetched(error_code=UnknownTopicId.code, error_message=str(UnknownTopicId()))
        elif not node.authorize(request, READ, TOPIC, name):
            error = TopicAuthorizationFailed()
            refused[key] = ShareFetched(error_code=error.code, error_message=str(error))
    return refused


# -- framing -----------------------------------------------------------------------------------------------------------
def _respond(
    node: Node,
    request: Request,
    refusal: Outcome,
    lock_ms: int,
    fetched: Mapping[ShareKey, ShareFetched],
    outcomes: Mapping[ShareKey, Outcome],
) -> list[Part]:
    """The response; records stay where they are."""
    out = bytearray(pack(">ih", request.throttle_ms, refusal[0]) + _text(refusal[1]) + pack(">i", lock_ms))
    topics: dict[uuid.UUID, list[ShareKey]] = {}
    for key in dict.fromkeys((*fetched, *outcomes)):
        topics.setdefault(key.topic_id, []).append(key)
    parts: list[bytes | bytearray | memoryview] = []
    leaders: set[int] = set()
    out += unsigned_varint(len(topics) + 1)
    for topic_id, keys in topics.items():
        out += (topic_id or UUID_ZERO).bytes + unsigned_varint(len(keys) + 1)
        for key in keys:
            found = fetched.get(key) or ShareFetched()
            code, message = outcomes.get(key, DONE)
            out += pack(">ih", key.partition, found.error_code) + _text(found.error_message)
            leader = leader_of(node, key, found.error_code or code)
            if leader is not NO_LEADER:
                leaders.add(leader[0])
            out += pack(">h", code) + _text(message) + _LEADER.pack(*leader, 0)
            size = 0 if found.records is None else len(found.records)
            out += unsigned_varint(size + 1)
            if found.records is not None:
                parts += [out, found.records]
                out = bytearray()
            out += unsigned_varint(len(found.acquired) + 1)
            for each in found.acquired:
                out += _ACQUIRED.pack(*each, 0)
            out += b"\0"
        out += b"\0"
    out += _endpoints(node, request, leaders) + b"\0"
    following = sum(map(len, parts)) + len(out)
    head = request.frame_response(b"", following)
    return [head, *parts, out]


def _endpoints(node: Node, request: Request, leaders: Collection[int]) -> bytes:
    found = endpoints(node, request, leaders)
    out = bytearray(unsigned_varint(len(found) + 1))
    for node_id, host, port, rack in found:
        out += pack(">i", node_id) + _text(host) + pack(">i", port) + _text(rack) + b"\0"
    return bytes(out)


def _text(text: str | None) -> bytes:
    """A compact nullable string."""
    if text is None:
        return b"\0"
    data = text.encode()
    return unsigned_varint(len(data) + 1) + data
