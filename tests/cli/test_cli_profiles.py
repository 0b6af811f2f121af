"""Profiles: clusters by name, protected ones ask before something is destroyed."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from support.kt import Ran, run_kt
from support.kt_process import KT

from kafkatools.exit_status import ExitStatus


@pytest.fixture
def config(tmp_path: pathlib.Path, bootstrap: str) -> pathlib.Path:
    path = tmp_path / "config.toml"
    path.write_text(
        f"""
        [profiles.dev]
        bootstrap_servers = "{bootstrap}"
        [profiles.prod]
        bootstrap_servers = "{bootstrap}"
        protected = true
        cluster = "payments"
        """
    )
    return path


def kt(config: pathlib.Path, *arguments: str, **options: object) -> Ran:
    environ = {"KT_CONFIG": str(config), **options.pop("environ", {})}  # type: ignore[dict-item]
    return run_kt(*arguments, environ=environ, cwd=config.parent, **options)  # type: ignore[arg-type]


def test_a_profile_says_where_the_cluster_is(config: pathlib.Path) -> None:
    made = kt(config, "--profile", "dev", "topics", "--create", "--topic", "by-profile")
    assert made.out == "Created topic by-profile.\n", made.err
    for words in (["--profile=dev", "topics"], ["--profile", "prod", "topics"]):
        assert "by-profile" in kt(config, *words, "--list").out.split()
    assert "by-profile" in kt(config, "topics", "--list", environ={"KT_PROFILE": "dev"}).out.split()


def test_commands_that_need_no_option_run_without_one(config: pathlib.Path, bootstrap: str) -> None:
    kt(config, "--profile", "dev", "topics", "--create", "--topic", "alone")
    assert "alone:0:0" in kt(config, "--profile", "dev", "get-offsets").out.splitlines()
    assert kt(config, "--profile", "dev", "broker-api-versions").out.startswith(f"{bootstrap} (id: 1 ")
    for name in ("get-offsets", "broker-api-versions"):
        ran = run_kt(name)
        assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
        assert ran.err.splitlines()[0].endswith('Missing required argument "[bootstrap-server]"')


def test_a_default_steps_back_for_brokers_on_the_command_line(config: pathlib.Path) -> None:
    text = (
        'default = "dev"\n'
        + config.read_text()
        + '[profiles.dev.settings]\n"client.id" = 7\n"nonsense.setting" = "x"\n'
    )
    config.write_text(text)
    assert kt(config, "topics", "--list").status is ExitStatus.OK
    refused = kt(config, "topics", "--list", "--bootstrap-server", "127.0.0.1:1")
    assert refused.status is ExitStatus.FAILED
    assert "127.0.0.1:1" in refused.err


def test_settings_reach_the_client(config: pathlib.Path, bootstrap: str) -> None:
    (config.parent / "client.properties").write_text("request.timeout.ms=12000\n")
    head = config.read_text() + '[profiles.slow]\nbootstrap_servers = "x:1"\ncommand_config = "client.properties"\n'
    config.write_text(head + '[profiles.slow.settings]\n"security.protocol" = { env = "PROTOCOL" }\n')
    listed = ["--profile", "slow", "topics", "--list"]
    wrong = kt(config, *listed, environ={"PROTOCOL": "SMOKE"})
    assert "SMOKE" in wrong.err
    assert "security.protocol" in wrong.err
    missing = kt(config, *listed)
    key = "profiles.slow.settings.security.protocol"
    assert missing.err.startswith(
        f"{config}: {key} takes its value from the environment variable PROTOCOL, which is not set\n"
    )
    (config.parent / "client.properties").unlink()
    assert "client.properties: no such properties file" in kt(config, *listed, environ={"PROTOCOL": "PLAINTEXT"}).err


def topic_exists(bootstrap: str, name: str) -> bool:
    return name in run_kt("topics", "--list", "--bootstrap-server", bootstrap).out.split()


@pytest.mark.parametrize(
    ("typed", "said", "status"),
    [
        (b"payments\n", "", ExitStatus.OK),
        (b"prod\n", "That is not the name of the cluster: nothing was done", ExitStatus.FAILED),
        (b"", "That is not the name of the cluster: nothing was done", ExitStatus.FAILED),
    ],
)
def test_a_protected_cluster_asks_for_its_name(
    config: pathlib.Path, bootstrap: str, typed: bytes, said: str, status: ExitStatus
) -> None:
    name = f"asked-{len(typed)}-{status.name.lower()}"
    assert kt(config, "--profile", "prod", "topics", "--create", "--topic", name).status is ExitStatus.OK
    ran = kt(config, "--profile", "prod", "topics", "--delete", "--topic", name, stdin=TypedInput(typed), terminal=True)
    assert "Type the name of its cluster (payments) to continue:" in ran.err
    assert said in ran.err
    assert ran.status is status
    assert topic_exists(bootstrap, name) is (status is not ExitStatus.OK)


class TypedInput:
    """What somebody types at a terminal."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def isatty(self) -> bool:
        return True

    def readline(self) -> bytes:
        return self._data


