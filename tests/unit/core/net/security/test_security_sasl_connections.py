"""SASL on the connections of a client, against a server that follows a script."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.manual_clock import ManualClock
from support.sasl_rig import Rig
from support.scripted_broker import CLOSE

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.errors import (
    ClosedUnanswered,
    ConfigError,
    IllegalSaslState,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from kafkatools.core.net.connection_states import ConnectionState
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.protocol.api_versions import ApiKey

MODULES = "org.apache.kafka.common.security"
PLAIN_LOGIN = f'{MODULES}.plain.PlainLoginModule required username="alice" password="s3cret-canary";'
SCRAM_LOGIN = f'{MODULES}.scram.ScramLoginModule required username="alice" password="s3cret-canary";'
TOKEN_LOGIN = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_LOGIN}


@pytest.fixture
def make() -> Iterator[Callable[..., Rig]]:
    rigs: list[Rig] = []

    def build_rig(**more: Any) -> Rig:
        rigs.append(Rig({**PLAIN, **{name.replace("_", "."): value for name, value in more.items()}}))
        return rigs[-1]

    yield build_rig
    for rig in rigs:
        rig.close()


def test_requests_follow_versions_handshake_and_authentication(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.connect()
    rig.ask()
    rig.turn(lambda: rig.responses)
    assert rig.keys() == [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.LIST_GROUPS]
    headers = [header for header, _ in rig.broker.requests]
    assert [headers[1].api_version, headers[2].api_version] == [1, 2]
    assert rig.broker.tokens == [b"\0alice\0s3cret-canary"]


def test_nothing_is_sent_while_authentication_goes_on(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.client.ready(-1, rig.clock.now_ms())
    rig.turn(lambda: rig.client.connection_states.state(-1) is ConnectionState.AUTHENTICATING)
    assert not rig.client.can_send(-1, rig.clock.now_ms())
    assert rig.client.least_loaded_node(rig.clock.now_ms()) == -1


def test_wrong_password_is_final_and_told_in_the_servers_words(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.says = lambda token: {"error_code": 58, "error_message": "Authentication failed: Invalid password"}
    error = rig.failure()
    assert type(error) is SaslAuthenticationFailed
    assert str(error) == f"SASL PLAIN with {rig.broker.bootstrap} failed: Authentication failed: Invalid password"


def test_mechanism_that_the_server_does_not_take(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.mechanisms = ["GSSAPI", "SCRAM-SHA-512"]
    error = rig.failure()
    assert type(error) is UnsupportedSaslMechanism
    assert "PLAIN is not enabled in the server, enabled mechanisms are [GSSAPI, SCRAM-SHA-512]" in str(error)


def test_listener_without_sasl(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.answers[ApiKey.SASL_HANDSHAKE] = lambda header, request: {"error_code": 34}
    error = rig.failure()
    assert type(error) is IllegalSaslState
    assert "does not use SASL" in str(error)


def test_server_that_knows_no_sasl(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.versions = {ApiKey.SASL_HANDSHAKE: (0, 0)}
    assert "does not authenticate with SASL" in str(rig.failure())


def test_server_that_closes_in_the_middle(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.says = lambda token: CLOSE
    rig.client.ready(-1, rig.clock.now_ms())
    rig.turn(lambda: rig.client.connection_failed(-1))
    error = rig.client.connection_error(-1)
    assert isinstance(error, ClosedUnanswered)
    assert str(error).endswith("closed the connection while it authenticated us by SASL")


def test_listener_with_sasl_and_a_client_without(make: Callable[..., Rig]) -> None:
    rig = make(security_protocol="PLAINTEXT")
    rig.broker.answers[ApiKey.LIST_GROUPS] = lambda header, request: CLOSE
    rig.connect()
    rig.ask()
    rig.turn(lambda: rig.responses)
    error = rig.responses[0].error
    assert isinstance(error, ClosedUnanswered)
    assert "at the first request after ApiVersions: does it want SASL" in str(error)


def scram_server(password: str, knows_password: bool = True) -> Callable[[bytes], Any]:
    """The server's side of SCRAM-SHA-256, from RFC 5802."""
    said: dict[str, str] = {}

    def respond(token: bytes) -> Any:
        text = token.decode()
        if text.startswith("n,,"):
            nonce = text.partition(",r=")[2]
            said["client"] = text.removeprefix("n,,")
            said["server"] = f"r={nonce}srv,s={base64.b64encode(b'salt').decode()},i=4096"
            return {"auth_bytes": said["server"].encode()}
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 4096)
        message = ",".join((said["client"], said["server"], text.rpartition(",p=")[0])).encode()
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        if base64.b64decode(text.rpartition(",p=")[2]) != proof:
            return {"error_code": 58, "error_message": "invalid credentials"}
        server_key = hmac.digest(salted, b"Server Key" if knows_password else b"?", "sha256")
        return {"auth_bytes": b"v=" + base64.b64encode(hmac.digest(server_key, message, "sha256"))}

    return respond


def test_scram(make: Callable[..., Rig]) -> None:
    rig = make(sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=SCRAM_LOGIN)
    rig.broker.says = scram_server("s3cret-canary")
    rig.connect()
    assert len(rig.broker.tokens) == 2
    assert not any(b"canary" in token for token in rig.broker.tokens)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (scram_server("another"), "invalid credentials"),
        (scram_server("s3cret-canary", knows_password=False), "its signature is wrong"),
        (lambda token: {}, "first SCRAM message is not valid"),
    ],
)
def test_scram_that_fails(make: Callable[..., Rig], says: Callable[[bytes], Any], message: str) -> None:
    rig = make(sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=SCRAM_LOGIN)
    rig.broker.says = says
    assert message in str(rig.failure())


