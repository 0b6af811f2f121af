"""Other people's clients with TLS and SASL against the embedded broker: Apache Kafka's tools and librdkafka."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from support import apache_kafka
from support.kt import run_kt
from support.login_matrix import CASES, CLIENTS, logins_that_work
from support.secure_broker import LOGINS, SecureBroker

Works = dict[tuple[str, str], bool]
pytestmark = [pytest.mark.real_kafka, pytest.mark.clients, pytest.mark.slow]


@pytest.fixture(scope="module")
def secure(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    assert kafka_jars
    made = SecureBroker(tmp_path_factory.mktemp("secure-broker"))
    made.broker.start()
    try:
        plain = ("--bootstrap-server", made.bootstrap("PLAINTEXT"))
        credentials = ",".join(f"SCRAM-SHA-{size}=[password=bob-canary]" for size in (256, 512))
        users = ("--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config", credentials)
        assert run_kt("configs", *plain, *users).status == 0
        assert run_kt("topics", *plain, "--create", "--topic", "seen").status == 0
        rights = ("--add", "--topic", "seen", "--group", "*", "--operation", "all", "--allow-principal", "User:*")
        assert run_kt("acls", *plain, *rights).status == 0
        yield made
    finally:
        made.broker.close()


@pytest.fixture(scope="module")
def works(secure: SecureBroker) -> Works:
    return logins_that_work(secure, secure.identity)


@pytest.mark.parametrize("login", CASES)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_login(works: Works, client: str, login: str) -> None:
    assert works[client, login]


def test_wrong_password_is_one_line_of_apache_kafkas_tools(secure: SecureBroker) -> None:
    values = secure.sasl("PLAIN", login=LOGINS["PLAIN"].replace("alice-canary", "wrong"))
    file = ("--command-config", secure.client_file("wrong", values))
    ran = apache_kafka.run_tool("topics", "--list", "--bootstrap-server", secure.bootstrap("SASL_SSL"), *file)
    refusal = "Error while executing topic command : Authentication failed: Invalid username or password\n"
    assert (ran.stdout + ran.stderr).decode() == refusal


def test_config_providers_are_those_of_apache_kafka(secure: SecureBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "alice-canary")
    (secure.home / "secret.properties").write_text("user=al\\u0069ce\n")
    (secure.home / "store").write_text(str(secure.authority.certificate))
    provider = "org.apache.kafka.common.config.provider"
    login = LOGINS["PLAIN"].replace('"alice"', f'"${{f:{secure.home}/secret.properties:user}}"')
    values = {
        **secure.sasl("PLAIN", login=login.replace("alice-canary", "${e:KAFKA_PASSWORD}")),
        "ssl.truststore.location": f"${{d:{secure.home}:store}}",
        "config.providers": "f,d,e",
        "config.providers.f.class": f"{provider}.FileConfigProvider",
        "config.providers.f.param.allowed.paths": str(secure.home),
        "config.providers.d.class": f"{provider}.DirectoryConfigProvider",
        "config.providers.e.class": f"{provider}.EnvVarConfigProvider",
        "config.providers.e.param.allowlist.pattern": "KAFKA_.*",
    }
    where = ("--bootstrap-server", secure.bootstrap("SASL_SSL"))
    file = ("--command-config", secure.client_file("providers", values))
    java = subprocess.run(apache_kafka.command("topics", "--list", *where, *file), capture_output=True, check=False)
    ours = run_kt("topics", "--list", *where, *file, environ={"KAFKA_PASSWORD": "alice-canary"})
    assert (ours.status, ours.err) == (0, "") and "seen" in ours.out.split()
    assert b"seen" in java.stdout.split(), java.stdout + java.stderr


def test_librdkafka_with_every_mechanism(secure: SecureBroker) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    trust = {"ssl.ca.location": str(secure.authority.certificate), "auto.offset.reset": "earliest"}
    users = {"PLAIN": ("alice", "alice-canary"), "SCRAM-SHA-256": ("bob", "bob-canary")}
    users["SCRAM-SHA-512"] = users["SCRAM-SHA-256"]
    token = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=carol"}
    for mechanism in LOGINS:
        login = token
        if mechanism in users:
            login = {"sasl.username": users[mechanism][0], "sasl.password": users[mechanism][1]}
        settings = {"bootstrap.servers": secure.bootstrap("SASL_SSL"), "security.protocol": "SASL_SSL", **trust}
        settings |= {"sasl.mechanism": mechanism, **login}
        producer = confluent.Producer(settings)
        producer.produce("seen", mechanism.encode())
        assert producer.flush(30) == 0
        consumer = confluent.Consumer({**settings, "group.id": mechanism})
        consumer.subscribe(["seen"])
        found = []
        while found[-1:] != [mechanism.encode()]:
            message = consumer.poll(30)
            assert message is not None and message.error() is None
            found.append(message.value())
        consumer.close()