def test_where_nobody_can_be_asked_the_name_is_an_option(config: pathlib.Path, bootstrap: str) -> None:
    assert kt(config, "--profile", "prod", "topics", "--create", "--topic", "kept").status is ExitStatus.OK
    deletion = ["--profile", "prod", "topics", "--delete", "--topic", "kept"]
    refused = kt(config, *deletion)
    assert refused.status is ExitStatus.USAGE
    assert refused.err.startswith("The profile 'prod' is protected, and there is no terminal to prompt on\n")
    wrong = kt(config, "--confirm", "prod", *deletion)
    assert wrong.err.startswith("The profile 'prod' is protected, and its cluster is not called 'prod'\n")
    assert topic_exists(bootstrap, "kept")
    assert kt(config, "--confirm", "payments", *deletion).status is ExitStatus.OK
    assert not topic_exists(bootstrap, "kept")


def test_what_destroys_nothing_is_not_asked_about(config: pathlib.Path) -> None:
    assert kt(config, "--profile", "prod", "topics", "--list").status is ExitStatus.OK
    planned = kt(
        config,
        "--profile",
        "prod",
        "consumer-groups",
        "--reset-offsets",
        "--group",
        "g",
        "--to-earliest",
        "--all-topics",
    )
    assert "protected" not in planned.err


MIGRATE = ("migrate", "--through", "moved", "--topic", "none-such", "--rename", "none-such=other", "--cut")


@pytest.mark.parametrize("command", [("copy", "none-such", "other"), MIGRATE])
def test_a_protected_target_cluster_asks_for_its_name(config: pathlib.Path, command: tuple[str, ...]) -> None:
    refused = kt(config, "--profile", "dev", *command, "--to-profile", "prod")
    assert refused.status is ExitStatus.USAGE
    assert refused.err.startswith("The profile 'prod' is protected, and there is no terminal to prompt on\n")
    for options in (("--profile", "dev", "--confirm", "payments"), ("--profile", "dev")):
        dry_run = () if "--confirm" in options else ("--dry-run",)
        assert "protected" not in kt(config, *options, *command, "--to-profile", "prod", *dry_run).err


@pytest.mark.parametrize("command", [("copy", "none-such", "other"), MIGRATE])
@pytest.mark.parametrize("is_profile", [True, False])
def test_a_protected_source_cluster_does_not_ask(
    config: pathlib.Path, bootstrap: str, command: tuple[str, ...], is_profile: bool
) -> None:
    target = ("--to-profile", "dev") if is_profile else ("--to-bootstrap-server", bootstrap)
    assert "protected" not in kt(config, "--profile", "prod", *command, *target).err


METRICS = ("client-metrics", "--alter", "--name", "all", "--metrics", "*")


