"""Other people's clients log in to the embedded broker: confluent-kafka (librdkafka), aiokafka and kafka-python, by TLS
with and without a certificate of their own, PLAIN, SCRAM and OAUTHBEARER. Wrong passwords and unknown authorities are
refused.
"""

from __future__ import annotations

import asyncio
import base64
import json
import pathlib
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.certificates import Authority
from support.kt import run_kt
from support.secure_broker import SecureBroker
from support.waiting import PATIENCE_S

from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.clients
TOPIC = "letters"
USERS = {
    "PLAIN": ("alice", "alice-canary"),
    "SCRAM-SHA-256": ("bob", "bob-canary"),
    "SCRAM-SHA-512": ("bob", "bob-canary"),
}
LOGINS = [
    ("SSL", ""),
    ("MTLS", ""),
    *(("SASL_PLAINTEXT", mechanism) for mechanism in (*USERS, "OAUTHBEARER")),
    *(("SASL_SSL", mechanism) for mechanism in (*USERS, "OAUTHBEARER")),
]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """The broker with a topic that every user may read and write."""
    made = SecureBroker(tmp_path_factory.mktemp("secure-broker"))
    made.broker.start()
    server = ("--bootstrap-server", made.bootstrap("PLAINTEXT"))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        credential = (
            "--entity-type",
            "users",
            "--entity-name",
            "bob",
            "--add-config",
            f"{mechanism}=[password=bob-canary]",
        )
        assert run_kt("configs", *server, "--alter", *credential).status == ExitStatus.OK
    assert run_kt("topics", *server, "--create", "--topic", TOPIC).status == ExitStatus.OK
    everyone = ("--allow-principal", "User:*", "--operation", "All", "--topic", TOPIC, "--group", "*")
    assert run_kt("acls", *server, "--add", *everyone).status == ExitStatus.OK
    yield made
    made.broker.close()


def unsigned_token() -> str:
    """A token for carol that is not signed, which the broker takes by default."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": "carol", "iat": now, "exp": now + 3600})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def confluent(secure: SecureBroker, listener: str, mechanism: str, password: str | None, trusted: str | None) -> bytes:
    """Send and read a record by librdkafka."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings: dict[str, Any] = {
        "bootstrap.servers": secure.bootstrap(listener),
        "security.protocol": "SSL" if listener == "MTLS" else listener,
        "ssl.ca.location": trusted,
    }
    if listener == "MTLS":
        both = str(secure.directory / "client-both.pem")
        settings |= {"ssl.certificate.location": both, "ssl.key.location": both}
    if mechanism in USERS:
        user, usual = USERS[mechanism]
        settings |= {"sasl.username": user, "sasl.password": password or usual}
    if mechanism:
        settings["sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda config: (unsigned_token(), time.time() + 3600)
    settings = {name: value for name, value in settings.items() if value is not None}
    failures: list[Any] = []
    producer = confluent_kafka.Producer({**settings, "message.timeout.ms": 30_000, "error_cb": failures.append})
    metadata: list[Any] = []
    producer.produce(TOPIC, b"by-librdkafka", on_delivery=lambda error, message: metadata.append((error, message)))
    deadline = time.monotonic() + PATIENCE_S
    while not metadata and not any(failure.code() in FATAL for failure in failures) and time.monotonic() < deadline:
        producer.poll(0.1)
    if not metadata or metadata[0][0] is not None:
        producer.purge()
        raise PermissionError(str(failures or metadata[0][0]))
    consumer = confluent_kafka.Consumer({**settings, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, metadata[0][1].offset())])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None and message.error() is None, message
    return bytes(message.value())


FATAL = (-169, -181)  # librdkafka's AUTHENTICATION and SSL errors


