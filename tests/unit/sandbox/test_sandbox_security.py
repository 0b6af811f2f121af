"""TLS, SASL and ACLs of sandboxes and embedded brokers: their files, their clients, and what is refused."""

from __future__ import annotations

import contextlib
import json
import pathlib
import ssl
import stat
from collections.abc import Iterator

import pytest
from support.kt import Ran, run_kt

from kafkatools import Admin, Consumer, EmbeddedBroker, EmbeddedCluster, Producer, SecurityOptions
from kafkatools.core.admin.topics import NewTopic
from kafkatools.core.errors import KafkaError, SslAuthenticationFailed, TopicAuthorizationFailed
from kafkatools.sandbox.certificates import issue_certificates
from kafkatools.sandbox.security import checked, parse_users
from kafkatools.sandbox.spawn import SandboxError

PASSWORD = 'pass"word\\: canary'


@pytest.fixture
def kt(tmp_path: pathlib.Path) -> Iterator[object]:
    """Runs kt with a home of its own, whose sandbox is stopped at the end."""
    environ = {"KT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "KT_SANDBOX": "quiet"}

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        return run_kt(*arguments, stdin=stdin, environ=environ)

    yield run
    run("sandbox", "stop")


def test_a_sandbox_with_its_client_file_and_its_profile(kt, tmp_path: pathlib.Path) -> None:  # type: ignore[no-untyped-def]
    options = ("--port", "0", "--mtls", "--sasl", "scram", "--acls", "--user", f"alice:{PASSWORD}", "--user", "bob")
    started = kt("sandbox", "start", *options, "--json")
    row = json.loads(started.stdout)
    file, directory = pathlib.Path(row["client_config"]), tmp_path / "home" / "sandbox" / "security"
    assert file == directory / "client.properties"
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert kt("topics", "--create", "--topic", "t").out == "Created topic t.\n"  # the running sandbox's profile
    where = ("--bootstrap-server", row["bootstrap"], "--command-config")
    assert kt("console-producer", "--topic", "t", *where, str(file), stdin=b"one\n").status == 0
    assert kt("--profile", "sandbox", "get-offsets", "--topic", "t").out == "t:0:1\n"
    assert kt("topics", "--list", *where, str(directory / "bob.properties")).out == ""  # bob has no rights
    refused = kt("topics", "--list", "--bootstrap-server", row["bootstrap"])
    assert refused.status == 1 and "it speaks TLS" in refused.err
    assert "canary" not in started.out + started.err + refused.err
    assert kt("sandbox", "start", "--tls").status == 1  # it runs with other options
    kt("sandbox", "stop")
    assert kt("sandbox", "start", "--port", "0").status == 0
    assert not file.exists() and (directory / "ca.pem").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sasl", "gssapi"), "--sasl is one of scram, plain, oauthbearer, not gssapi"),
        (("--user", "alice:secret"), "--user needs --sasl"),
        (("--tls", "--acls"), "--acls needs --sasl or --mtls: otherwise every client is User:ANONYMOUS"),
        (("--sasl", "plain", "--user", "a b:canary"), "--user takes NAME:PASSWORD or NAME"),
        (("--sasl", "plain", "--user", "a:"), "--user a: the password is empty or has control characters"),
        (("--sasl", "plain", "--user", "a:canary\n"), "--user a: the password is empty or has control characters"),
        (("--sasl", "plain", "--user", "a:x", "--user", "a:y"), "--user names a twice"),
        (("--sasl", "plain", "--user", "kt-node:x"), "--user cannot be kt-node"),
        (("--sasl", "oauthbearer", "--user", "a:canary"), "--user a: tokens have no password; pass --user a"),
    ],
)
def test_options_that_do_not_fit_together(kt, options: tuple[str, ...], message: str) -> None:  # type: ignore[no-untyped-def]
    ran = kt("sandbox", "start", *options)
    assert (ran.status, ran.out) == (2, "")
    assert f"kt sandbox: error: {message}" in ran.err.splitlines()[0]
    assert "canary" not in ran.err


def test_a_user_without_a_password_gets_a_random_one() -> None:
    users = parse_users(["a", "b"], "plain")
    assert len(users["a"]) >= 20 and users["a"] != users["b"]
    assert list(checked(SecurityOptions(sasl="scram")).users) == ["admin"]
    with pytest.raises(SandboxError, match="--sasl is one of"):
        checked(SecurityOptions(sasl="PLAIN"))


@pytest.mark.slow
@pytest.mark.parametrize("sasl", ["plain", "oauthbearer"])
def test_embedded_broker(sasl: str) -> None:
    users = {"alice": "" if sasl == "oauthbearer" else PASSWORD, "bob": "b"}
    with EmbeddedBroker(security=SecurityOptions(tls=True, sasl=sasl, acls=True, users=users)) as broker:
        with Admin(broker.client_settings()) as admin:
            admin.create_topics("t")
        with Producer(broker.client_settings("bob")) as producer, pytest.raises(TopicAuthorizationFailed):
            producer.send("t", b"x").get(10_000)
        with pytest.raises(ValueError, match="There is no user 'eve'. Users: alice, bob"):
            broker.client_settings("eve")


def test_certificates_are_those_that_strict_clients_accept(tmp_path: pathlib.Path) -> None:
    """Python 3.13 verifies by RFC 5280 (VERIFY_X509_STRICT) in the contexts that clients make."""
    issue_certificates(str(tmp_path), client="alice")
    server_side, client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    for context, own in ((server_side, "node.pem"), (client_side, "client.pem")):
        context.load_verify_locations(tmp_path / "ca.pem")
        context.load_cert_chain(tmp_path / own)
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(there, here, server_side=True)
    client = client_side.wrap_bio(here, there, server_hostname="localhost")
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.getpeercert() and server.getpeercert()


@pytest.mark.slow
def test_embedded_broker_requires_a_certificate() -> None:
    with EmbeddedBroker(security=SecurityOptions(mtls=True, acls=True)) as broker:
        settings = broker.client_settings()
        with Admin(settings) as admin:
            admin.create_topics("t")
        anonymous = {name: value for name, value in settings.items() if "keystore" not in name}
        with Admin(anonymous) as admin, pytest.raises(SslAuthenticationFailed, match="wants a certificate"):
            admin.list_topics()


@pytest.mark.slow
def test_nodes_of_a_cluster_authenticate_to_each_other() -> None:
    security = SecurityOptions(tls=True, sasl="scram", acls=True, users={"alice": PASSWORD})
    with EmbeddedCluster(2, security=security) as cluster:
        settings = cluster.client_settings()
        with Admin(settings) as admin:
            admin.create_topics(NewTopic("t", 4, 2))
        with Producer({**settings, "acks": "all"}) as producer:
            futures = [producer.send("t", b"%d" % number) for number in range(1000)]
        assert all(future.get(0).offset >= 0 for future in futures)
        with Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["t"])
            found = set()
            for record in consumer:
                found.add(record.value)
                if len(found) == 1000:
                    break
        wrong = {**settings, "sasl.jaas.config": settings["sasl.jaas.config"].replace("alice", "kt-node")}
        with Admin(wrong) as admin, pytest.raises(KafkaError, match="SASL SCRAM-SHA-512 with .* failed"):
            admin.list_topics()
