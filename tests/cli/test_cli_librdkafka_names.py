"""Settings of librdkafka in profiles: logins on a broker with TLS and SASL, and settings that cannot be translated."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Mapping

import pytest
from support.kt import Ran, run_kt
from support.requirements import require
from support.secure_broker import SecureBroker

from kafkatools.core.net.security.jaas import parse_jaas_config
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options.librdkafka_names import with_kafka_names

PLAIN = {"sasl.mechanisms": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-canary"}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    made = SecureBroker(tmp_path_factory.mktemp("secure-broker"))
    with made.broker:
        yield made


def list_topics(secure: SecureBroker, listener: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> Ran:
    config = secure.home / "config.toml"
    lines = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in settings.items())
    config.write_text(
        f'[profiles.it]\nbootstrap_servers = "{secure.bootstrap(listener)}"\n[profiles.it.settings]\n{lines}'
    )
    config.chmod(0o600)
    return run_kt("--profile", "it", "topics", "--list", environ={"KT_CONFIG": str(config), **environ}, cwd=secure.home)


def test_a_login_over_tls_with_the_password_of_the_environment(secure: SecureBroker) -> None:
    settings = {**PLAIN, "security.protocol": "sasl_ssl", "ssl.ca.location": str(secure.authority.certificate)}
    settings["sasl.password"] = "${env:THE_PASSWORD}"
    accepted = list_topics(secure, "SASL_SSL", settings, {"THE_PASSWORD": "alice-canary"})
    assert (accepted.status, accepted.err) == (ExitStatus.OK, "")
    refused = list_topics(secure, "SASL_SSL", settings, {"THE_PASSWORD": "wrong-canary"})
    assert refused.status != ExitStatus.OK
    assert "uthentication failed" in refused.err
    assert "wrong-canary" not in refused.err


@pytest.mark.slow
def test_librdkafka_logs_in_with_the_same_settings(secure: SecureBroker) -> None:
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        require("confluent-kafka is not installed")
    word = "SCRAM-SHA-512=[password=bob-canary]"
    brokers = ("--bootstrap-server", secure.bootstrap("PLAINTEXT"))
    user = ("--entity-type", "users", "--entity-name", "bob")
    assert run_kt("configs", *brokers, "--alter", "--add-config", word, *user).status == ExitStatus.OK
    authority = {"ssl.ca.location": str(secure.authority.certificate)}
    bob = {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "bob", "sasl.password": "bob-canary"}
    (secure.directory / "client.key").chmod(0o600)
    files = {"ssl.certificate.location": "client.pem", "ssl.key.location": "client.key"}
    identity = {name: str(secure.directory / file) for name, file in files.items()}
    for listener, settings in (
        ("SASL_PLAINTEXT", {"security.protocol": "sasl_plaintext", **PLAIN}),
        ("SASL_SSL", {"security.protocol": "sasl_ssl", **bob, **authority}),
        ("MTLS", {"security.protocol": "ssl", **identity, **authority}),
    ):
        theirs = AdminClient({"bootstrap.servers": secure.bootstrap(listener), **settings})
        assert theirs.list_topics(timeout=10).brokers, listener
        ours = list_topics(secure, listener, settings, {})
        assert (ours.status, ours.err) == (ExitStatus.OK, ""), listener


def test_a_certificate_and_a_key_in_two_files(secure: SecureBroker) -> None:
    files = secure.directory
    (files / "client.key").chmod(0o600)
    settings = {"security.protocol": "ssl", "ssl.ca.location": str(secure.authority.certificate)}
    assert list_topics(secure, "MTLS", settings, {}).status != ExitStatus.OK
    settings["ssl.certificate.location"] = str(files / "client.pem")
    without_key = list_topics(secure, "MTLS", settings, {})
    assert "ssl.certificate.location needs ssl.key.location too" in without_key.err
    settings["ssl.key.location"] = str(files / "client.key")
    accepted = list_topics(secure, "MTLS", settings, {})
    assert (accepted.status, accepted.err) == (ExitStatus.OK, "")


def test_a_password_with_quotes_and_escapes_stays_itself() -> None:
    password = "a\"b\\c;\nd' required"
    made = with_kafka_names({**PLAIN, "sasl.mechanisms": "SCRAM-SHA-512", "sasl.password": password}, "config.toml")
    assert sorted(made) == ["sasl.jaas.config", "sasl.mechanism"]
    module = parse_jaas_config(made["sasl.jaas.config"])
    assert module.name == "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert module.options == {"username": "alice", "password": password}


def test_names_of_kafka_stay_and_texts_in_pem_are_renamed() -> None:
    kafka = {"security.protocol": "SSL", "ssl.keystore.location": "x.jks", "linger.ms": "5"}
    assert with_kafka_names(kafka, "config.toml") == kafka
    texts = {"ssl.ca.pem": "CA", "ssl.certificate.pem": "CHAIN", "ssl.key.pem": "KEY", "ssl.key.password": "secret"}
    assert with_kafka_names({**texts, "ssl.endpoint.identification.algorithm": "none"}, "config.toml") == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.keystore.key": "KEY",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"sasl.username": "alice"}, "sasl.username needs sasl.password too"),
        ({"sasl.password": "canary"}, "sasl.password needs sasl.username too"),
        ({"sasl.username": "a", "sasl.password": "canary"}, "need sasl.mechanism PLAIN, SCRAM-SHA-256 or"),
        ({**PLAIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanisms and sasl.mechanism contradict each other"),
        ({**PLAIN, "sasl.jaas.config": "canary"}, "sasl.username and sasl.jaas.config contradict each other"),
        ({"ssl.ca.location": "a", "ssl.truststore.location": "b"}, "ssl.ca.location and ssl.truststore.location"),
        ({"ssl.key.location": "a"}, "ssl.key.location needs ssl.certificate.location too"),
        ({"ssl.key.location": "/nowhere", "ssl.certificate.pem": "a"}, "ssl.key.location: /nowhere cannot be read: No"),
        ({"ssl.ca.location": "probe"}, "ssl.ca.location: 'probe' is known to librdkafka only"),
        ({"ssl.ca.location": os.sep}, "ssl.ca.location: / is a directory, which Kafka's clients cannot read"),
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification cannot be switched"),
    ],
)
def test_a_setting_that_cannot_be_translated_is_named_with_its_file(settings: dict[str, str], message: str) -> None:
    with pytest.raises(CommandError) as refused:
        with_kafka_names(settings, "config.toml")
    assert str(refused.value).startswith("config.toml: ")
    assert message in str(refused.value)
    assert "canary" not in str(refused.value)


def test_a_private_key_that_everybody_can_read_is_warned_about(secure: SecureBroker, tmp_path: pathlib.Path) -> None:
    key = tmp_path / "open.key"
    key.write_text((secure.directory / "client.key").read_text())
    key.chmod(0o644)
    settings = {"security.protocol": "ssl", "ssl.ca.location": str(secure.authority.certificate)}
    settings |= {"ssl.certificate.location": str(secure.directory / "client.pem"), "ssl.key.location": str(key)}
    assert f"{key}: every user of this machine can read the private key in it" in (
        list_topics(secure, "MTLS", settings, {}).err
    )
