"""A client's connection with SASL, to a server that follows a script; both are turned by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.manual_clock import ManualClock
from support.scripted_broker import CLOSE, ScriptedBroker

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.errors import AuthenticationFailed
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.connection_states import ConnectionState
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import build, request_type


class SaslBroker(ScriptedBroker):
    """Takes PLAIN by default; `says` overrides what it says to SaslAuthenticate, `lifetime_ms` limits sessions."""

    def __init__(self) -> None:
        self.lifetime_ms = 0
        self.mechanisms = ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]
        self.tokens: list[bytes] = []
        self.says: Callable[[bytes], Any] = lambda token: {}
        super().__init__(
            {
                ApiKey.SASL_HANDSHAKE: self._handshake,
                ApiKey.SASL_AUTHENTICATE: self._authenticate,
                ApiKey.LIST_GROUPS: lambda header, request: {},
            }
        )

    def _handshake(self, header: Any, request: Any) -> Any:
        code = 0 if request.mechanism in self.mechanisms else 33
        return {"error_code": code, "mechanisms": tuple(self.mechanisms)}

    def _authenticate(self, header: Any, request: Any) -> Any:
        self.tokens.append(bytes(request.auth_bytes))
        said = self.says(self.tokens[-1])
        if said is CLOSE:
            return CLOSE
        return {"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime": self.lifetime_ms, **said}


class Rig:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.broker = SaslBroker()
        self.clock = ManualClock()
        self.metadata = Metadata([("127.0.0.1", self.broker.port)])
        self.metadata.consider_fresh(self.clock.now_ms())
        self.client = NetworkClient(Config(tables.ADMIN, settings), self.clock, self.metadata, "kt")
        self.responses: list[ClientResponse] = []

    def turn(self, until: Callable[[], Any]) -> None:
        for _ in range(2000):
            self.responses += self.client.poll(1)
            if until():
                return
            self.broker.run_once()
        raise AssertionError("what was waited for did not happen")

    def connect(self) -> None:
        self.turn(lambda: self.client.ready(-1, self.clock.now_ms()))

    def failure(self) -> AuthenticationFailed:
        self.client.ready(-1, self.clock.now_ms())
        self.turn(lambda: self.client.connection_failed(-1))
        error = self.client.connection_error(-1)
        assert isinstance(error, AuthenticationFailed)
        assert self.client.connection_states.state(-1) is ConnectionState.AUTHENTICATION_FAILED
        assert self.metadata.take_error() is error
        assert "canary" not in str(error)
        return error

    def ask(self) -> None:
        self.client.send(
            ClientRequest(-1, ApiKey.LIST_GROUPS, lambda v: build(request_type(ApiKey.LIST_GROUPS, v), {}))
        )

    def keys(self) -> list[int]:
        return [header.api_key for header, _ in self.broker.requests]

    def close(self) -> None:
        self.client.close()
        self.broker.close()
