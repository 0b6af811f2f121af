"""Faults of requests: the interceptor of a node's listener.

Of the faults that hit a request, delays add up, then the first other one decides. A dropped request mutes its
connection, as any delayed request does, until its client closes it.
"""

from __future__ import annotations

import select
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkatools.core.broker.replicas.fetch_partition import FetchPartition
from kafkatools.core.broker.replicas.fetch_session import session_id_of
from kafkatools.core.broker.server.acceptor import Dispatch
from kafkatools.core.broker.server.requests import DELAYED, SLICED, Client, CloseConnection, Request, Response
from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import decode_request_header
from kafkatools.sandbox.faults.active import ActiveFault
from kafkatools.sandbox.faults.changed_responses import answered
from kafkatools.sandbox.faults.responses import erroneous, topics_in
from kafkatools.sandbox.faults.spec import ALL, CLIENTS, CUT, DELAY, DROP, ERROR, NODES, READS

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

_CLOSED_CHECK_MS = 1000
_OF_NODES = frozenset(
    {api for api in ApiKey if api.is_between_nodes or "SHARE_GROUP_STATE" in api.name} | {ApiKey.WRITE_TXN_MARKERS}
)
"""The APIs of requests that nodes send to each other, also through the listener of clients."""


class RequestFaults:
    """The interceptor with these faults."""

    def __init__(self, faults: Sequence[ActiveFault], node: Node) -> None:
        self._faults = faults
        self._node = node

    def __call__(self, request: Request, dispatch: Dispatch) -> Response:
        """Handle a request as the faults that hit it say. Raises CloseConnection."""
        faults = [fault for fault in self._faults if self._hits(fault, request, dispatch)]
        if not faults:
            return dispatch(request)
        delay_ms = sum(fault.spec.delay_ms for fault in faults if fault.spec.kind == DELAY)
        end = next((fault for fault in faults if fault.spec.kind != DELAY), None)
        for fault in faults:
            fault.hits += fault.spec.kind == DELAY or fault is end
        if not delay_ms:
            return self._end(end, request, dispatch)
        request.frame = memoryview(bytearray(request.frame))  # the buffer of the connection is used again
        self._node.listener.schedule(delay_ms, lambda now_ms: self._end_later(end, request, dispatch))
        return DELAYED

    def _hits(self, fault: ActiveFault, request: Request, dispatch: Dispatch) -> bool:
        spec = fault.spec
        if fault.api_keys and request.api_key not in fault.api_keys:
            return False
        if spec.senders not in (ALL, NODES if self._is_of_node(request) else CLIENTS):
            return False
        api = dispatch.apis.get(request.api_key)
        if api is None or not api.lowest <= request.version <= api.highest:
            return False  # the dispatcher closes the connection, or answers ApiVersions
        if spec.client is not None or spec.topic is not None or spec.kind == ERROR:
            request.is_flexible = request.version >= api.flexible_since
            try:
                header = decode_request_header(request.frame)
            except DecodeError:
                return False
            request.client_id, request.body_offset = header.client_id, header.body_offset
        return spec.has_client(request.client_id) and self._has_topic(fault, request) and fault.chooses()

    def _is_of_node(self, request: Request) -> bool:
        if request.connection.is_peer or request.api_key in _OF_NODES:
            return True
        return request.api_key == ApiKey.FETCH and self._is_fetch_of_follower(request)

    def _is_fetch_of_follower(self, request: Request) -> bool:
        try:
            request.body_offset = decode_request_header(request.frame).body_offset
            entity = request.decode()
        except (DecodeError, CloseConnection):
            return False
        replica = getattr(entity, "replica_state", None)
        return max(getattr(entity, "replica_id", -1), -1 if replica is None else replica.replica_id) >= 0

    def _has_topic(self, fault: ActiveFault, request: Request) -> bool:
        if fault.spec.topic is None:
            return True
        if fault.spec.kind == ERROR and request.api_key in READS:
            return True  # the topics are those of the response
        return any(fault.spec.has_topic(name) for name in self._topics(request))

    def _topics(self, request: Request) -> Iterator[str | None]:
        """The topics of a request; of a Fetch request also those of its session."""
        yield from topics_in(request.decode(), self.name_of)
        if request.api_key == ApiKey.FETCH:
            session_id = session_id_of(request.frame[request.body_offset :], request.version)
            for partition in self._partitions_of(session_id):
                yield partition.topic or self.name_of(partition.topic_id)

    def _partitions_of(self, session_id: int) -> list[FetchPartition]:
        """The partitions of a fetch session of a consumer or a follower."""
        session = self._node.fetch_sessions.sessions.get(session_id)
        if session is not None:
            return [partition.fetch_partition for partition in session.partitions.values()]
        replication = self._node.replicas.replication
        return [] if replication is None else replication.sessions.requested_by(session_id)

    def name_of(self, topic_id: uuid.UUID | None) -> str | None:
        """The name of a topic, None for an unknown id."""
        state = self._node.image.topics_by_id.get(topic_id) if topic_id is not None else None
        return None if state is None else state.name

    # -- what happens to the request -------------------------------------------------------------------------------
    def _end_later(self, end: ActiveFault | None, request: Request, dispatch: Dispatch) -> None:
        """Handle a delayed request, as `Connection` handles one that has just arrived."""
        if request.connection.is_closed:
            return
        try:
            response = self._end(end, request, dispatch)
        except CloseConnection:
            request.connection.close()
            return
        if response is SLICED:
            request.connection.begin_slices()
        elif response is not DELAYED:
            request.complete(response)

    def _end(self, fault: ActiveFault | None, request: Request, dispatch: Dispatch) -> Response:
        if fault is None:
            return dispatch(request)
        if fault.spec.kind == DROP:
            self._close_when_deserted(request.connection)
            return DELAYED
        if fault.spec.kind == CUT and not fault.spec.after:
            raise CloseConnection("a fault of the sandbox")
        if fault.spec.kind == CUT:
            return answered(request, dispatch, _refuse)
        return erroneous(request, dispatch, fault.spec, self.name_of)

    def _close_when_deserted(self, connection: Client) -> None:
        """Close the muted connection of a dropped request once its client has closed it: nothing reads from it."""

        def check(now_ms: int) -> None:
            if connection.is_closed:
                return
            poll = select.poll()
            poll.register(connection.socket, select.POLLRDHUP)
            if poll.poll(0):
                connection.close()
            else:
                self._node.listener.schedule(_CLOSED_CHECK_MS, check)

        self._node.listener.schedule(_CLOSED_CHECK_MS, check)


def _refuse(response: Response) -> Response:
    raise CloseConnection("a fault of the sandbox")
