"""kt transactions against the recordings of kafka-transactions.sh.

The producers of the recordings are made by requests of our own, in the same order, so that they get the same ids.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import time
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt
from support.raw_transactions import RawProducer
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

_DIFFERENCES = {
    "007": Difference("groups-failures", stderr=(
        "Failed to list transactions: broker 1: The regular expression is not valid. Enable debug logging for "
        "additional detail."
    )),
    "016": Difference("transactions-missing", stderr="There is no broker 9: the brokers are 1"),
    "017": Difference("transactions-missing", stderr=(
        "Failed to describe producers for partition ghost-0 on leader: This server does not host this topic-partition. "
        "Enable debug logging for additional detail."
    )),
    "018": Difference("transactions-missing", stderr=(
        "Failed to describe producers for partition txn-9 on leader: This server does not host this topic-partition. "
        "Enable debug logging for additional detail."
    )),
    "025": Difference("usage", status=ExitStatus.USAGE),
    "026": Difference("transactions-missing", stderr=(
        "Failed to describe 1 topics: This server does not host this topic-partition. Enable debug logging for "
        "additional detail."
    )),
    "027": Difference("transactions-missing", status=ExitStatus.FAILED, stdout="", stderr=(
        "There is no broker 9: the brokers are 1"
    )),
    "031": Difference("transactions-missing", stderr=(
        "Failed to validate producer state for partition ghost-0: This server does not host this topic-partition. "
        "Enable debug logging for additional detail."
    )),
    "032": Difference("abort-identity", status=ExitStatus.USAGE, stderr=(
        "--start-offset cannot be used with --producer-id: it identifies the transaction alone"
    )),
    "033": Difference("usage", status=ExitStatus.USAGE),
    "034": Difference("abort-checked", status=ExitStatus.FAILED, stderr=(
        "Could not find any open transaction of producer 2 with epoch 99 on partition txn-1"
    )),
    "038": Difference("numbers", stderr=(
        "kafka-transactions.sh: error: argument --coordinator-epoch: could not convert '1795231493101' to a number"
    )),
    "040": Difference("terminate-checked", status=ExitStatus.FAILED, stderr=(
        "Failed to terminate the transaction of transactional-id `ghost`: The transactionalId could not be found. "
        "Enable debug logging for additional detail."
    )),
    "045": Difference("sandbox", stderr="kafka-transactions.sh: error: argument --bootstrap-server is required"),
    "046": Difference("options-behind", status=ExitStatus.OK, own_words=True),
    "052": Difference("groups-unreachable", own_words=True),
    "053": Difference("transactions-version", stdout="4.3.1\n"),
    "054": Difference("transactions-version", stdout="4.3.1\n"),
    "056": Difference("help", status=ExitStatus.OK, own_words=True),
    **{str(number).zfill(3): Difference("help", status=ExitStatus.OK, own_words=True) for number in range(57, 63)},
}  # fmt: skip
_TIME = re.compile(r"\b\d{13}\b")
_SORTED = ("003", "005", "006", "013", "015", "043", "049", "050", "051")


class _Replay:
    """The producers of the recordings, and the cases in their order."""

    def __init__(self, bootstrap: str, directory: pathlib.Path) -> None:
        self.bootstrap, self.directory = bootstrap, directory
        self.producers: list[RawProducer] = []

    def _make(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        committed = self._producer("tx-c")
        committed.create_topic("txn", 2)
        committed.create_topic("plain")
        committed.send("txn", 0, [now_ms, now_ms])
        committed.end(committed=True)
        aborted = self._producer("tx-a")
        aborted.send("txn", 0, [now_ms])
        aborted.end(committed=False)
        self._producer("tx-o", 600_000).send("txn", 1, [now_ms])
        self._producer("tx-p", 600_000).send("txn", 0, [now_ms])
        self._producer(None).send("plain", 0, [1_700_000_000_000])

    def _producer(self, transactional_id: str | None, timeout_ms: int = 60_000) -> RawProducer:
        self.producers.append(RawProducer(self.bootstrap, transactional_id, timeout_ms))
        return self.producers[-1]

    def kt(self, *args: str) -> Ran:
        """Runs kt transactions."""
        return run_kt("transactions", *args, cwd=self.directory)

    def run(self, case: Case) -> Ran:
        if case.number == "003":
            self._make()
        if case.number == "033":
            self._abort("--partition", "1", "--start-offset", "0")
        elif case.number == "038":
            self._abort(
                "--partition", "0", "--producer-id", "3", "--producer-epoch", "0", "--coordinator-epoch", "-1"
            )  # fmt: skip
        transcripts.write_files(case, self.directory)
        ran = self.kt(*admin_tools.words(case, self.bootstrap))
        return ran._replace(stdout=_masked(case, ran.out).encode())

    def _abort(self, *args: str) -> None:
        aborted = self.kt("--bootstrap-server", self.bootstrap, "abort", "--topic", "txn", *args)
        assert (aborted.status, aborted.out, aborted.err) == (ExitStatus.OK, "", "")

    def close(self) -> None:
        """Ends the connections."""
        for producer in self.producers:
            producer.__exit__()


def _masked(case: Case, text: str) -> str:
    """Times and durations as letters of the same width; rows sorted where Kafka's order is that of a hash map."""
    lines = text.split("\n")
    if case.number in _SORTED:
        lines[1:-1] = sorted(line for line in lines[1:-1] if not line.startswith("ghost"))
    if case.number in ("008", "009"):
        cells = lines[1].split("\t")
        cells[7] = "D".ljust(len(cells[7]))
        lines[1] = "\t".join(cells)
    return _TIME.sub("T" * 13, "\n".join(lines))


