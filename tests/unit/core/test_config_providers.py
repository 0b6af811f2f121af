"""References in settings: those of Kafka's ConfigProviders, and ${prompt:...}, ${keyring:...}, ${command:...}."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping

import pytest

from kafkatools import Producer
from kafkatools.core import config as tables
from kafkatools.core.config.client_settings import config_of
from kafkatools.core.config.providers import Providers, Surroundings
from kafkatools.core.errors import ConfigError
from kafkatools.core.secrets import redacted

KAFKAS = "org.apache.kafka.common.config.provider"
JAAS = 'a.PlainLoginModule required username="alice" password="%s";'


def resolve(value: str, name: str = "ssl.key.password", environ: Mapping[str, str] | None = None) -> str:
    return Providers(Surroundings(environ or {}, None)).resolved({name: value})[name]


@pytest.fixture
def secrets(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "secrets.properties").write_text("password = s3cret-canary\nuser=al\\u0069ce\n")
    (tmp_path / "whole").write_text('a"b\\c canary\n')
    return tmp_path


def test_providers_of_kafka(secrets: pathlib.Path) -> None:
    value = f"${{file:{secrets}/secrets.properties:user}}-${{directory:{secrets}:whole}}-${{env:NAME}}-${{other:x}}"
    assert resolve(value, environ={"NAME": "n"}) == 'alice-a"b\\c canary-n-${other:x}'


def test_whole_file_is_escaped_between_the_quotes_of_jaas_only(secrets: pathlib.Path) -> None:
    reference = f"${{file:{secrets}/whole}}"
    assert resolve(reference) == resolve(reference, "sasl.jaas.config") == 'a"b\\c canary'
    assert resolve(JAAS % reference, "sasl.jaas.config") == JAAS % 'a\\"b\\\\c canary'
    assert resolve(JAAS % f"${{directory:{secrets}:whole}}", "sasl.jaas.config") == JAAS % 'a"b\\c canary'


def test_each_reference_is_read_once(tmp_path: pathlib.Path) -> None:
    counted = f"${{command:sh -c 'echo line >> {tmp_path}/count; echo canary-secret; echo more'}}"
    asked: list[str] = []

    def ask(label: str) -> str:
        asked.append(label)
        return "typed-canary"

    providers = Providers(Surroundings({}, ask))
    for _ in range(2):
        found = providers.resolved({"a": counted, "b": counted, "c": "${prompt:Password of alice}"})
        assert found == {"a": "canary-secret", "b": "canary-secret", "c": "typed-canary"}
    assert (tmp_path / "count").read_text() == "line\n" and asked == ["Password of alice"]
    assert redacted("echoes typed-canary and canary-secret") == "echoes [hidden] and [hidden]"


@pytest.fixture
def keyring_password() -> Iterator[None]:
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend

    class Memory(KeyringBackend):
        priority = 1
        kept = {("kafka", "alice"): "ring-canary"}

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.kept[service, username] = password

    former = keyring.get_keyring()
    keyring.set_keyring(Memory())
    yield
    keyring.set_keyring(former)


@pytest.mark.usefixtures("keyring_password")
def test_password_of_the_keyring() -> None:
    assert resolve("${keyring:kafka:alice}") == "ring-canary"
    with pytest.raises(ConfigError, match="the keyring has no password of bob for kafka; try: keyring set kafka bob"):
        resolve("${keyring:kafka:bob}")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${prompt:Password}", "there is no terminal to prompt on for"),
        ("${keyring:alice}", "must be ..keyring:SERVICE:USER."),
        ("${env:NONE}", "the environment variable NONE is not set"),
        ("${env:a:b}", "must be ..env:NAME."),
        ("${file:/no/such:x}", "/no/such cannot be read: No such file"),
        ("${file:%s/secrets.properties:pass}", "there is no key pass in /.*/secrets.properties"),
        ("${directory:%s:../whole}", "must be ..directory:PATH:FILE NAME."),
        ("${directory:%s:nothing}", "nothing cannot be read: No such file"),
        ("${command:}", "names no program"),
        ("${command:'}", "cannot be read: No closing quotation"),
        ("${command:/no/such --password canary}", "the program /no/such could not be run: No such file"),
        ("${command:sh -c 'echo canary; echo locked >&2; exit 3'}", "the program sh ended with 3: locked"),
        ("${command:true}", "the program true printed no secret"),
    ],
)
def test_reference_without_a_value_names_the_setting(secrets: pathlib.Path, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^ssl.key.password: .*{message}") as caught:
        resolve(value.replace("%s", str(secrets)))
    assert "canary" not in str(caught.value)


def configured(name: str, kind: str, **parameters: str) -> dict[str, str]:
    prefix = f"config.providers.{name}"
    more = {f"{prefix}.param.{parameter.replace('_', '.')}": value for parameter, value in parameters.items()}
    return {"config.providers": name, f"{prefix}.class": f"{KAFKAS}.{kind}", **more}


def test_providers_of_a_program_are_those_it_names(secrets: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT", "c1")
    settings = {**configured("vars", "EnvVarConfigProvider"), "client.id": "${vars:CLIENT} ${env:CLIENT}"}
    assert config_of(tables.ADMIN, settings, {}).client_id == "c1 ${env:CLIENT}"
    assert config_of(tables.ADMIN, {"client.id": "${env:CLIENT}"}, {}).client_id == "${env:CLIENT}"
    both = {
        "config.providers": "file, env",
        "client.id": f"${{env:CLIENT}}-${{file:{secrets}/secrets.properties:user}}",
    }
    assert config_of(tables.ADMIN, both, {}).client_id == "c1-alice"


def test_limits_of_providers(secrets: pathlib.Path) -> None:
    inside = configured("f", "FileConfigProvider", allowed_paths=f"/opt,{secrets}")
    reference = f"${{f:{secrets}/secrets.properties:user}}"
    providers = Providers(Surroundings({"A_OK": "1", "B": "2"}, None))
    assert providers.resolved({**inside, "client.id": reference}) == {"client.id": "alice"}
    outside = configured("f", "FileConfigProvider", allowed_paths="/opt")
    with pytest.raises(ConfigError, match="is not in allowed.paths of the provider file"):
        providers.resolved({**outside, "client.id": reference})
    listed = configured("e", "EnvVarConfigProvider", allowlist_pattern="A_.*")
    assert providers.resolved({**listed, "client.id": "${e:A_OK}"}) == {"client.id": "1"}
    with pytest.raises(ConfigError, match="variable B is not allowed by allowlist.pattern"):
        providers.resolved({**listed, "client.id": "${e:B}"})


def test_class_that_is_not_built_in_is_refused_by_name() -> None:
    settings = {
        "bootstrap.servers": "localhost:1",
        "config.providers": "vault",
        "config.providers.vault.class": "com.V",
    }
    with pytest.raises(ConfigError, match="config.providers.vault.class: the Java class com.V cannot be used here"):
        Producer(settings)
    with pytest.raises(ConfigError, match="config.providers.vault.class is not set"):
        config_of(tables.ADMIN, {"config.providers": "vault"}, {})
