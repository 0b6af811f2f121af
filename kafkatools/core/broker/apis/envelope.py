"""Handler for Envelope: a client's request that another node forwarded to this controller (Kafka's EnvelopeUtils).

The response to a change is sent when all records that the controller had written by then are committed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Protocol

from kafkatools.core.broker.security.principal_data import ClientPrincipal, decode_principal
from kafkatools.core.broker.server.apis import BROKER_APIS, FORWARDED, Authorizes, ServedBy, decode_permitted
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.forwarding import ControllerMember, run_on_controller
from kafkatools.core.broker.server.requests import DELAYED, CloseConnection, Request, Response
from kafkatools.core.errors import DecodeError, InvalidRequest, NotController, RequestTimedOut
from kafkatools.core.net.addresses import java_address
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.frames import decode_request_header

_HEADER = Struct(">hhi")


class EnvelopeContext(ControllerMember, Authorizes, Protocol):
    """A node whose controller executes requests that other nodes forward for their clients."""


def handle_envelope(node: EnvelopeContext, request: Request) -> Response:
    """Answer Envelope with the response to the forwarded request; DELAYED until its records are committed.

    The error NOT_CONTROLLER means that nothing was changed, REQUEST_TIMED_OUT that the outcome is unknown. Raises
    ClusterAuthorizationFailed, and InvalidRequest for a request that is malformed or not forwarded.
    """
    import ipaddress

    entity = decode_permitted(node, request)
    later = Deferred(request)

    def finish(response: Response) -> None:
        if response is not DELAYED:
            data = b"".join(bytes(part) for part in response if not hasattr(part, "position"))
            later.respond({"response_data": data[4:]})

    def fail(code: int) -> None:
        later.respond({"error_code": code})

    try:
        client_host = java_address(str(ipaddress.ip_address(bytes(entity.client_host_address))))
        connection: Any = _EnvelopeConnection(request, _principal(request, entity), client_host, finish)
        inner = _forwarded_request(connection, bytes(entity.request_data))
        inner.pause = request.pause
    except (ValueError, DecodeError, KeyError) as error:
        raise InvalidRequest() from error
    api = BROKER_APIS[inner.api_key]
    work = partial(api.load(), node, inner)
    refuse = partial(fail, NotController.code)  # another controller may execute the request
    give_up = refuse if api.served_by is ServedBy.FORWARDED_READ else partial(fail, RequestTimedOut.code)
    try:
        run_on_controller(node, inner.api_key, work, finish, refuse, give_up, request.pause)
    except CloseConnection as error:
        raise InvalidRequest() from error
    return later.result()


def _principal(request: Request, entity: Entity) -> ClientPrincipal:
    """The principal of the forwarded request; without one that of the node which sent the Envelope. Raises
    DecodeError."""
    if not entity.request_principal:
        return ClientPrincipal(request.principal, False)
    return decode_principal(bytes(entity.request_principal))


class _EnvelopeConnection:
    """A stand-in for the connection of a client whose request another node forwarded."""

    def __init__(
        self, outer: Request, client: ClientPrincipal, client_host: str, complete: Callable[[Response], None]
    ) -> None:
        self.principal, self.is_token_authenticated = client
        self.acceptor = outer.connection.acceptor
        self.client_host = client_host
        self.complete = complete
        self.is_closed = False

    def throttle(self, delay_ms: int) -> None:
        """Do nothing: the node that forwarded the request throttles the client."""

    def close(self) -> None:
        """Do nothing: the client is connected to the node that forwarded the request."""


def _forwarded_request(connection: Any, data: bytes) -> Request:
    """Decode the header of a forwarded request. Raises DecodeError, also for an API or version that cannot be
    forwarded, and KeyError for an unknown API."""
    frame = memoryview(bytearray(data))
    if len(frame) < _HEADER.size:
        raise DecodeError("a request without a header")
    key, version, correlation_id = _HEADER.unpack_from(frame)
    api = BROKER_APIS[key]
    if api.served_by not in FORWARDED or not api.lowest <= version <= api.highest:
        raise DecodeError(f"{api.name} v{version} cannot be forwarded to the controller")
    request = Request(connection, frame, (key, version, correlation_id))
    header = decode_request_header(frame)
    request.client_id, request.body_offset = header.client_id, header.body_offset
    request.is_flexible = version >= api.flexible_since
    return request
