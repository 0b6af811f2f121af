"""kt verifiable-producer and verifiable-consumer against the recordings of Kafka's tools."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
from collections.abc import Callable

import perf_transcripts
import pytest
import transcripts
from support.kt import run_kt
from support.kt_process import start_kt
from transcripts import Difference

from kafkatools.exit_status import ExitStatus

_BY_SIGNAL = "ended by a signal: a test of its own"
_USAGE = Difference("usage", status=ExitStatus.USAGE)
_HELP = {
    "without": Difference("help", status=ExitStatus.USAGE, own_words=True),
    "asked": Difference("help", status=ExitStatus.OK, own_words=True),
}
_PRODUCER = {
    "007": Difference(
        "argparse-numbers",
        stderr="verifiable-producer: error: argument --value-prefix: could not convert 'x' to a number",
    ),
    "010": Difference("missing-file", status=ExitStatus.FAILED, stderr="absent.properties: no such properties file"),
    "011": _HELP["without"],
    "012": _HELP["asked"],
}
_CONSUMER = {
    "005": _USAGE,
    "006": Difference(
        "no-java-classes",
        status=ExitStatus.USAGE,
        stderr="--group-protocol must be classic or consumer, not zzz",
    ),
    "008": _HELP["without"],
    "009": _HELP["asked"],
}


@pytest.mark.slow
def test_verifiable_tools_behave_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker(settings={"group.initial.rebalance.delay.ms": "0"})
    shown = perf_transcripts.event_form
    failures = perf_transcripts.failures(
        "verifiable-producer", bootstrap, tmp_path, _PRODUCER, shown=shown, not_here={"006": _BY_SIGNAL}
    )
    filled = run_kt("verifiable-producer", "--bootstrap-server", bootstrap, "--topic", "v2", "--max-messages", "25")
    assert filled.status == ExitStatus.OK, filled.err
    failures += perf_transcripts.failures(
        "verifiable-consumer",
        bootstrap,
        tmp_path,
        _CONSUMER,
        shown=lambda text: shown(text).replace('"v2"', '"v1"'),
        words=lambda case: ["v2" if word == "v1" else word for word in case.args],
        not_here={"004": _BY_SIGNAL},
    )
    assert not failures, "\n".join(failures)

    (tmp_path / "small").write_text("max.request.size=80\nbootstrap.servers=127.0.0.1:9\n")
    lost = run_kt(
        *("verifiable-producer", "--bootstrap-server", bootstrap, "--topic", "v1", "--max-messages", "1"),
        *("--command-config", "small"),
        cwd=tmp_path,
    )
    assert lost.status == ExitStatus.FAILED
    event = json.loads(lost.out.splitlines()[1])
    assert {**event, "timestamp": 0} == {  # recorded from Apache Kafka 4.3.1, the order of the fields too
        "timestamp": 0,
        "name": "producer_send_error",
        "topic": "v1",
        "key": None,
        "value": "0",
        "exception": "class org.apache.kafka.common.errors.RecordTooLargeException",
        "message": "The message is 86 bytes when serialized which is larger than 80, "
        "which is the value of the max.request.size configuration.",
    }
    assert list(event) == ["timestamp", "name", "topic", "key", "value", "exception", "message"]


@pytest.mark.parametrize(
    "names", ["no.such.Assignor", "org.apache.kafka.clients.consumer.StickyAssignor,no.such.Assignor"]
)
def test_an_unknown_assignor_is_refused_before_the_first_event(names: str) -> None:
    words = ("--bootstrap-server", "127.0.0.1:1", "--topic", "v1", "--group-id", "g", "--assignment-strategy", names)
    ran = run_kt("verifiable-consumer", *words)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")  # Apache Kafka 4.3.1 prints nothing on stdout either
    assert ran.err.startswith("Unknown assignor no.such.Assignor in partition.assignment.strategy. Known ones: ")


@pytest.mark.slow
def test_a_signal_ends_the_verifiable_tools_with_their_events(
    start_broker: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    bootstrap = start_broker(settings={"group.initial.rebalance.delay.ms": "0"})
    words = ("--bootstrap-server", bootstrap, "--topic", "v1")
    producer = start_kt(tmp_path, "verifiable-producer", *words, "--throughput", "50")
    consumer = start_kt(tmp_path, "verifiable-consumer", *words, "--group-id", "g", "--enable-autocommit")
    try:
        names = _stop_after(consumer, "records_consumed", signal.SIGTERM)
        assert names[:2] == ["startup_complete", "partitions_assigned"]
        assert names[-3:] == ["shutdown_requested", "partitions_revoked", "shutdown_complete"]
        names = _stop_after(producer, "producer_send_success", signal.SIGINT)
        assert names[-2:] == ["shutdown_complete", "tool_data"]
    finally:
        for process in (producer, consumer):
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None
                stream.close()


def _stop_after(process: subprocess.Popen[bytes], name: str, number: int) -> list[str]:
    """Sends a signal when an event of that name came; the names of all events to the end."""
    assert process.stdout is not None
    names: list[str] = []
    for line in process.stdout:
        names.append(json.loads(line)["name"])
        if names.count(name) == 1 and names[-1] == name:
            process.send_signal(number)
    assert process.wait(30) == ExitStatus.INTERRUPTED
    return names


def test_every_difference_is_documented() -> None:
    found = {difference.key for table in (_PRODUCER, _CONSUMER) for difference in table.values()}
    assert found <= transcripts.documented_keys()
