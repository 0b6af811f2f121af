"""A command that falls back to the sandbox names it on stderr; `kt --help` lists the variables that change this."""

from __future__ import annotations

import io
import json
import pathlib
import re
from collections.abc import Callable, Iterator

import pytest
from support.kt import Ran, run_kt

from kafkatools.commands import COMMANDS, load
from kafkatools.console import Console
from kafkatools.core.clock import SystemClock
from kafkatools.options import parse
from kafkatools.options.environment import ENVIRONMENT
from kafkatools.sandbox import single as sandbox

Kt = Callable[..., Ran]
SOURCE = pathlib.Path(__file__).parents[2] / "kafkatools"
FALLBACKS = (
    ("topics", "--list"),
    ("consumer-groups", "--list"),
    ("groups", "--list"),
    ("configs", "--describe", "--topic", "seen"),
    ("get-offsets", "--topic", "seen"),
    ("console-consumer", "--topic", "seen", "--from-beginning", "--exit-at-end"),
    ("console-producer", "--topic", "seen"),
    ("copy", "seen", "unseen", "--dry-run"),
    ("acls", "--list"),
    ("cluster", "cluster-id"),
    ("transactions", "list"),
    ("log-dirs", "--describe"),
    ("doctor",),
    ("monitor", "--once"),
    ("why",),
    ("apply", "--from-cluster"),
    ("redrive", "seen", "--to", "unseen", "--dry-run"),
    ("share-groups", "--list"),
    ("streams-groups", "--list"),
    ("streams-application-reset", "--application-id", "app", "--dry-run"),
    ("client-metrics", "--list"),
    ("broker-api-versions",),
    ("metadata-quorum", "describe", "--status"),
    ("features", "describe"),
    ("delegation-tokens", "--describe", "--command-config", "client.properties"),
    ("delete-records", "--offset-json-file", "offsets.json"),
    ("leader-election", "--election-type", "preferred", "--all-topic-partitions"),
    ("reassign-partitions", "--list"),
    ("consumer-perf-test", "--topic", "seen", "--num-records", "1", "--timeout", "500"),
    ("console-share-consumer", "--topic", "seen", "--timeout-ms", "500"),
    ("share-consumer-perf-test", "--topic", "seen", "--num-records", "1", "--timeout", "500"),
    ("producer-perf-test", "--topic", "seen", "--num-records", "1", "--record-size", "1", "--throughput", "-1"),
    ("e2e-latency", "--topic", "seen", "--num-records", "1", "--record-size", "1", "--producer-acks", "1"),
    ("verifiable-producer", "--topic", "seen", "--max-messages", "1"),
    ("replica-verification", "--exit-at-end"),
    ("count", "topic:seen"),
    ("top-keys", "topic:seen"),
    ("diff", "topic:seen", "topic:seen"),
    ("topic-profile", "topic:seen", "--out", "page.html"),
    ("export", "topic:seen", "--to", "json:exported"),
    ("replay", "topic:seen", "--dry-run"),
    ("query", "SELECT count(*) FROM 'topic:seen'"),
    ("backup", "--to", "stored", "--topic", "seen"),
    ("restore", "--from", "kept", "--rename", "seen=again", "--dry-run"),
    ("migrate", "--through", "moved", "--topic", "none", "--to-bootstrap-server", "127.0.0.1:1", "--cut"),
)
ELSEWHERE = {
    "completion", "mcp", "pipeline", "verifiable-consumer", "verifiable-share-consumer",
    "retention-forecast", "compact-forecast", "undo",
}  # fmt: skip
"""Completion says nothing (below), the pipeline needs Spark (test_pipeline_start.py), the server and the consumer run
until stopped, the forecasts connect only to the brokers of the option, and undo to those of its entry."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = str(tmp_path_factory.mktemp("home"))
    sandbox.ensure_started(home, None, sandbox.SandboxOptions(port=0))
    environ = {"KT_HOME": home, "KT_SANDBOX": "quiet"}
    assert run_kt("topics", "--create", "--topic", "seen", environ=environ).status == 0
    offsets = {"version": 1, "partitions": [{"topic": "seen", "partition": 0, "offset": 0}]}
    pathlib.Path(home, "offsets.json").write_text(json.dumps(offsets))
    pathlib.Path(home, "client.properties").touch()
    assert run_kt("backup", "--to", "kept", environ=environ, cwd=home).status == 0
    yield home
    clock = SystemClock()
    sandbox.stop(home, clock.sleep_ms)


def note(home: str) -> str:
    running = sandbox.status(home)
    assert running is not None
    return f"kt: no --bootstrap-server, using the sandbox on {running.bootstrap}"


@pytest.mark.parametrize("words", FALLBACKS, ids=lambda words: words[0])
def test_each_command_names_the_sandbox_once(home: str, words: tuple[str, ...]) -> None:
    for _ in range(2):
        ran = run_kt(*words, environ={"KT_HOME": home, "KT_SANDBOX": "on"}, cwd=home)
        assert ran.err.splitlines().count(note(home)) == 1
        assert note(home) not in ran.out


def test_each_command_that_takes_brokers_is_among_them() -> None:
    takes = {
        command.name
        for command in map(load, COMMANDS)
        for part in (command, *command.subcommands)
        for option in part.options
        if "--bootstrap-server" in (option.name, *option.aliases)
    }
    assert takes == {words[0] for words in FALLBACKS} | ELSEWHERE


def test_the_line_is_left_out_with_json_when_quiet_and_when_brokers_are_named(
    home: str, tmp_path: pathlib.Path
) -> None:
    running = sandbox.status(home)
    assert running is not None
    profiles = tmp_path / "config.toml"
    profiles.write_text(f'[profiles.local]\nbootstrap_servers = "{running.bootstrap}"\n')
    environ = {"KT_HOME": home, "KT_SANDBOX": "on", "KT_CONFIG": str(profiles)}
    runs = (
        run_kt("topics", "--list", "--json", environ=environ),
        run_kt("topics", "--list", environ={**environ, "KT_SANDBOX": "quiet"}),
        run_kt("--profile", "local", "topics", "--list", environ=environ),
        run_kt("topics", "--list", "--bootstrap-server", running.bootstrap, environ=environ),
    )
    assert [(ran.status, ran.err) for ran in runs] == [(0, "")] * 4
    assert all("seen" in ran.out for ran in runs)


def test_a_sandbox_started_by_the_command_is_named_by_the_line_that_says_so(
    tmp_path: pathlib.Path,
) -> None:
    for choice, lines in (("on", 1), ("quiet", 0)):
        environ = {"KT_HOME": str(tmp_path / choice), "KT_SANDBOX": choice}
        try:
            ran = run_kt("topics", "--list", environ=environ)
        finally:
            run_kt("sandbox", "stop", environ=environ)
        assert (ran.status, ran.out) == (0, "")
        assert [line.startswith("kt: started a sandbox broker on ") for line in ran.err.splitlines()] == [True] * lines


@pytest.mark.parametrize("environ", [{"KT_HOME": "new/kafkatools"}, {"XDG_DATA_HOME": "new"}, {"HOME": "new"}])
def test_a_relative_home_is_below_the_working_directory(tmp_path: pathlib.Path, environ: dict[str, str]) -> None:
    environ = {**environ, "KT_SANDBOX": "on"}
    try:
        first, second = (run_kt("topics", "--list", environ=environ, cwd=tmp_path) for _ in range(2))
    finally:
        run_kt("sandbox", "stop", environ=environ, cwd=tmp_path)
    assert first.err.startswith("kt: started a sandbox broker on ")
    assert second.err.startswith("kt: no --bootstrap-server, using the sandbox on ")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_completion_of_names_says_nothing_of_the_sandbox(home: str) -> None:
    ran = run_kt("completion", "--topics", environ={"KT_HOME": home, "KT_SANDBOX": "on"})
    named = [line for line in ran.out.splitlines() if not line.startswith("__")]
    assert (named, ran.err) == (["seen"], "")


def test_a_command_that_connects_twice_names_the_sandbox_once(home: str) -> None:
    stderr = io.BytesIO()
    console = Console(io.BytesIO(), io.BytesIO(), stderr, {"KT_HOME": home})
    _, args = parse(load("topics"), ["--list"])
    assert console.connect(args) == console.connect(args)
    assert stderr.getvalue().decode().splitlines() == [note(home)]


@pytest.mark.slow
def test_the_help_of_kt_lists_every_variable_that_is_read() -> None:
    read = set()
    for path in SOURCE.rglob("*.py"):
        read |= set(re.findall(r'environ(?:\.get\(|\.setdefault\(|\[)"([A-Z_]+)"', path.read_text(encoding="utf-8")))
    assert read == set(ENVIRONMENT)
    told = run_kt("--help", environ={"COLUMNS": "300"}).out.partition("Environment variables:\n")[2]
    assert [line.split()[0] for line in told.splitlines()] == list(ENVIRONMENT)
    for width in (1, 60):
        assert "KT_SANDBOX" in run_kt("--help", environ={"COLUMNS": str(width)}).out
