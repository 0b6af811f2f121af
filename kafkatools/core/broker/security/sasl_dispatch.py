"""Authentication before the dispatcher of a listener with SASL (Kafka's SaslServerAuthenticator, KIP-43, KIP-152,
KIP-368).

Rules: until a client has authenticated, only ApiVersions once, SaslHandshake and SaslAuthenticate are answered; any
other request closes the connection. After SaslHandshake version 0 SASL messages come without request headers. A refusal
is sent after connection.failed.authentication.delay.ms and closes the connection. A session with an end may
authenticate again with the same mechanism and principal, at most once a second; after its end the next request closes
the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, unique
from functools import partial
from typing import NamedTuple

from kafkatools.core.broker.security.mechanisms import Credentials, InvalidMessage, ServerMechanism
from kafkatools.core.broker.security.sasl_listener import SaslListener
from kafkatools.core.broker.server.acceptor import Dispatch
from kafkatools.core.broker.server.requests import DELAYED, Client, CloseConnection, Request, Response
from kafkatools.core.clock import Clock
from kafkatools.core.control_characters import visible
from kafkatools.core.errors import (
    NONE,
    AuthenticationFailed,
    DecodeError,
    IllegalSaslState,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.frames import decode_request_header

MIN_REAUTHENTICATION_MS = 1000
_ERROR_CODE = slice(8, 10)
"""The error code in an encoded ApiVersions response, behind its size and correlation id."""


@unique
class State(Enum):
    """The state of a connection: the requests that it may send next."""

    FIRST = "ApiVersions or SaslHandshake"
    HANDSHAKE = "SaslHandshake"
    MESSAGES = "SASL messages"
    OTHER_MECHANISM = "a SASL message, which is refused"
    DONE = "any request"
    FAILED = "nothing"


class Session:
    """The authentication of one connection. `ends_ms` is the end of the session by the monotonic clock, None without
    one; `began_ms` is the begin of the last repeated authentication."""

    __slots__ = ("began_ms", "ends_ms", "exchange", "has_headers", "mechanism", "requested", "state")

    def __init__(self) -> None:
        self.state = State.FIRST
        self.mechanism = self.requested = ""
        self.exchange: ServerMechanism | None = None
        self.has_headers = False
        self.ends_ms: int | None = None
        self.began_ms: int | None = None

    def may_begin_again(self, now_ms: int) -> bool:
        """Return whether a SaslHandshake begins a repeated authentication: the session has an end, and the last one
        began at least a second ago."""
        if self.ends_ms is None:
            return False
        return self.began_ms is None or now_ms - self.began_ms >= MIN_REAUTHENTICATION_MS


class Surroundings(NamedTuple):
    """The services of a node that authentication uses: the credentials, the clock, `schedule` (delay in ms, callback),
    a report of refused clients, and the largest request of an authenticated client."""

    credentials: Credentials
    clock: Clock
    schedule: Callable[[int, Callable[[int], None]], object]
    report: Callable[[str], None]
    max_request_bytes: int


class AuthenticatingDispatcher:
    """The request handler of a listener with SASL: authenticates clients, then passes their requests to `dispatch`."""

    def __init__(self, dispatch: Dispatch, sasl: SaslListener, around: Surroundings) -> None:
        self.apis = dispatch.apis
        self._dispatch = dispatch
        self.use(sasl)
        self._around = around
        self._sessions: dict[Client, Session] = {}

    def use(self, sasl: SaslListener) -> None:
        """Use these mechanisms and logins for the authentications that begin from now on."""
        self._sasl = sasl
        self._enabled = hash_order(sasl.mechanisms)

    def __call__(self, request: Request) -> Response:
        session = self._sessions.get(request.connection) or self._open(request.connection)
        if session.state is State.DONE:
            if session.ends_ms is None:
                return self._dispatch(request)
            now_ms = self._around.clock.now_ms()
            if request.api_key != ApiKey.SASL_HANDSHAKE or not session.may_begin_again(now_ms):
                if now_ms > session.ends_ms:
                    raise CloseConnection("the session of the client has ended")
                return self._dispatch(request)
            session.began_ms, session.state = now_ms, State.HANDSHAKE
        return self._authenticate(session, request)

    def _open(self, connection: Client) -> Session:
        session = self._sessions[connection] = Session()
        connection.call_when_closed(self, partial(self._forget, connection))
        return session

    def _forget(self, connection: Client) -> None:
        self._sessions.pop(connection, None)

    # -- requests of a client that has not authenticated -------------------------------------------------------------
    def _authenticate(self, session: Session, request: Request) -> Response:
        key = request.api_key
        if session.state is State.MESSAGES or session.state is State.OTHER_MECHANISM:
            if key == ApiKey.SASL_AUTHENTICATE:
                return self._handle_message(session, request)
            error = IllegalSaslState(f"Unexpected Kafka request of type {_label(key)} during SASL authentication.")
            return self._refuse(session, request.connection, _illegal(request, error), error)
        if session.state is State.FIRST and key == ApiKey.API_VERSIONS:
            response = self._dispatch(request)
            if response and response is not DELAYED and not any(bytes(response[0][_ERROR_CODE])):  # type: ignore[index]
                session.state = State.HANDSHAKE
            return response
        if key == ApiKey.SASL_HANDSHAKE and session.state in (State.FIRST, State.HANDSHAKE):
            return self._handle_handshake(session, request)
        if session.state is not State.FAILED:
            self._note(request.connection, f"unexpected request of type {_label(key)} before SASL authentication")
        raise CloseConnection(f"a request of type {_label(key)} before the client has authenticated")

    def _handle_handshake(self, session: Session, request: Request) -> Response:
        mechanism = str(_decoded(request).mechanism)
        session.has_headers = session.has_headers or request.version >= 1
        enabled = self._enabled
        if mechanism not in enabled:
            error = UnsupportedSaslMechanism(f"Unsupported SASL mechanism {mechanism[:64]}")
            response = request.respond({"error_code": error.code, "mechanisms": enabled})
            return self._refuse(session, request.connection, response, error)
        session.requested = mechanism
        if session.began_ms is not None and mechanism != session.mechanism:
            session.state = State.OTHER_MECHANISM
        else:
            session.mechanism, session.state = mechanism, State.MESSAGES
            session.exchange = self._sasl.mechanisms[mechanism](self._around.credentials)
        if not session.has_headers:
            request.connection.take_tokens(partial(self._handle_bare, session, request.connection))
        return request.respond({"error_code": NONE, "mechanisms": enabled})

    def _handle_message(self, session: Session, request: Request) -> Response:
        """Answer SaslAuthenticate with the reply of the mechanism; when it is complete, with the session's length."""
        message = bytes(_decoded(request).auth_bytes)
        if session.state is State.OTHER_MECHANISM:
            error = SaslAuthenticationFailed(
                f"SASL mechanism '{session.requested}' requested by client is not supported for re-authentication of "
                f"mechanism '{session.mechanism}'"
            )
            return self._refuse(session, request.connection, (), error)
        try:
            reply, lifetime_ms = self._step(session, request.connection, message)
        except SaslAuthenticationFailed as error:
            response = request.respond({"error_code": error.code, "error_message": error.message})
            return self._refuse(session, request.connection, response, error)
        fields = {"error_message": "", "auth_bytes": reply, "session_lifetime": lifetime_ms}
        return request.respond(fields)

    def _handle_bare(self, session: Session, connection: Client, frame: memoryview) -> Response:
        """Answer a SASL message without a request header."""
        try:
            reply, _ = self._step(session, connection, bytes(frame))
        except SaslAuthenticationFailed as error:
            return self._refuse(session, connection, (), error)
        return [len(reply).to_bytes(4, "big") + reply]

    # -- the exchange ------------------------------------------------------------------------------------------------
    def _step(self, session: Session, connection: Client, message: bytes) -> tuple[bytes, int]:
        """Pass a message to the mechanism; returns the reply, and the length of the session in ms, 0 without an end or
        before the exchange is complete. Raises SaslAuthenticationFailed with the message for the client."""
        exchange = session.exchange
        again = session.began_ms is not None
        if exchange is None:
            raise CloseConnection("a SASL message after the exchange")
        try:
            reply = exchange.respond(message)
        except SaslAuthenticationFailed:
            raise
        except Exception as problem:  # noqa: BLE001 - boundary: an odd message ends this connection, not the broker
            reason = str(problem) if isinstance(problem, InvalidMessage) else type(problem).__name__
            exchange.reason = reason
            action = "re-authentication" if again else "authentication"
            raise SaslAuthenticationFailed(
                f"Authentication failed during {action} due to invalid credentials with SASL mechanism "
                f"{session.mechanism}"
            ) from None
        if not exchange.is_complete:
            return reply, 0
        principal = f"User:{exchange.user}"
        if again and principal != connection.principal:
            raise SaslAuthenticationFailed(
                "Cannot change principals during re-authentication from "
                f"{connection.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            )
        return reply, self._admit(session, connection, exchange)

    def _admit(self, session: Session, connection: Client, exchange: ServerMechanism) -> int:
        """Give the connection its principal; returns the length of the session in ms, 0 without an end."""
        limits = []
        if exchange.expires_ms is not None:
            limits.append(max(0, exchange.expires_ms - self._around.clock.wall_ms()))
        if self._sasl.max_session_ms[session.mechanism] > 0:
            limits.append(self._sasl.max_session_ms[session.mechanism])
        connection.principal = f"User:{exchange.user}"
        connection.is_token_authenticated = exchange.is_delegation_token
        connection.has_session_end = bool(limits)
        connection.max_request_bytes = self._around.max_request_bytes
        connection.take_tokens(None)
        session.exchange, session.state = None, State.DONE
        session.ends_ms = self._around.clock.now_ms() + min(limits) if limits else None
        return min(limits, default=0)

    # -- refusals ----------------------------------------------------------------------------------------------------
    def _refuse(
        self, session: Session, connection: Client, response: Response, error: AuthenticationFailed
    ) -> Response:
        """Send the response after connection.failed.authentication.delay.ms and close the connection."""
        reason = "" if session.exchange is None else session.exchange.reason
        self._note(connection, f"SASL {session.mechanism}: {reason}" if reason else str(error))
        session.state, session.exchange = State.FAILED, None
        connection.take_tokens(None)

        def finish(now_ms: int) -> None:
            connection.complete(response)
            connection.close()

        # Never within this call: the connection is muted, and can be completed, when it has returned.
        self._around.schedule(max(1, self._sasl.refusal_delay_ms), finish)
        return DELAYED

    def _note(self, connection: Client, reason: str) -> None:
        line = f"WARN {connection.client_host} on {connection.acceptor.name} was refused: {reason}"
        self._around.report(visible(line))  # the reason may repeat a name from the client


def _label(key: int) -> str:
    return ApiKey(key).name if key in ApiKey._value2member_map_ else str(key)


def _illegal(request: Request, error: IllegalSaslState) -> Response:
    """The response with an error to a request of another API; without a place for one it is empty. Raises
    CloseConnection."""
    _read_header(request)
    request.is_flexible = request.is_flexible and request.api_key != ApiKey.API_VERSIONS
    try:
        return request.refuse(error)
    except IllegalSaslState:
        return request.respond({})


def _decoded(request: Request) -> Entity:
    """Decode a SaslHandshake or SaslAuthenticate request. Raises CloseConnection."""
    _read_header(request)
    entity: Entity = request.decode()
    return entity


def _read_header(request: Request) -> None:
    """Read the header of a request. Raises CloseConnection for a malformed one, an unknown API or version."""
    if request.api_key not in ApiKey._value2member_map_:
        raise CloseConnection(f"api key {request.api_key} is not served")
    key = ApiKey(request.api_key)
    if request.version not in key.versions:
        raise CloseConnection(f"version {request.version} of {key.name} is not served")
    try:
        header = decode_request_header(request.frame)
    except DecodeError as error:
        raise CloseConnection(f"malformed request header: {error}") from error
    request.client_id, request.body_offset = header.client_id, header.body_offset
    request.is_flexible = request.version >= key.first_flexible_version
