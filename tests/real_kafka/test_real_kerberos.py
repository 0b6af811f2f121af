"""SASL GSSAPI with MIT's KDC: kt and Apache Kafka's tools against Apache Kafka and the embedded broker."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support import apache_kafka, kerberos
from support.kt import run_kt
from support.ports import free_port
from support.waiting import PATIENCE_S

from kafkatools import Consumer, Producer
from kafkatools.sandbox.embedded_broker import EmbeddedBroker

pytest.importorskip("gssapi")
pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

BROKERS = ("apache", "embedded")
RULES = "RULE:[1:$1](svc-.*)s/svc-(.*)/$1/U,RULE:[2:$1.$2](admin[.].*)s/[.]//g/L,DEFAULT"
PRINCIPALS = {"alice": "alice", "svc-job": "JOB", "admin/Host.One": "adminhostone"}
"""Principals, and the user names that RULES give them."""


class Site(NamedTuple):
    realm: kerberos.Realm
    ports: dict[str, int]
    keytabs: dict[str, pathlib.Path]

    def client(self, principal: str = "alice") -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": kerberos.login(self.keytabs[principal], principal),
        }

    def file(self, principal: str) -> str:
        path = self.realm.home / f"{principal.replace('/', '-')}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self.client(principal).items()))
        path.chmod(0o600)
        return str(path)


@pytest.fixture(scope="module")
def site(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    assert kafka_jars
    realm = kerberos.Realm(tmp_path_factory.mktemp("realm"))
    with pytest.MonkeyPatch.context() as patch:
        realm.start()
        for name, value in realm.environ.items():
            patch.setenv(name, value)
        service = realm.keytab("kafka/localhost")
        keytabs = {name: realm.keytab(name) for name in (*PRINCIPALS, "other")}
        ports = {name: free_port() for name in BROKERS}
        real = apache_kafka.ApacheKafka(realm.home / "kafka", jvm=jvm(realm))
        plain = {"apache": real.ports[0], "embedded": free_port()}

        def settings(name: str, more: str = "") -> dict[str, str]:
            return {
                "listeners": f"PLAINTEXT://127.0.0.1:{plain[name]},SASL://127.0.0.1:{ports[name]}{more}",
                "advertised.listeners": f"PLAINTEXT://localhost:{plain[name]},SASL://localhost:{ports[name]}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "listener.name.sasl.sasl.enabled.mechanisms": "GSSAPI",
                "listener.name.sasl.gssapi.sasl.jaas.config": kerberos.login(service, "kafka/localhost"),
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.principal.to.local.rules": RULES,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            }

        real.settings = settings("apache", f",CONTROLLER://127.0.0.1:{real.controller_ports[0]}")
        embedded = EmbeddedBroker(settings("embedded"))
        try:
            embedded.start()
            real.start()
            for name in BROKERS:
                where = ("--bootstrap-server", f"localhost:{plain[name]}")
                assert run_kt("topics", *where, "--create", "--topic", "seen").status == 0
                for user in PRINCIPALS.values():
                    rights = ("--add", "--topic", "seen", "--group", "*", "--operation", "all")
                    assert run_kt("acls", *where, *rights, "--allow-principal", f"User:{user}").status == 0
            yield Site(realm, ports, keytabs)
        finally:
            real.stop()
            embedded.close()
            realm.stop()


def jvm(realm: kerberos.Realm) -> tuple[str, ...]:
    """The options of a JVM in the realm."""
    return (*apache_kafka.QUICK_START, f"-Djava.security.krb5.conf={realm.config}")


def test_tools_of_kt_and_of_apache_kafka_see_the_same(site: Site) -> None:
    running = {}
    for broker in BROKERS:
        for principal in (*PRINCIPALS, "other"):
            where = ("--bootstrap-server", f"localhost:{site.ports[broker]}", "--command-config", site.file(principal))
            command = apache_kafka.command("topics", "--list", *where, jvm=jvm(site.realm))
            java = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            running[broker, principal] = java, run_kt("topics", "--list", *where)
    found = {
        key: (java.communicate(timeout=PATIENCE_S)[0].split(), ran.out.split(), ran.err)
        for key, (java, ran) in running.items()
    }
    seen = {key: (["seen"], ["seen"], "") if key[1] in PRINCIPALS else ([], [], "") for key in running}
    assert found == seen


@pytest.mark.parametrize("broker", BROKERS)
def test_records_pass(site: Site, broker: str) -> None:
    settings = {"bootstrap.servers": f"localhost:{site.ports[broker]}", **site.client()}
    with Producer(settings) as producer:
        for number in range(10):
            producer.send("seen", b"%d" % number)
    with Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["seen"])
        found: list[bytes | None] = []
        for record in consumer:
            found.append(record.value)
            if len(found) == 10:
                break
    assert found == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("broker", BROKERS)
def test_a_message_that_is_no_ticket_gets_the_same_answer(site: Site, broker: str) -> None:
    from support.sasl_conversations import Talk

    talk = Talk(f"localhost:{site.ports[broker]}").versions().handshake("GSSAPI").say("no ticket")
    talk.client.close()
    message = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    assert talk.outcomes == [0, [0, ["GSSAPI"]], [58, message, "", 0]]
