"""Connect to an address and report each step: DNS, TCP, TLS, ApiVersions, SASL.

The steps are those of an ordinary NetworkClient connection, so the report shows what any command would encounter. The
name is resolved first; like a client, the diagnosis then tries every address of the name.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple, cast

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import AuthenticationFailed, HandshakeInterrupted, KafkaError, SslAuthenticationFailed
from kafkatools.core.net.addresses import HostPort, resolve
from kafkatools.core.net.connection_states import ConnectionState
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.protocol.api_versions import BrokerVersions

_NODE = -1
_POLL_MS = 50


class Step(NamedTuple):
    """One step of a connection with its duration in milliseconds; `error` is None for success."""

    name: str
    detail: str
    took_ms: int
    error: KafkaError | None = None


class Diagnosis(NamedTuple):
    """The steps of a connection up to the first failure. `versions`: the API versions of the node, None after a
    failure."""

    address: HostPort
    steps: tuple[Step, ...]
    versions: BrokerVersions | None

    @property
    def error(self) -> KafkaError | None:
        """The error of the failed step; None when the connection became ready."""
        return self.steps[-1].error


def diagnose(address: HostPort, config: Config, clock: Clock) -> Diagnosis:
    """Connect to one address with a client's settings, for up to default.api.timeout.ms, close the connection and
    report the steps. Raises ConfigError and KeyStoreUnreadable for invalid settings; all other failures are reported as
    a step."""
    steps: list[Step] = []
    started_ms = clock.now_ms()
    try:
        resolved = resolve(address.host, address.port)
    except KafkaError as error:
        return Diagnosis(address, (Step("DNS", "", clock.now_ms() - started_ms, error),), None)
    addresses = ", ".join(dict.fromkeys(str(resolved_address.sockaddr[0]) for resolved_address in resolved))
    steps.append(Step("DNS", addresses, clock.now_ms() - started_ms))
    metadata = Metadata([address])
    client = NetworkClient(config, clock, metadata)
    try:
        return _Watch(client, metadata, config, clock, len(resolved)).run(address, steps)
    finally:
        client.close()


class _Watch:
    """Polls a client until its connection is ready or has failed, and records the steps with their durations."""

    def __init__(self, client: NetworkClient, metadata: Metadata, config: Config, clock: Clock, tries: int) -> None:
        self._client = client
        self._metadata = metadata
        self._clock = clock
        self._tries = tries
        self._deadline_ms = clock.now_ms() + int(config.default_api_timeout_ms)
        protocol = str(config.security_protocol).upper()
        self._names = ["TCP", *(["TLS"] if protocol.endswith("SSL") else []), "ApiVersions"]
        self._names += ["SASL"] if protocol.startswith("SASL_") else []
        self._mechanism = str(config.sasl_mechanism)

    def run(self, address: HostPort, steps: list[Step]) -> Diagnosis:
        last_ms = self._clock.now_ms()
        before = len(steps)
        while True:
            now_ms = self._clock.now_ms()
            self._metadata.consider_fresh(now_ms)
            self._client.ready(_NODE, now_ms)
            self._client.poll(_POLL_MS)
            now_ms = self._clock.now_ms()
            completed_steps = len(steps) - before
            for name in self._names[completed_steps : self._reached()]:
                steps.append(Step(name, self._detail(name), now_ms - last_ms))
                last_ms = now_ms
            if len(steps) - before == len(self._names):
                return Diagnosis(address, tuple(steps), self._client.broker_versions(_NODE))
            error = self._failure(now_ms)
            if error is not None:
                name = self._failed_step(error, len(steps) - before)
                # several steps may complete in one poll
                passed = self._names[len(steps) - before : self._names.index(name)]
                steps += [Step(step, "", 0) for step in passed]
                return Diagnosis(address, (*steps, Step(name, "", now_ms - last_ms, error)), None)

    def _reached(self) -> int:
        """The number of connection steps that are complete, DNS not counted."""
        state = self._client.connection_states.state(_NODE)
        if state is ConnectionState.READY:
            return len(self._names)
        if state is ConnectionState.AUTHENTICATING:
            return self._names.index("SASL")
        if state is ConnectionState.CHECKING_API_VERSIONS:
            return self._names.index("ApiVersions")
        channel = self._client.channel(_NODE)
        return 1 if channel is not None and channel.is_tcp_up and "TLS" in self._names else 0

    def _failure(self, now_ms: int) -> KafkaError | None:
        """The final error of the connection: the last address failed, authentication was refused or time is up. None
        while it is not failed or another attempt follows. Counts each failed attempt."""
        if not self._client.connection_failed(_NODE):
            return None
        error = self._client.connection_error(_NODE)
        assert error is not None
        self._tries -= 1
        is_final = isinstance(error, AuthenticationFailed) or self._tries <= 0 or now_ms > self._deadline_ms
        return error if is_final else None

    def _failed_step(self, error: KafkaError, completed_steps: int) -> str:
        if isinstance(error, SslAuthenticationFailed | HandshakeInterrupted) and "TLS" in self._names:
            return "TLS"
        if isinstance(error, AuthenticationFailed) and "SASL" in self._names:
            return "SASL"
        return self._names[min(completed_steps, len(self._names) - 1)]

    def _detail(self, name: str) -> str:
        """Details of a completed step: the address, the TLS version and certificate, the number of APIs, the mechanism;
        empty when unknown."""
        if name == "SASL":
            return self._mechanism
        if name == "ApiVersions":
            versions = self._client.broker_versions(_NODE)
            return "" if versions is None else f"{len(versions.ranges)} APIs"
        channel = self._client.channel(_NODE)
        if channel is None:
            return ""
        if name == "TLS":
            secured = channel.transport.socket
            return _certificate(secured) if isinstance(secured, ssl.SSLSocket) else ""
        peer = channel.transport.socket.getpeername()
        return str(HostPort(peer[0], peer[1]))


def _certificate(secured: ssl.SSLSocket) -> str:
    """TLS version, cipher suite, and the subject and expiry of the server's certificate."""
    cipher = secured.cipher()
    parts = [secured.version() or "", cipher[0] if cipher else ""]
    certificate = secured.getpeercert() or {}
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate.get("subject", ()))
    names = [value for fields in subject for key, value in fields if key == "commonName"]
    if names:
        parts.append(f"certificate of {names[0]}")
    if "notAfter" in certificate:
        parts.append(f"valid until {certificate['notAfter']}")
    return ", ".join(part for part in parts if part)