@pytest.mark.parametrize(
    "command", [("copy", "a", "b"), ("replay", "topic:a"), ("pipeline", "replay", "topic:a"), METRICS]
)
def test_changes_of_records_and_metrics_need_the_name_of_a_protected_cluster(
    config: pathlib.Path, command: tuple[str, ...]
) -> None:
    refused = kt(config, "--profile", "prod", *command)
    assert refused.status is ExitStatus.USAGE
    assert refused.err.startswith("The profile 'prod' is protected, and there is no terminal to prompt on\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[profiles.x\n", "Expected ']' at the end of a table declaration (at line 1, column 12)"),
        (
            "[profiles.x]\nbrokers = 'a:1'\n",
            "there is no key profiles.x.brokers (known: bootstrap_servers, command_config,",
        ),
        ("[profiles.x]\nprotected = 'yes'\n", "profiles.x.protected must be true or false"),
        ("[profile.x]\n", "there is no key profile (known: default, profiles)"),
        (
            "[profiles.x.settings]\nretries = [1]\n",
            "profiles.x.settings.retries must be a string, a number, true or false, or",
        ),
        ("[profiles.x]\n", "the profile 'x' has no bootstrap_servers"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: pathlib.Path, content: str, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(content)
    ran = kt(path, "--profile", "x", "topics", "--list")
    assert ran.status is not ExitStatus.OK
    assert ran.err.startswith(f"{path}: {said}")


def test_an_unknown_profile_is_refused_with_the_known_ones(config: pathlib.Path) -> None:
    ran = kt(config, "--profile", "stage", "topics", "--list")
    assert ran.status is ExitStatus.USAGE
    assert ran.err.startswith("There is no profile 'stage'; there are dev, prod\n")


def test_the_file_of_a_project_adds_profiles_and_cannot_redefine_those_of_the_user(
    config: pathlib.Path, bootstrap: str
) -> None:
    deep = config.parent / "project" / "deep"
    deep.mkdir(parents=True)
    project = config.parent / "project" / ".kt.toml"
    project.write_text(f'default = "here"\n[profiles.here]\nbootstrap_servers = "{bootstrap}"\n')
    environ = {"KT_CONFIG": str(config)}
    assert run_kt("topics", "--list", environ=environ, cwd=deep).status is ExitStatus.OK
    project.write_text('[profiles.prod]\nbootstrap_servers = "elsewhere:1"\n')
    ran = run_kt("--profile", "prod", "topics", "--list", environ=environ, cwd=deep)
    assert ran.err.startswith(f"The profile 'prod' is defined in {project} and in {config}: rename one of them\n")


CLIENTS = {
    "console-producer": ("--topic", "clients"),
    "producer-perf-test": ("--topic", "clients", "--num-records", "1", "--record-size", "1", "--throughput", "-1"),
    "verifiable-producer": ("--topic", "clients", "--max-messages", "1"),
    "console-consumer": ("--topic", "clients", "--from-beginning", "--exit-at-end"),
    "consumer-perf-test": ("--topic", "clients", "--num-records", "1"),
    "verifiable-consumer": ("--topic", "clients", "--group-id", "g", "--max-messages", "1"),
    "e2e-latency": ("--topic", "clients", "--num-records", "1", "--producer-acks", "1", "--record-size", "1"),
}


@pytest.mark.slow
def test_a_command_in_a_deleted_directory_finds_the_profiles_of_the_user(config: pathlib.Path) -> None:
    words = (*KT, "--profile", "dev", "topics", "--list")
    ran = subprocess.run(
        ["sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh", *words],
        env={**os.environ, "KT_CONFIG": str(config)},
        cwd=config.parent,
        capture_output=True,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_settings_of_the_other_client_are_left_to_it(config: pathlib.Path) -> None:
    settings = (
        '[profiles.dev.settings]\n"batch.size" = 1\n"max.poll.records" = 7\n"nonsense.setting" = "x"\n'
        '"key.serializer" = "a.B"\n"value.deserializer" = "a.B"\n'
    )
    config.write_text(config.read_text() + settings)
    for command, words in CLIENTS.items():
        ran = kt(config, "--profile", "dev", command, *words, stdin=b"v\n")
        assert ran.status is ExitStatus.OK, (command, ran)
        assert "nonsense" not in ran.err and "Warning" not in ran.err, (command, ran)


@pytest.mark.parametrize(
    ("command", "setting"), [("console-producer", "producer"), ("console-consumer", "consumer")], ids=["out", "in"]
)
def test_settings_of_a_profile_reach_its_client(config: pathlib.Path, command: str, setting: str) -> None:
    name = {"producer": "batch.size", "consumer": "max.poll.records"}[setting]
    config.write_text(config.read_text() + f'[profiles.dev.settings]\n"{name}" = "many"\n')
    ran = kt(config, "--profile", "dev", command, *CLIENTS[command], stdin=b"v\n")
    assert ran.status is ExitStatus.USAGE and name in ran.err, ran


@pytest.mark.parametrize("command", [name for name in CLIENTS if name != "e2e-latency"])
def test_unknown_settings_of_a_file_are_named_with_it(config: pathlib.Path, command: str) -> None:
    (config.parent / "own.properties").write_text("nonsense.setting=x\nkey.serializer=a.B\nkey.deserializer=a.B\n")
    kind = "consumer" if "consumer" in command else "producer"
    words = ("--profile", "dev", command, *CLIENTS[command], "--command-config", "own.properties")
    assert (
        kt(config, "--profile", "dev", "console-producer", "--topic", "clients", stdin=b"v\n").status is ExitStatus.OK
    )
    ran = kt(config, *words, stdin=b"v\n")
    assert ran.status is ExitStatus.OK, ran
    warnings = [line for line in ran.err.splitlines() if "setting" in line or "serializer" in line]
    assert warnings == [f"Warning: own.properties: nonsense.setting is not a setting of the {kind}"]
