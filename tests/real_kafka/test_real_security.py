"""TLS and SASL against Apache Kafka: every mechanism and kind of store, sessions that end, and what goes wrong."""

from __future__ import annotations

import base64
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.kt import Ran, run_kt
from support.login_matrix import CASES, CLIENTS, logins_that_work
from support.secure_kafka import (
    KEY_PASSWORD,
    PLAIN_LOGIN,
    SCRAM_LOGIN,
    SHORT_SESSION_MS,
    STORE_PASSWORD,
    TOKEN_LOGIN,
    SecureKafka,
)
from support.waiting import eventually

from kafkatools import Admin, Consumer, Producer
from kafkatools.core.clock import SystemClock

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

Works = dict[tuple[str, str], bool]
SASL = {
    "PLAIN": PLAIN_LOGIN,
    "SCRAM-SHA-256": SCRAM_LOGIN,
    "SCRAM-SHA-512": SCRAM_LOGIN,
    "OAUTHBEARER": TOKEN_LOGIN,
}


@pytest.fixture(scope="module")
def secure(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    assert kafka_jars
    made = SecureKafka(tmp_path_factory.mktemp("secure-kafka"))
    made.cluster.start()
    try:
        plain = ("--bootstrap-server", made.bootstrap("PLAINTEXT"))
        assert run_kt("topics", *plain, "--create", "--topic", "seen").status == 0
        credentials = ",".join(f"SCRAM-SHA-{size}=[password=bob-canary]" for size in (256, 512))
        users = ("--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config", credentials)
        assert run_kt("configs", *plain, *users).status == 0
        eventually(lambda: "bob" in run_kt("configs", *plain, "--describe", "--entity-type", "users").out)
        yield made
    finally:
        made.cluster.stop()


def sasl(secure: SecureKafka, mechanism: str, *, tls: bool = True, **more: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": SASL[mechanism],
        **(secure.trust if tls else {}),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def list_topics(secure: SecureKafka, listener: str, values: dict[str, str], host: str = "localhost") -> Ran:
    file = secure.client_file("client", values)
    where = ("--bootstrap-server", secure.bootstrap(listener, host), "--command-config", file)
    ran = run_kt("topics", "--list", *where)
    assert b"canary" not in ran.stdout + ran.stderr
    return ran


@pytest.fixture(scope="module")
def works(secure: SecureKafka) -> Works:
    return logins_that_work(secure, stores(secure)["pem"])


@pytest.mark.parametrize("login", CASES)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_login(works: Works, client: str, login: str) -> None:
    assert works[client, login]


@pytest.mark.parametrize("mechanism", SASL)
def test_every_mechanism_without_tls(secure: SecureKafka, mechanism: str) -> None:
    ran = list_topics(secure, "SASL_PLAINTEXT", sasl(secure, mechanism, tls=False))
    assert (ran.status, ran.err) == (0, "")
    assert "seen" in ran.out.split()


def test_token_of_a_command(secure: SecureKafka) -> None:
    token = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    claims = base64.urlsafe_b64encode(b'{"sub":"dave","iat":1,"exp":4102444800}').decode().rstrip("=")
    program = secure.home / "token.py"
    program.write_text(f"print('{token}.{claims}.')")
    values = {**sasl(secure, "OAUTHBEARER"), "sasl.oauthbearer.token.command": f"{sys.executable} {program}"}
    del values["sasl.jaas.config"]
    assert list_topics(secure, "SASL_SSL", values).status == 0


def stores(secure: SecureKafka) -> dict[str, dict[str, str]]:
    files = secure.directory
    return {
        "jks": {
            "ssl.truststore.location": str(files / "trust.jks"),
            "ssl.truststore.password": STORE_PASSWORD,
            "ssl.keystore.location": str(files / "client.jks"),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": KEY_PASSWORD,
        },
        "pkcs12": {
            **secure.trust,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(files / "client.p12"),
            "ssl.keystore.password": STORE_PASSWORD,
        },
        "pem": {
            **secure.trust,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": (files / "client.key").read_text().replace("\n", " "),
            "ssl.keystore.certificate.chain": (files / "client.pem").read_text().replace("\n", " "),
        },
    }


@pytest.mark.parametrize("kind", ["jks", "pkcs12", "pem"])
def test_certificate_of_the_client(secure: SecureKafka, kind: str) -> None:
    ran = list_topics(secure, "MTLS", {"security.protocol": "SSL", **stores(secure)[kind]})
    assert (ran.status, ran.err) == (0, "")


def test_records_there_and_back_through_the_commands(secure: SecureKafka) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(20_000))
    connection = ("--topic", "lines", "--bootstrap-server", secure.bootstrap("SASL_SSL"))
    file = ("--command-config", secure.client_file("scram", sasl(secure, "SCRAM-SHA-512")))
    assert run_kt("topics", *connection, "--create", *file).status == 0
    assert run_kt("console-producer", *connection, *file, stdin=lines).status == 0
    for group in ((), ("--group", "secured")):
        read = ("--from-beginning", "--max-messages", "20000")
        assert run_kt("console-consumer", *connection, *file, *read, *group).stdout == lines


def test_python_with_large_records_over_tls(secure: SecureKafka) -> None:
    settings = {"bootstrap.servers": secure.bootstrap("SSL"), "security.protocol": "SSL", **secure.trust}
    values = [bytes([number]) * 900_000 for number in range(20)]
    with Admin(settings) as admin:
        assert "seen" in [str(getattr(each, "name", each)) for each in admin.list_topics()]
    with Producer(settings) as producer:
        futures = [producer.send("large", value) for value in values]
    assert [future.get(0).offset for future in futures] == list(range(20))
    with Consumer({**settings, "group.id": "large", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["large"])
        found: list[bytes | None] = []
        for record in consumer:
            found.append(record.value)
            if len(found) == len(values):
                break
    assert found == values


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_sessions_end_and_begin_anew_under_load_and_after_idleness(secure: SecureKafka, mechanism: str) -> None:
    clock = SystemClock()
    settings = sasl(secure, mechanism, tls=False)
    settings["bootstrap.servers"] = secure.bootstrap("SHORT")
    with Producer(settings) as producer:
        ends_ms, futures = clock.now_ms() + 2 * SHORT_SESSION_MS, []
        while clock.now_ms() < ends_ms:
            futures.append(producer.send("seen", b"x" * 100))
            clock.sleep_ms(2)
        clock.sleep_ms(SHORT_SESSION_MS)
        futures.append(producer.send("seen", b"last"))
    offsets = [future.get(0).offset for future in futures]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


WRONG_PLAIN = PLAIN_LOGIN.replace("alice-canary", "wrong-canary")


@pytest.mark.parametrize(
    ("listener", "values", "message"),
    [
        (
            "SASL_PLAINTEXT",
            {"sasl.jaas.config": WRONG_PLAIN},
            "SASL PLAIN with {} failed: Authentication failed: Invalid",
        ),
        ("PLAINTEXT", {}, "SASL PLAIN with {} failed: its listener does not use SASL"),
        (
            "SASL_PLAINTEXT",
            {"sasl.mechanism": "SCRAM-SHA-256"},
            "SASL SCRAM-SHA-256 with {} failed: Authentication failed during authentication due to invalid credentials",
        ),
        ("SASL_SSL", {}, "it speaks TLS; set security.protocol to SSL or SASL_SSL"),
    ],
)
def test_sasl_that_fails_is_told_in_one_line(
    secure: SecureKafka, listener: str, values: dict[str, str], message: str
) -> None:
    ran = list_topics(secure, listener, {**sasl(secure, "PLAIN", tls=False), **values})
    assert ran.status == 1 and ran.out == ""
    assert message.format(secure.bootstrap(listener)) in ran.err.splitlines()[0]


def test_tls_that_fails_is_told_in_one_line(secure: SecureKafka, tmp_path: pathlib.Path) -> None:
    trusting = {"security.protocol": "SSL", **secure.trust}
    cases = [
        ("SSL", "127.0.0.1", trusting, "the server's certificate is not for 127.0.0.1"),
        (
            "SSL",
            "localhost",
            {"security.protocol": "SSL"},
            "no certificate in the truststore (ssl.truststore.*) is the issuer",
        ),
        ("MTLS", "localhost", trusting, "the server wants a certificate of the client that it trusts"),
        ("PLAINTEXT", "localhost", trusting, "the server closed the connection during the handshake: is it a port wi"),
    ]
    for listener, host, values, message in cases:
        ran = list_topics(secure, listener, values, host)
        assert (ran.status, ran.out) == (1, "")
        assert f"TLS with {secure.bootstrap(listener, host)} failed: {message}" in ran.err
        assert len(ran.err.splitlines()) == 1
    unchecked = {**trusting, "ssl.endpoint.identification.algorithm": ""}
    ran = list_topics(secure, "SSL", unchecked, "127.0.0.1")
    assert ran.status == 0
    assert ran.err.startswith("warning: ssl.endpoint.identification.algorithm is empty")


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("change", [{}, {"sasl.mechanism": "SCRAM-SHA-256"}], ids=["taken", "refused"])
def test_secrets_are_in_no_debug_output(secure: SecureKafka, listener: str, change: dict[str, str]) -> None:
    values = {**sasl(secure, "PLAIN", tls=listener == "SASL_SSL"), **stores(secure)["jks"], **change}
    values["ssl.truststore.type"] = "JKS"
    file = secure.client_file("debug", values)
    where = ("--bootstrap-server", secure.bootstrap(listener), "--command-config", file)
    program = [sys.executable, "-m", "kafkatools", "topics", "--list", *where]
    environ = {**os.environ, "KT_DEBUG": "1", "KT_SANDBOX": "off"}
    done = subprocess.run(program, capture_output=True, env=environ, check=False)
    assert done.returncode == (1 if change else 0)
    assert b"canary" not in done.stdout + done.stderr
    assert not change or b"Traceback" in done.stderr


@pytest.mark.parametrize("command", ["console-producer", "console-consumer"])
def test_refused_credentials_end_a_command_at_once(secure: SecureKafka, command: str) -> None:
    values = {**sasl(secure, "PLAIN", tls=False), "sasl.jaas.config": WRONG_PLAIN}
    file = secure.client_file("wrong", values)
    where = ("--bootstrap-server", secure.bootstrap("SASL_PLAINTEXT"), "--topic", "seen", "--command-config", file)
    began_ms = SystemClock().now_ms()
    ran = run_kt(command, *where, stdin=b"one\n")
    assert ran.status == 1
    assert "SASL PLAIN with" in ran.err and "canary" not in ran.err
    assert SystemClock().now_ms() - began_ms < 20_000