def _wanted(case: Case, wanted: Expected) -> Expected:
    error = wanted.error
    return wanted._replace(stdout=_masked(case, wanted.stdout), error=None if error is None else error.split("\n")[0])


def _failures(bootstrap: str, directory: pathlib.Path) -> list[str]:
    with contextlib.closing(_Replay(bootstrap, directory)) as replay:
        return transcripts.replay(transcripts.load("transactions"), replay.run, _DIFFERENCES, _wanted)


def _find_and_end_a_hanging_transaction(bootstrap: str) -> None:
    """A partition holds a transaction open that no coordinator knows of, beside one that is known."""

    def kt(*args: str) -> Ran:
        return run_kt("transactions", "--bootstrap-server", bootstrap, *args)

    now_ms = time.time_ns() // 1_000_000
    with RawProducer(bootstrap, "known") as known, RawProducer(bootstrap, "lost") as lost:
        known.create_topic("hang", 2)
        known.send("hang", 0, [now_ms - 3_600_000])
        lost.send_without_coordinator("hang", 1, [now_ms - 3_600_000])
        found = kt("find-hanging", "--topic", "hang")
        rows = [line.split() for line in found.out.splitlines()[1:]]
        assert [[*row[:3], row[7]] for row in rows] == [["hang", "1", str(lost.producer_id), "60"]]
        assert found.status == ExitStatus.FINDINGS
        abort = ("abort", "--topic", "hang", "--partition", "1", "--start-offset", "0")
        told = kt(*abort, "--dry-run").out
        assert told == f"The transaction of producer {lost.producer_id} (epoch 0) on hang-1 would be aborted.\n"
        ended = kt(*abort, "--json")
        row = {"topic": "hang", "partition": 1, "producer_id": lost.producer_id, "aborted": True}
        assert (ended.status, ended.err, json.loads(ended.out)) == (ExitStatus.OK, "", row)
        assert kt("find-hanging", "--topic", "hang").status == ExitStatus.OK
        described = json.loads(kt("describe", "--transactional-id", "known", "--json").out)
        assert (described["state"], described["partitions"]) == ("Ongoing", [{"topic": "hang", "partition": 0}])
        fence = ("forceTerminateTransaction", "--transactionalId", "known", "--dry-run")
        assert kt(*fence).out == (
            f"Producer {known.producer_id} (epoch 0) of known would be fenced, and its transaction on 1 partition "
            "aborted.\n"
        )
        assert json.loads(kt(*fence, "--json").out) == {"transactional_id": "known", "terminated": False}
        assert json.loads(kt("describe", "--transactional-id", "known", "--json").out)["state"] == "Ongoing"


_UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Since KIP-890 brokers take no records of a transaction that its coordinator does not know of, unless told to."""


@pytest.mark.slow
def test_transactions_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker(_UNVERIFIED)
    failures = _failures(bootstrap, tmp_path)
    assert not failures, "\n".join(failures)
    _find_and_end_a_hanging_transaction(bootstrap)


@pytest.mark.real_kafka
@pytest.mark.slow
def test_transactions_behaves_as_recorded_on_apache_kafka(
    new_kafka: Callable[..., ApacheKafka], tmp_path: pathlib.Path
) -> None:
    cluster = new_kafka(settings=_UNVERIFIED)
    cluster.start()
    failures = _failures(cluster.bootstrap, tmp_path)
    assert not failures, "\n".join(failures)
    _find_and_end_a_hanging_transaction(cluster.bootstrap)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()