def test_token_is_fetched_aside_and_shown(make: Callable[..., Rig]) -> None:
    rig = make(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=TOKEN_LOGIN)
    rig.connect()
    header, claims, signature = rig.broker.tokens[0].removeprefix(b"n,,\x01auth=Bearer ").rstrip(b"\x01").split(b".")
    decoded = [json.loads(base64.urlsafe_b64decode(part + b"==")) for part in (header, claims)]
    assert decoded[0] == {"alg": "none"} and signature == b""
    assert decoded[1]["sub"] == "alice" and decoded[1]["exp"] - decoded[1]["iat"] == 3600


def test_refused_token(make: Callable[..., Rig]) -> None:
    rig = make(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=TOKEN_LOGIN)
    answers = iter([{"auth_bytes": b'{"status":"invalid_token"}'}, {"error_code": 58, "error_message": "expired"}])
    rig.broker.says = lambda token: next(answers)
    assert str(rig.failure()).endswith("failed: expired")
    assert rig.broker.tokens[1] == b"\x01"


def test_command_without_a_token_ends_the_connection(make: Callable[..., Rig]) -> None:
    rig = make(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=TOKEN_LOGIN, sasl_oauthbearer_token_command="false")
    assert str(rig.failure()).endswith("failed: the token command false ended with 1")


def test_session_is_renewed_before_it_ends_and_before_it_is_used(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.lifetime_ms = 10_000
    rig.connect()
    rig.clock.advance_ms(8_400)
    assert rig.client.can_send(-1, rig.clock.now_ms())
    rig.clock.advance_ms(1_200)
    assert not rig.client.can_send(-1, rig.clock.now_ms())
    rig.turn(lambda: rig.client.can_send(-1, rig.clock.now_ms()))
    rig.ask()
    rig.turn(lambda: rig.responses)
    assert rig.keys()[3:] == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.LIST_GROUPS]
    assert rig.keys().count(ApiKey.API_VERSIONS) == 1
    rig.clock.advance_ms(8_400)
    assert rig.client.can_send(-1, rig.clock.now_ms())


def test_short_session_is_not_renewed_within_the_second_that_a_node_refuses(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.lifetime_ms = 900
    rig.connect()
    rig.clock.advance_ms(1_050)
    assert rig.client.can_send(-1, rig.clock.now_ms())
    rig.clock.advance_ms(100)
    assert not rig.client.can_send(-1, rig.clock.now_ms())


def test_answers_in_flight_come_in_their_turn_when_a_session_is_renewed(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.lifetime_ms = 10_000
    rig.connect()
    rig.ask()
    rig.ask()
    rig.clock.advance_ms(9_600)
    rig.turn(lambda: len(rig.responses) == 2 and rig.client.can_send(-1, rig.clock.now_ms()))
    assert [response.error for response in rig.responses] == [None, None]
    assert rig.keys()[-2:] == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]


def test_refusal_when_a_session_is_renewed_ends_what_was_in_flight(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.lifetime_ms = 10_000
    rig.connect()
    rig.broker.says = lambda token: {"error_code": 58, "error_message": "no longer"}
    rig.clock.advance_ms(9_600)
    rig.turn(lambda: rig.client.connection_failed(-1))
    assert "no longer" in str(rig.client.connection_error(-1))


def test_consumer_that_polls_is_told_of_each_refusal_once(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.broker.says = lambda token: {"error_code": 58, "error_message": "no"}
    config = Config(tables.CONSUMER, {**PLAIN, "bootstrap.servers": rig.broker.bootstrap})
    consumer = ConsumerNetworkClient(config, rig.clock)
    for count in range(1, 3):
        rig.clock.advance_ms(5_000)
        with pytest.raises(SaslAuthenticationFailed, match="failed: no"):
            for _ in range(2000):
                consumer.poll(0)
                rig.broker.run_once()
        assert len(rig.broker.tokens) == count
        consumer.poll(0)
    consumer.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl_mechanism": "DIGEST-MD5"}, "sasl.mechanism DIGEST-MD5 is not built in; it may be one of PLAIN, SCRAM-"),
        ({"sasl_mechanism": "GSSAPI"}, "another login module than Krb5LoginModule"),
        ({"sasl_mechanism": "AWS_MSK_IAM"}, "options of IAMLoginModule that are not supported: password, username"),
        ({"sasl_jaas_config": None}, "sasl.jaas.config is not set"),
        ({"sasl_jaas_config": PLAIN_LOGIN.replace("username", "user")}, "username is not in sasl.jaas.config"),
        ({"sasl_login_callback_handler_class": "com.example.Vault"}, "the Java class com.example.Vault cannot be used"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_jaas_config": None}, "needs its subject"),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": "https://id.example/token"},
            "client.credentials.client.id is not set",
        ),
    ],
)
def test_settings_that_do_not_do(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config = Config(tables.ADMIN, {**PLAIN, **{name.replace("_", "."): value for name, value in settings.items()}})
        NetworkClient(config, ManualClock(), Metadata([("127.0.0.1", 9092)]), "kt")
    assert "canary" not in str(caught.value)


def test_password_over_the_network_in_the_clear_is_warned_of(
    make: Callable[..., Rig], caplog: pytest.LogCaptureFixture
) -> None:
    rig = make()
    rig.connect()
    assert "without TLS" not in caplog.text  # to this machine
    caplog.set_level("DEBUG", "kafkatools")
    other = make()
    other.metadata = other.client.metadata = Metadata([("ip6-loopback-alias.invalid", 9092)])
    authenticator = other.client._authenticator
    assert authenticator is not None
    authenticator._warn_of_readers(-1)
    assert "SASL PLAIN without TLS" in caplog.text and "canary" not in caplog.text
