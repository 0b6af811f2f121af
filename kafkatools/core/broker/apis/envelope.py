"""Handler for Envelope: a client's request that another node forwarded to this controller (Kafka's EnvelopeUtils).

The response to a change is sent when all records that the controller had written by then are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from kafkatools.core.broker.server.apis import BROKER_APIS, FORWARDED, AnsweredBy, Authorizes, ensure_permitted
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.forwarding import ControllerMember, run_on_controller
from kafkatools.core.broker.server.requests import DELAYED, CloseConnection, Request, Response
from kafkatools.core.errors import DecodeError, InvalidRequest, NotController, RequestTimedOut
from kafkatools.core.protocol.frames import decode_request_header

_HEADER = Struct(">hhi")


class EnvelopeContext(ControllerMember, Authorizes, Protocol):
    """A node whose controller executes requests that other nodes forward for their clients."""


def handle_envelope(node: EnvelopeContext, request: Request) -> Response:
    """Answer Envelope with the response to the forwarded request.

    The error NOT_CONTROLLER means that nothing was changed, REQUEST_TIMED_OUT that the outcome is unknown. Raises
    ClusterAuthorizationFailed, and InvalidRequest for a request that is malformed or not forwarded.
    """
    return _Envelope(node, request).begin()


class _EnvelopeConnection:
    """A stand-in for the connection of a client whose request another node forwarded."""

    def __init__(self, outer: Request, client_host: str, complete: Callable[[Response], None]) -> None:
        self.acceptor = outer.connection.acceptor
        self.client_host = client_host
        self.complete = complete
        self.is_closed = False

    def throttle(self, delay_ms: int) -> None:
        """Do nothing: the node that forwarded the request throttles the client."""

    def close(self) -> None:
        """Do nothing: the client is connected to the node that forwarded the request."""


class _Envelope:
    def __init__(self, node: EnvelopeContext, request: Request) -> None:
        self._node = node
        self._request = request
        self._later = Deferred(request)

    def begin(self) -> Response:
        """Execute the forwarded request; returns the response, or DELAYED until its records are committed. Raises
        ClusterAuthorizationFailed or InvalidRequest."""
        import ipaddress

        entity = self._request.decode()
        ensure_permitted(self._node, self._request)
        try:
            host = str(ipaddress.ip_address(bytes(entity.client_host_address)))
            inner = self._inner(bytes(entity.request_data), host)
        except (ValueError, DecodeError, KeyError) as error:
            raise InvalidRequest() from error
        node, api = self._node, BROKER_APIS[inner.api_key]
        handler = api.load()
        try:
            give_up = self._refuse if api.answered_by is AnsweredBy.FORWARDED_READ else self._give_up
            run_on_controller(node, inner.api_key, lambda: handler(node, inner), self._finish, self._refuse, give_up)
        except CloseConnection as error:
            raise InvalidRequest() from error
        return self._later.result()

    def _inner(self, data: bytes, client_host: str) -> Request:
        frame = memoryview(bytearray(data))
        if len(frame) < _HEADER.size:
            raise DecodeError("a request without a header")
        key, version, correlation_id = _HEADER.unpack_from(frame)
        api = BROKER_APIS[key]
        if api.answered_by not in FORWARDED or not api.lowest <= version <= api.highest:
            raise DecodeError(f"{api.name} v{version} is not forwarded")
        connection: Any = _EnvelopeConnection(self._request, client_host, self._finish)
        inner = Request(connection, frame, (key, version, correlation_id))
        header = decode_request_header(frame)
        inner.client_id, inner.body_offset = header.client_id, header.body_offset
        inner.is_flexible = version >= api.flexible_since
        return inner

    def _finish(self, response: Response) -> None:
        if response is DELAYED:
            return
        data = b"".join(bytes(part) for part in response if not hasattr(part, "position"))
        self._later.respond({"response_data": data[4:]})

    def _refuse(self) -> None:
        """Respond NOT_CONTROLLER: nothing was changed, so another controller may execute the request."""
        self._later.respond({"error_code": NotController.code})

    def _give_up(self) -> None:
        """Respond REQUEST_TIMED_OUT: whether the change was made is unknown."""
        self._later.respond({"error_code": RequestTimedOut.code})
