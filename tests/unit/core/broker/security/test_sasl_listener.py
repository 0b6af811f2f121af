"""SASL of the embedded broker: its answers compared with those of Apache Kafka, and clients with each mechanism."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.kt import Ran, run_kt
from support.sasl_conversations import converse, converse_about_tokens
from support.secure_broker import AUDIENCE, LOGINS, MODULES, SHORT_SESSION_MS, TOKEN_KEY, SecureBroker
from support.waiting import eventually

from kafkatools import Consumer, Producer
from kafkatools.core import config as tables
from kafkatools.core.broker.node import single_node_config
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError, TopicAuthorizationFailed

GOLDEN = pathlib.Path(__file__).parents[4] / "golden" / "security"
TOKEN_LOGIN = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = SecureBroker(tmp_path_factory.mktemp("secure-broker"))
    made.broker.start()
    try:
        plain = ("--bootstrap-server", made.bootstrap("PLAINTEXT"))
        credentials = ",".join(f"SCRAM-SHA-{size}=[password=bob-canary]" for size in (256, 512))
        users = ("--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config", credentials)
        assert run_kt("configs", *plain, *users).status == 0
        assert run_kt("topics", *plain, "--create", "--topic", "seen").status == 0
        rights = ("--add", "--topic", "seen", "--group", "*", "--operation", "all")
        for name in ("bob", "carol", "erin", "CLIENT"):
            assert run_kt("acls", *plain, *rights, "--allow-principal", f"User:{name}").status == 0
        eventually(lambda: "CLIENT" in run_kt("acls", *plain, "--list").out)
        yield made
    finally:
        made.broker.close()


def list_topics(secure: SecureBroker, listener: str, values: dict[str, str], host: str = "localhost") -> Ran:
    file = secure.client_file("client", values)
    ran = run_kt("topics", "--list", "--bootstrap-server", secure.bootstrap(listener, host), "--command-config", file)
    assert b"canary" not in ran.stdout + ran.stderr
    return ran


def test_conversations_are_those_of_apache_kafka(secure: SecureBroker) -> None:
    found = converse(lambda listener: secure.bootstrap(listener, "127.0.0.1"))
    assert found == json.loads((GOLDEN / "sasl_conversations.json").read_text())


def test_a_name_from_a_client_starts_no_line_in_the_log(secure: SecureBroker) -> None:
    host, _, port = secure.bootstrap("SASL_PLAINTEXT", "127.0.0.1").rpartition(":")
    with BrokerClient(host, int(port)) as client:
        assert client.call(17, 1, mechanism="X\nERROR forged").error_code == 33
    log = secure.log()
    assert "Unsupported SASL mechanism X\\nERROR forged" in log and "\nERROR forged" not in log
    assert "canary" not in log


def test_delegation_tokens_are_those_of_apache_kafka(secure: SecureBroker) -> None:
    found = converse_about_tokens(lambda listener: secure.bootstrap(listener, "127.0.0.1"), TOKEN_KEY)
    assert found == json.loads((GOLDEN / "token_conversations.json").read_text())


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("tls", [False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def test_every_mechanism(secure: SecureBroker, mechanism: str, tls: bool) -> None:
    values = secure.sasl(mechanism, tls=tls)
    ran = list_topics(secure, values["security.protocol"], values)
    assert (ran.status, ran.err) == (0, "")
    assert "seen" in ran.out.split()


def test_a_certificate_is_a_principal(secure: SecureBroker) -> None:
    values = {"security.protocol": "SSL", **secure.trust, **secure.identity}
    assert "seen" in list_topics(secure, "MTLS", values).out.split()
    anonymous = {"security.protocol": "SSL", **secure.trust}  # User:ANONYMOUS is a super user here
    assert "seen" in list_topics(secure, "SSL", anonymous).out


def test_records_of_many_sizes_pass_through_tls(secure: SecureBroker) -> None:
    settings = {"bootstrap.servers": secure.bootstrap("SASL_SSL"), **secure.sasl("SCRAM-SHA-512")}
    values = [bytes([index % 251]) * (index * 7919 % 300_000) for index in range(60)]
    with Producer({**settings, "batch.size": 200_000, "linger.ms": 20}) as producer:
        futures = [producer.send("seen", value) for value in values]
    assert [future.get(0).offset for future in futures] == list(range(60))
    reading = {**settings, "group.id": "g", "auto.offset.reset": "earliest", "fetch.max.bytes": 900_000}
    found: list[bytes | None] = []
    with Consumer(reading) as consumer:
        consumer.subscribe(["seen"])
        for record in consumer:
            found.append(record.value)
            if len(found) == len(values):
                break
    assert found == values


def test_rights_belong_to_the_authenticated_user(secure: SecureBroker) -> None:
    dave = f'{MODULES}.plain.PlainLoginModule required username="dave" password="dave-canary";'
    settings = {"bootstrap.servers": secure.bootstrap("SASL_SSL"), **secure.sasl("PLAIN", login=dave)}
    assert list_topics(secure, "SASL_SSL", secure.sasl("PLAIN", login=dave)).out.count("seen") == 0
    with Producer(settings) as producer, pytest.raises(TopicAuthorizationFailed, match="seen"):
        producer.send("seen", b"x").get(10_000)
    with Consumer(settings) as consumer, pytest.raises(TopicAuthorizationFailed, match="seen"):
        consumer.assign([("seen", 0)])
        consumer.poll(10_000)


def test_a_missing_right_says_what_to_do(secure: SecureBroker) -> None:
    dave = f'{MODULES}.plain.PlainLoginModule required username="dave" password="dave-canary";'
    file = secure.client_file("dave", secure.sasl("PLAIN", login=dave))
    where = ("--bootstrap-server", secure.bootstrap("SASL_SSL"), "--command-config", file)
    created = run_kt("topics", *where, "--create", "--topic", "new")
    assert (created.status, created.err.splitlines()) == (
        1,
        [
            "Error while executing topic command : Authorization failed.",
            "This user lacks a right on the topic: an administrator sees the rights with kt acls --list and adds one "
            "with kt acls --add.",
        ],
    )
    described = run_kt("topics", *where, "--describe", "--topic", "seen")
    assert described.err.splitlines() == [
        "Error while executing topic command : Topic 'seen' does not exist as expected",
        "It does not exist, or this user may not describe it (kt acls --list).",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_sessions_end_and_begin_anew(secure: SecureBroker, mechanism: str) -> None:
    clock = SystemClock()
    plain = ("--bootstrap-server", secure.bootstrap("PLAINTEXT"))
    name = f"session-{mechanism}"
    assert run_kt("topics", *plain, "--create", "--topic", name).status == 0
    rights = ("--add", "--topic", name, "--operation", "all", "--allow-principal", "User:*")
    assert run_kt("acls", *plain, *rights).status == 0
    with Producer({"bootstrap.servers": secure.bootstrap("SHORT"), **secure.sasl(mechanism, tls=False)}) as producer:
        ends_ms, futures = clock.now_ms() + 2 * SHORT_SESSION_MS, []
        while clock.now_ms() < ends_ms:
            futures.append(producer.send(name, b"x" * 100))
            clock.sleep_ms(5)
    assert [future.get(0).offset for future in futures] == list(range(len(futures)))


@pytest.mark.parametrize(
    ("listener", "host", "change", "message"),
    [
        ("SASL_SSL", "localhost", {"login": "wrong-canary"}, "Authentication failed: Invalid username or password"),
        ("SASL_SSL", "127.0.0.1", {}, "TLS with {} failed: the server's certificate is not for 127.0.0.1"),
        ("EXPIRED", "localhost", {}, "TLS with {} failed: the server's certificate has expired"),
        ("MTLS", "localhost", {"security.protocol": "SSL"}, "the server wants a certificate of the client"),
        ("PLAINTEXT", "localhost", {}, "the server closed the connection during the handshake"),
        ("SIGNED", "localhost", {"security.protocol": "SASL_PLAINTEXT"}, "the mechanism PLAIN is not enabled"),
        ("SASL_SSL", "localhost", {"security.protocol": "SASL_PLAINTEXT"}, "it speaks TLS"),
        ("SASL_PLAINTEXT", "localhost", {"security.protocol": "PLAINTEXT"}, "does it want SASL"),
    ],
)
def test_a_refusal_is_one_line(
    secure: SecureBroker, listener: str, host: str, change: dict[str, str], message: str
) -> None:
    values = secure.sasl("PLAIN")
    changed = {**values, **change}
    wrong = changed.pop("login", "")
    if wrong:
        changed["sasl.jaas.config"] = LOGINS["PLAIN"].replace("alice-canary", wrong)
    ran = list_topics(secure, listener, changed, host)
    assert (ran.status, ran.out) == (1, "")
    assert "Traceback" not in ran.err and "WARN" not in ran.err
    assert message.format(secure.bootstrap(listener, host)) in ran.err


@pytest.mark.parametrize(
    ("claims", "accepted"),
    [
        ({}, True),
        ({"exp": 1}, False),
        ({"iss": "https://other.example"}, False),
        ({"aud": "other"}, False),
        ({"aud": AUDIENCE}, True),
        ({"sub": None}, False),
        ({"iat": None}, False),
        ({"nbf": 4_102_444_800}, False),
        ({"algorithm": "none"}, False),
        ({"signature": b"no"}, False),
        ({"algorithm": "RS512"}, False),
    ],
)
def test_signed_tokens(secure: SecureBroker, claims: dict[str, Any], accepted: bool) -> None:
    path = secure.home / "token"
    path.write_text(secure.token(**claims))
    values = {**secure.sasl("OAUTHBEARER", tls=False, login=TOKEN_LOGIN)}
    values["sasl.oauthbearer.token.endpoint.url"] = path.as_uri()
    ran = list_topics(secure, "SIGNED", values)
    assert (ran.status, "seen" in ran.out.split()) == ((0, True) if accepted else (1, False))
    refusal = 'the server does not accept the token: {"status":"invalid_token"}'
    expected = "the token has expired" if claims.get("exp") == 1 else refusal
    assert accepted or f"failed: {expected}" in ran.err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {},
            "listener.name.sasl.sasl.enabled.mechanisms is not set, and GSSAPI is its default",
        ),
        (
            {"sasl.enabled.mechanisms": "DIGEST-MD5"},
            "listener SASL: the mechanism DIGEST-MD5 of sasl.enabled.mechanisms is not supported; set listener.",
        ),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "sasl.jaas.config with the users"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.sasl.plain.sasl.jaas.config": "secret-canary"},
            "listener SASL, PLAIN (listener.name.sasl.plain.*): Login module control flag not specified",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": "com.example.Own",
            },
            "sasl.server.callback.handler.class: the Java class com.example.Own cannot be used here",
        ),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "file:///keys"},
            "tokens without a signature would be accepted",
        ),
        ({"listener.security.protocol.map": "SASL:SSL"}, "Listener SASL needs a certificate: ssl.keystore.location"),
        (
            {"listener.security.protocol.map": "SASL:SSL", "listener.name.sasl.ssl.keystore.location": "/no/file"},
            "listener SASL: SSL key store is specified, but key store password is not specified.",
        ),
    ],
)
def test_what_is_wrong_in_a_listener_is_found_before_the_start(values: dict[str, str], message: str) -> None:
    usual = {"listeners": "SASL://127.0.0.1:0", "listener.security.protocol.map": "SASL:SASL_PLAINTEXT"}
    config = single_node_config("/nowhere", "127.0.0.1", 0, {**usual, **values})
    assert isinstance(config, Config) and config.table is tables.BROKER
    with pytest.raises(ConfigError) as refused:
        NodeSetup(config, SystemClock())
    assert message in str(refused.value)
    assert "canary" not in str(refused.value)
