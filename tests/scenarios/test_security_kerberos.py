"""SASL GSSAPI with a KDC of its own: our clients and the embedded broker."""

from __future__ import annotations

import asyncio
import pathlib
import re
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support import kerberos
from support.embedded_three_nodes import EmbeddedNodes
from support.kt import Ran, run_kt
from support.manual_clock import ManualClock
from support.ports import free_port
from support.waiting import eventually

from kafkatools import Admin, NewTopic, Producer, aio
from kafkatools.core import config as tables
from kafkatools.core.broker.node import single_node_config
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError
from kafkatools.core.net.security.login import login_of
from kafkatools.sandbox.embedded_broker import EmbeddedBroker

pytest.importorskip("gssapi")

CLIENT = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
SHORT_SESSION_MS = 1500
NETWORK_MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


class Site(NamedTuple):
    realm: kerberos.Realm
    broker: EmbeddedBroker
    alice: pathlib.Path
    ports: dict[str, int]

    def list_topics(self, jaas: str | None, host: str = "localhost", listener: str = "SASL", **more: str) -> Ran:
        values = {**CLIENT, **({} if jaas is None else {"sasl.jaas.config": jaas}), **more}
        path = self.realm.home / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        path.chmod(0o600)
        where = ("--bootstrap-server", f"{host}:{self.ports[listener]}", "--command-config", str(path))
        return run_kt("topics", "--list", *where)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    realm = kerberos.Realm(tmp_path_factory.mktemp("realm"))
    with pytest.MonkeyPatch.context() as patch:
        realm.start()
        for name, value in realm.environ.items():
            patch.setenv(name, value)
        service, alice = realm.keytab("kafka/localhost"), realm.keytab("alice")
        ports = {name: free_port() for name in ("PLAINTEXT", "SASL", "SHORT")}
        settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "advertised.listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "listener.name.short.gssapi.connections.max.reauth.ms": str(SHORT_SESSION_MS),
        }
        for name in ("sasl", "short"):
            settings[f"listener.name.{name}.sasl.enabled.mechanisms"] = "GSSAPI"
            settings[f"listener.name.{name}.gssapi.sasl.jaas.config"] = kerberos.login(service, "kafka/localhost")
        broker = EmbeddedBroker(settings)
        broker.start()
        assert run_kt("topics", "--bootstrap-server", f"localhost:{ports['PLAINTEXT']}", "--create", "--topic", "seen")
        try:
            yield Site(realm, broker, alice, ports)
        finally:
            broker.close()
            realm.stop()


def test_keytab_and_ticket_cache(site: Site) -> None:
    cache = site.realm.ticket_cache("alice", site.alice, "cache")
    keytab = site.list_topics(kerberos.login(site.alice, "alice"))
    cached = site.list_topics(f'{NETWORK_MODULE} useTicketCache=true ticketCache="{cache}";')
    assert [(ran.status, ran.out, ran.err) for ran in (keytab, cached)] == [(0, "seen\n", "")] * 2


def test_default_ticket_cache_needs_no_jaas_config(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(site.realm.ticket_cache("alice", site.alice, "default")))
    ran = site.list_topics(None)
    assert (ran.status, ran.out, ran.err) == (0, "seen\n", "")


def test_exchange_that_no_connection_took_is_not_used_later(site: Site) -> None:
    clock, done = ManualClock(), threading.Semaphore(0)
    config = Config(tables.ADMIN, {**CLIENT, "sasl.jaas.config": kerberos.login(site.alice, "alice")})
    login = login_of(config, clock, done.release)
    first = []
    for _ in range(2):
        assert not login.is_ready("localhost")
        assert done.acquire(timeout=20)
        assert login.is_ready("localhost")
        clock.advance_ms(31_000)
        first.append(login.is_ready("localhost"))
        assert done.acquire(timeout=20)
        login.start("localhost")
    assert first == [False, False]


def test_producer_of_asyncio_keeps_no_thread_of_the_login(site: Site) -> None:
    settings = {"bootstrap.servers": f"localhost:{site.ports['SASL']}", **CLIENT}
    settings["sasl.jaas.config"] = kerberos.login(site.alice, "alice")

    async def send() -> None:
        async with aio.Producer(settings) as producer, asyncio.timeout(60):
            assert (await (await producer.send("seen", b"x"))).offset >= 0
            while any(thread.name.startswith("kafkatools") for thread in threading.enumerate()):
                await asyncio.sleep(0.01)  # another connection may be about to log in

    asyncio.run(send())


def test_rights_belong_to_the_principal(site: Site) -> None:
    ran = site.list_topics(kerberos.login(site.realm.keytab("bob"), "bob"))
    assert (ran.status, ran.out, ran.err) == (0, "", "")


