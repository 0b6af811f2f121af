"""Users who lack a right on Apache Kafka: kt says the same as about the embedded broker."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support.apache_kafka import ApacheKafka
from support.denied_users import GuardedBroker, guarded_broker
from support.kt import Ran
from support.ports import free_port

import kafkatools
from kafkatools.core.producer.producer_record import ProducerRecord

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class KafkaWithUsers:
    """Apache Kafka with an authorizer and a listener for SASL PLAIN."""

    def __init__(self, home: pathlib.Path) -> None:
        self.directory = str(home)
        self.kafka = ApacheKafka(home / "kafka")
        self._port = free_port()
        users = " ".join(f'user_{name}="{name}-password"' for name in ("admin", *(f"user-{n}" for n in range(64))))
        plain, controller = self.kafka.ports[0], self.kafka.controller_ports[0]
        self.kafka.settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{self._port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f"{LOGIN} {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "transaction.state.log.num.partitions": "1",
        }

    def client_settings(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self._port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{LOGIN} username="{user}" password="{user}-password";',
        }


@pytest.fixture(scope="module")
def real(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    assert kafka_jars
    broker = KafkaWithUsers(tmp_path_factory.mktemp("guarded"))
    broker.kafka.start()
    try:
        guarded = GuardedBroker(broker)
        yield guarded
        guarded.close()
    finally:
        broker.kafka.stop()


@pytest.fixture(scope="module")
def embedded() -> Iterator[GuardedBroker]:
    with guarded_broker() as broker:
        yield broker


def outcomes(guarded: GuardedBroker, home: pathlib.Path) -> dict[str, tuple[int, list[str]]]:
    """The exit status and stderr of commands by users who lack a right."""
    home.mkdir()
    found: dict[str, tuple[int, list[str]]] = {}

    def run(right: str, *words: str, **options: object) -> Ran:
        ran = guarded.kt(*words, user=guarded.user_without(*right.split("+")), **options)
        lines = ran.err.replace(guarded.cluster_id, "CLUSTER").replace(str(home), "HOME").splitlines()
        found[f"{words[0]} {words[-1].replace(str(home), 'HOME')} without {right}"] = (int(ran.status), lines)
        return ran

    guarded.topic("orders", b"0", b"1", b"2")
    headers = [("__streams.errors.topic", b"orders")]
    guarded.topic("dlq", ProducerRecord("dlq", b"v", None, 0, None, headers))
    with kafkatools.Admin(guarded.settings("admin")) as admin:
        admin.alter_group_offsets("readers", {("orders", 0): 1})
    assert guarded.kt("backup", "--to", str(home / "kept"), "--topic", "orders").status == 0
    for right in (
        "DESCRIBE TOPIC dlq", "READ TOPIC dlq", "WRITE TOPIC orders", "DESCRIBE TOPIC orders",
        "READ GROUP", "DESCRIBE GROUP+READ GROUP", "WRITE TRANSACTIONAL_ID+DESCRIBE TRANSACTIONAL_ID",
    ):  # fmt: skip
        run(right, "redrive", "dlq")
    for number, right in enumerate(
        ("DESCRIBE TOPIC", "CREATE TOPIC+CREATE CLUSTER", "WRITE TOPIC", "READ TOPIC", "READ GROUP")
    ):
        run(right, "restore", "--from", str(home / "kept"), "--rename", f"orders=new-{number}")
    (home / "a.toml").write_text(
        "[topics.orders]\npartitions = 2\n[topics.made]\n[[acls]]\nprincipal = 'User:shop'\ntopic = 'orders'\n"
        "operations = 'Read'\n[[quotas]]\nuser = 'shop'\nproducer_byte_rate = 1000\n"
    )
    for right in (
        "DESCRIBE TOPIC orders", "DESCRIBE_CONFIGS TOPIC", "DESCRIBE CLUSTER", "DESCRIBE_CONFIGS CLUSTER",
        "ALTER TOPIC+CREATE TOPIC+CREATE CLUSTER+ALTER_CONFIGS CLUSTER",
    ):  # fmt: skip
        run(right, "apply", str(home / "a.toml"), "--dry-run")
    environ = {"KT_JOURNAL": "on", "KT_HOME": str(home / "journal")}
    reset = ("--group", "readers", "--topic", "orders", "--to-offset", "3", "--execute", "--no-undo-file")
    assert guarded.kt("consumer-groups", "--reset-offsets", *reset, environ=environ).status == 0
    for right in ("DESCRIBE TOPIC orders", "DESCRIBE GROUP", "READ TOPIC orders", "READ GROUP"):
        ran = run(right, "undo", "1", "--yes", environ=environ)
        found[f"plan without {right}"] = (int(ran.status), ran.out.splitlines())
    for right in ("DESCRIBE GROUP readers", "DESCRIBE CLUSTER"):
        run(right, "monitor", "--once")
    found["topics"] = (0, sorted(name for name in guarded.topics() if not name.startswith("__")))
    return found


def test_the_same_is_said_about_both(real: GuardedBroker, embedded: GuardedBroker, tmp_path: pathlib.Path) -> None:
    of_kafka = outcomes(real, tmp_path / "real")
    assert outcomes(embedded, tmp_path / "embedded") == of_kafka
    assert all(status for name, (status, _) in of_kafka.items() if name != "topics")
    assert of_kafka["topics"] == (0, ["dlq", "orders"])
