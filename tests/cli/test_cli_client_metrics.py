"""kt client-metrics against the recordings of kafka-client-metrics.sh, and its own options."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.apache_kafka import ApacheKafka
from support.kt import run_kt
from transcripts import Difference

from kafkatools.exit_status import ExitStatus

_DIFFERENCES = {
    "015": Difference("usage", status=ExitStatus.USAGE),
    "017": Difference("usage", status=ExitStatus.USAGE),
    "023": Difference("usage", status=ExitStatus.USAGE),
    "024": Difference("usage", status=ExitStatus.USAGE),
    "025": Difference("sandbox", status=ExitStatus.USAGE),
}


def _failures(bootstrap: str, directory: pathlib.Path) -> list[str]:
    def on_stderr(case: transcripts.Case, expected: transcripts.Expected) -> transcripts.Expected:
        """Kafka's tool prints the broker's error on stdout."""
        if expected.stdout.startswith("Error while executing client metrics command : "):
            return expected._replace(stdout="", error=expected.stdout.rstrip("\n"))
        return expected

    return transcripts.replay(
        transcripts.load("client-metrics"),
        lambda case: admin_tools.run_case("client-metrics", case, bootstrap, directory),
        _DIFFERENCES,
        on_stderr,
    )


@pytest.mark.slow
def test_client_metrics_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    failures = _failures(start_broker(), tmp_path)
    assert not failures, "\n".join(failures)


@pytest.mark.real_kafka
@pytest.mark.slow
def test_client_metrics_behaves_as_recorded_on_apache_kafka(real_kafka: ApacheKafka, tmp_path: pathlib.Path) -> None:
    failures = _failures(real_kafka.bootstrap, tmp_path)
    assert not failures, "\n".join(failures)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()


def test_a_dry_run_an_undo_file_and_a_generated_name(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    server = ("--bootstrap-server", start_broker())
    run_kt("client-metrics", *server, "--alter", "--name", "s", "--interval", "5000", "--metrics", "a.,b.")
    dry = run_kt("client-metrics", *server, "--delete", "--name", "s", "--dry-run")
    assert dry.out == "client-metric s: interval.ms: 5000 -> (not set)\nclient-metric s: metrics: a.,b. -> (not set)\n"
    undo = tmp_path / "undo.jsonl"
    deleted = run_kt("client-metrics", *server, "--delete", "--name", "s", "--undo-file", str(undo), "--json")
    assert json.loads(deleted.out) == {"name": "s", "deleted": True}
    assert run_kt("client-metrics", *server, "--list").out == "\n"
    assert run_kt("configs", *server, "--from-file", str(undo)).status == ExitStatus.OK
    described = run_kt("client-metrics", *server, "--describe", "--name", "s", "--json")
    assert json.loads(described.out)["configs"] == {"interval.ms": "5000", "match": "", "metrics": "a.,b."}
    named = run_kt("client-metrics", *server, "--alter", "--generate-name", "--metrics", "*", "--json")
    name = json.loads(named.out)["name"]
    assert len(name) == 22
    assert json.loads(named.out) == {"name": name, "altered": True}
    assert name in run_kt("client-metrics", *server, "--list").out.split()