def test_sessions_end_and_begin_anew(site: Site) -> None:
    clock = SystemClock()
    settings = {"bootstrap.servers": f"localhost:{site.ports['SHORT']}", **CLIENT}
    with Producer({**settings, "sasl.jaas.config": kerberos.login(site.alice, "alice")}) as producer:
        ends_ms, futures = clock.now_ms() + 2 * SHORT_SESSION_MS, []
        while clock.now_ms() < ends_ms:
            futures.append(producer.send("seen", b"x"))
            clock.sleep_ms(5)
    offsets = [future.get(0).offset for future in futures]
    assert offsets == list(range(offsets[0], offsets[0] + len(futures)))


def test_refusals_name_the_cause_in_one_line(site: Site) -> None:
    alice = kerberos.login(site.alice, "alice")
    stale = site.realm.home / "stale.keytab"
    stale.write_bytes(site.realm.keytab("carol").read_bytes())
    site.realm.change_keys("carol")
    empty = site.realm.home / "empty-cache"
    cases = [
        (alice, "127.0.0.1", {}, "no ticket for kafka/127.0.0.1 with alice@EXAMPLE.TEST from the keytab"),
        (alice, "localhost", {"sasl.kerberos.service.name": "other"}, "no ticket for other/localhost with alice"),
        (kerberos.login(site.alice, "zoe"), "localhost", {}, "no ticket of zoe@EXAMPLE.TEST from the keytab"),
        (kerberos.login(stale, "carol"), "localhost", {}, "carol@EXAMPLE.TEST from the keytab"),
        (f'{NETWORK_MODULE} useTicketCache=true ticketCache="{empty}";', "localhost", {}, f"the ticket cache {empty}"),
    ]
    for jaas, host, more, message in cases:
        ran = site.list_topics(jaas, host, **more)
        assert (ran.status, ran.out) == (1, "") and len(ran.err.splitlines()) == 1, ran.err
        assert "SASL GSSAPI with" in ran.err and message in ran.err


def test_a_realm_that_is_down_ends_a_command(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    down = tmp_path / "krb5.conf"
    down.write_text(re.sub(r"kdc = 127.0.0.1:\d+", "kdc = 127.0.0.1:1", site.realm.config.read_text()))
    monkeypatch.setenv("KRB5_CONFIG", str(down))
    ran = site.list_topics(kerberos.login(site.alice, "alice"))
    assert ran.status == 1 and "Cannot contact any KDC for realm 'EXAMPLE.TEST'" in ran.err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sasl.kerberos.service.name": None}, "sasl.kerberos.service.name is not set"),
        ({"sasl.jaas.config": f'{NETWORK_MODULE} useTicketCache=true serviceName="x";'}, "Conflicting serviceName"),
        ({"sasl.jaas.config": f"{NETWORK_MODULE} useKeyTab=true;"}, "principal is not in sasl.jaas.config"),
        ({"sasl.jaas.config": f"{NETWORK_MODULE};"}, "neither useKeyTab=true nor useTicketCache=true"),
        ({"sasl.jaas.config": f"{NETWORK_MODULE} useTicketCache=true renewTGT=true;"}, "not supported: renewTGT"),
        ({"sasl.mechanism": None, "sasl.jaas.config": 'a.PlainLoginModule required username="x";'}, "GSSAPI is its de"),
    ],
)
def test_settings_that_cannot_be_had_are_refused_by_name(values: dict[str, str | None], message: str) -> None:
    settings = {name: value for name, value in {**CLIENT, **values}.items() if value is not None}
    with pytest.raises(ConfigError, match=message):
        login_of(Config(tables.ADMIN, settings), SystemClock(), lambda: None)


def test_broker_without_its_key_does_not_start(site: Site) -> None:
    values = {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "listener.name.sasl.gssapi.sasl.jaas.config": kerberos.login(site.alice, "kafka/localhost"),
    }
    with pytest.raises(ConfigError, match="listener SASL, GSSAPI .*the key of kafka/localhost@EXAMPLE.TEST in the key"):
        NodeSetup(single_node_config("/nowhere", "127.0.0.1", 0, values), SystemClock())


@pytest.mark.slow
def test_brokers_log_in_at_each_other(site: Site, tmp_path: pathlib.Path) -> None:
    service = site.realm.keytab("cluster/127.0.0.1")
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.plaintext.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.plaintext.gssapi.sasl.jaas.config": kerberos.login(service, "cluster/127.0.0.1"),
        "sasl.kerberos.service.name": "cluster",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    }
    nodes = EmbeddedNodes(tmp_path, 2, settings)
    client = {**CLIENT, "sasl.kerberos.service.name": "cluster", "bootstrap.servers": nodes.bootstrap}
    client["sasl.jaas.config"] = kerberos.login(site.alice, "alice")
    try:
        nodes.start()
        with Admin(client) as admin:
            admin.create_topics([NewTopic("copied", 1, 2)])
        with Producer({**client, "acks": "all"}) as producer:
            assert producer.send("copied", b"x").get(20_000).offset == 0
        with Admin(client) as admin:
            eventually(lambda: len(admin.describe_topics(["copied"])["copied"].partitions[0].isr) == 2)
    finally:
        nodes.stop()
