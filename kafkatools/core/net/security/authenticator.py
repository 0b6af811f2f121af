"""SASL authentication of a client's connections with SaslHandshake and SaslAuthenticate requests
(SaslClientAuthenticator).

These requests use the ordinary request queue, so responses to requests sent before a re-authentication still arrive in
order. A connection authenticates after ApiVersions. It authenticates again before its session ends (KIP-368), when it
is next used after 85 to 95 % of the session lifetime.

Meanwhile its state is AUTHENTICATING and no other request is sent: a broker closes a connection that sends one. A
refusal is final for the connection (AUTHENTICATION_FAILED).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    AuthenticationFailed,
    IllegalSaslState,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
    error_for_code,
)
from kafkatools.core.net.addresses import is_loopback
from kafkatools.core.net.bodies import build_body
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.connection_states import ConnectionStates, Random, system_random
from kafkatools.core.net.metadata import Node
from kafkatools.core.net.security.login import Login, login_of
from kafkatools.core.net.security.mechanisms import Mechanism
from kafkatools.core.net.security.warnings import warn
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.secrets import redacted

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

_READABLE = ("PLAIN", "OAUTHBEARER")
_SESSION_PART = 0.85
_SESSION_JITTER = 0.1
# A node refuses a second authentication within a second (KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS).
_MIN_SESSION_MS = 1100
_MIN_HANDSHAKE_VERSION = 1


class Connections(Protocol):
    """The methods of NetworkClient that Authenticator uses."""

    @property
    def connection_states(self) -> ConnectionStates: ...
    def find_node(self, node: int) -> Node | None: ...
    def name_of(self, node: int) -> str: ...
    def send_internal(self, request: ClientRequest, now_ms: int) -> None: ...
    def authenticated(self, node: int, session_ends_ms: int | None = None) -> None: ...
    def fail_connection(self, node: int, error: KafkaError) -> None: ...
    def wakeup(self) -> None: ...


class Authenticator:
    """Authenticates the connections of one client by SASL, on the client's thread."""

    def __init__(
        self, client: Connections, login: Login, *, is_encrypted: bool, random: Random = system_random
    ) -> None:
        self._client = client
        self._is_encrypted = is_encrypted
        self._login = login
        self._random = random
        self._waiting: dict[int, str] = {}  # hosts of the nodes whose authentication waits for credentials
        self._exchanges: dict[int, Mechanism] = {}

    def begin(self, node: int, now_ms: int) -> None:
        """Start to authenticate a connection after its ApiVersions response."""
        self._client.connection_states.authenticating(node)
        target = self._client.find_node(node)
        self._waiting[node] = "" if target is None else target.host
        if not self._is_encrypted and self._login.mechanism in _READABLE:
            self._warn_of_readers(node)
        self.step(now_ms)

    def _warn_of_readers(self, node: int) -> None:
        target = self._client.find_node(node)
        if target is not None and not is_loopback(target.host):
            warn(
                f"SASL {self._login.mechanism} without TLS (security.protocol SASL_PLAINTEXT) sends the password or "
                f"token to {target.host} unencrypted"
            )

    def forget(self, node: int) -> None:
        """Drop the SASL state of a connection that was closed."""
        self._waiting.pop(node, None)
        self._exchanges.pop(node, None)

    def step(self, now_ms: int) -> None:
        """Send SaslHandshake on connections whose session has expired or that waited for credentials, once these are
        ready. If the credentials cannot be obtained, the waiting connections are closed with that error."""
        for node in self._client.connection_states.ended_sessions(now_ms):
            target = self._client.find_node(node)
            if target is None:
                continue  # a bootstrap server, which is no longer used
            self._client.connection_states.authenticating(node)
            self._waiting[node] = target.host
        for node, host in list(self._waiting.items()):
            try:
                if not self._login.is_ready(host):
                    continue
                self._exchanges[node] = self._login.start(host)
            except KafkaError as error:
                self._fail_waiting(error)
                return
            del self._waiting[node]
            fields = {"mechanism": self._login.mechanism}
            self._send(node, ApiKey.SASL_HANDSHAKE, fields, _MIN_HANDSHAKE_VERSION, now_ms)

    def _fail_waiting(self, error: KafkaError) -> None:
        for node in list(self._waiting):
            self._client.fail_connection(node, self._refusal(node, error))
        self._waiting.clear()

    def _send(self, node: int, api_key: ApiKey, fields: Mapping[str, object], min_version: int, now_ms: int) -> None:
        request = ClientRequest(
            node,
            api_key,
            lambda version: build_body(api_key, version, fields),
            lambda response: self._handle(response, now_ms),
            min_version=min_version,
        )
        try:
            self._client.send_internal(request, now_ms)
        except UnsupportedVersion:
            error = IllegalSaslState("it does not authenticate with SASL; is security.protocol PLAINTEXT or SSL right?")
            self._client.fail_connection(node, self._refusal(node, error))

    def _handle(self, response: ClientResponse, sent_ms: int) -> None:
        """Process a SASL response: send the next message or finish. Raises KafkaError, which closes the connection."""
        node = response.request.node
        mechanism = self._exchanges.get(node)
        if response.body is None or mechanism is None:
            return
        now_ms = sent_ms + response.latency_ms
        try:
            if response.request.api_key == ApiKey.SASL_HANDSHAKE:
                self._check_handshake(response.body)
                token: bytes | None = mechanism.initial()
            else:
                token = self._respond(mechanism, response.body)
        except KafkaError as error:
            raise self._refusal(node, error) from None
        if token is not None:
            self._send(node, ApiKey.SASL_AUTHENTICATE, {"auth_bytes": token}, 0, now_ms)
            return
        del self._exchanges[node]
        lifetime_ms = getattr(response.body, "session_lifetime", 0)
        part_ms = int(lifetime_ms * (_SESSION_PART + _SESSION_JITTER * self._random()))
        self._client.authenticated(node, now_ms + max(part_ms, _MIN_SESSION_MS) if lifetime_ms > 0 else None)

    def _check_handshake(self, body: Entity) -> None:
        if body.error_code == UnsupportedSaslMechanism.code:
            enabled = redacted(", ".join(body.mechanisms))
            raise UnsupportedSaslMechanism(
                f"the mechanism {self._login.mechanism} is not enabled in the server, "
                f"enabled mechanisms are [{enabled}]"
            )
        if body.error_code == IllegalSaslState.code:
            raise IllegalSaslState(
                "its listener does not use SASL: set security.protocol to PLAINTEXT or SSL, or use its SASL port"
            )
        if body.error_code:
            raise error_for_code(body.error_code)()

    def _respond(self, mechanism: Mechanism, body: Entity) -> bytes | None:
        if body.error_code:
            kind = error_for_code(body.error_code)
            text = redacted(body.error_message) if body.error_message else None
            if text is not None and mechanism.name == "OAUTHBEARER" and text.startswith("{"):
                text = f"the server does not accept the token: {text}"
            raise kind(text)
        token = mechanism.respond(body.auth_bytes)
        if token is None and not mechanism.is_complete:
            raise SaslAuthenticationFailed("the server refused the credentials without a reason")
        return token

    def _refusal(self, node: int, error: KafkaError) -> KafkaError:
        kind = type(error) if isinstance(error, AuthenticationFailed) or error.retriable else SaslAuthenticationFailed
        return kind(f"SASL {self._login.mechanism} with {self._client.name_of(node)} failed: {error}")


def authenticator_for(client: Connections, config: Config, clock: Clock) -> Authenticator:
    """Make the authenticator for security.protocol SASL_PLAINTEXT or SASL_SSL. Raises ConfigError."""
    is_encrypted = config.security_protocol.upper() == "SASL_SSL"
    return Authenticator(client, login_of(config, clock, client.wakeup), is_encrypted=is_encrypted)