def context_of(secure: SecureBroker, listener: str, trusted: str | None) -> ssl.SSLContext | None:
    """The TLS settings of Python's clients."""
    if "SSL" not in listener and listener != "MTLS":
        return None
    context = ssl.create_default_context(cafile=trusted)
    if listener == "MTLS":
        context.load_cert_chain(secure.directory / "client-both.pem")
    return context


def of_asyncio(secure: SecureBroker, listener: str, mechanism: str, password: str | None, trusted: str | None) -> bytes:
    """Send and read a record by aiokafka."""
    aiokafka = pytest.importorskip("aiokafka")
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return unsigned_token()

    settings: dict[str, Any] = {
        "bootstrap_servers": secure.bootstrap(listener),
        "security_protocol": "SSL" if listener == "MTLS" else listener,
        "ssl_context": context_of(secure, listener, trusted),
    }
    if mechanism in USERS:
        user, usual = USERS[mechanism]
        settings |= {"sasl_plain_username": user, "sasl_plain_password": password or usual}
    if mechanism:
        settings["sasl_mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()

    async def run() -> bytes:
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
        except aiokafka.errors.KafkaConnectionError as error:
            await producer.stop()
            raise PermissionError(str(error)) from error
        try:
            sent = await producer.send_and_wait(TOPIC, b"by-aiokafka", partition=0)
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        await consumer.start()
        try:
            place = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([place])
            consumer.seek(place, sent.offset)
            return bytes((await asyncio.wait_for(consumer.getone(), 10)).value)
        finally:
            await consumer.stop()

    return asyncio.run(run())


def of_kafka_python(
    secure: SecureBroker, listener: str, mechanism: str, password: str | None, trusted: str | None
) -> bytes:
    """Send and read a record by kafka-python."""
    kafka = pytest.importorskip("kafka")
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return unsigned_token()

    settings: dict[str, Any] = {
        "bootstrap_servers": secure.bootstrap(listener),
        "security_protocol": "SSL" if listener == "MTLS" else listener,
        "ssl_context": context_of(secure, listener, trusted),
    }
    if mechanism in USERS:
        user, usual = USERS[mechanism]
        settings |= {"sasl_plain_username": user, "sasl_plain_password": password or usual}
    if mechanism:
        settings["sasl_mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    try:
        producer = kafka.KafkaProducer(**settings, max_block_ms=5000)
        sent = producer.send(TOPIC, b"by-kafka-python", partition=0).get(10)
    except kafka.errors.KafkaError as error:
        raise PermissionError(repr(error)) from error
    producer.close()
    consumer = kafka.KafkaConsumer(**settings, consumer_timeout_ms=10000)
    place = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([place])
    consumer.seek(place, sent.offset)
    value = bytes(next(consumer).value)
    consumer.close()
    return value


Client = Callable[[SecureBroker, str, str, str | None, str | None], bytes]
CLIENTS: dict[str, Client] = {
    "by-librdkafka": confluent,
    "by-aiokafka": of_asyncio,
    "by-kafka-python": of_kafka_python,
}
QUICK_TO_FAIL = [
    name for name in CLIENTS if name != "by-kafka-python"
]  # it tries for 30 s, and leaves its sockets open


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_a_client_logs_in_and_reads_what_it_wrote(
    secure: SecureBroker, client: str, listener: str, mechanism: str
) -> None:
    trusted = str(secure.authority.certificate)
    assert CLIENTS[client](secure, listener, mechanism, None, trusted) == client.encode()


@pytest.mark.parametrize("client", QUICK_TO_FAIL)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused(secure: SecureBroker, client: str, mechanism: str) -> None:
    with pytest.raises(PermissionError):
        CLIENTS[client](secure, "SASL_PLAINTEXT", mechanism, "wrong", None)


@pytest.mark.parametrize("client", QUICK_TO_FAIL)
def test_a_client_that_does_not_know_the_authority_refuses_the_broker(
    secure: SecureBroker, client: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(PermissionError):
        CLIENTS[client](secure, "SSL", "", None, str(Authority(tmp_path / "other").certificate))
