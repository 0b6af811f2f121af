"""kt topics against the recordings of kafka-topics.sh, on one embedded broker.

The recordings were made with three brokers. On one broker every partition has one replica: replica assignments and
replication factors are adapted in _ONE_BROKER, and what can only be seen with three stands in NEEDS_THREE. All of them
are replayed on three nodes of Apache Kafka in tests/real_kafka.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.kt import Ran, run_kt
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

NEEDS_THREE = {
    "015": "the message counts three brokers",
    "054": "gamma has three replicas in sync of two needed",
    "055": "which partitions are exactly at the minimum depends on the number of replicas",
    "108": "broker 2 is stopped",
    "109": "broker 2 is stopped",
    "110": "broker 2 is stopped",
    "111": "broker 2 is stopped",
    "112": "broker 2 is stopped",
    "113": "broker 2 is stopped",
}
_ONE_BROKER = {
    "004": {"2": "1"},
    "005": {"3": "1"},
    "006": {"1:2,2:3,3:1": "1,1,1"},
    "080": {"1:2,2:3,3:1,2:1": "1,1,1,1"},
    "081": {"2:1": "1"},
}
DIFFERENCES = {
    "001": Difference("empty-list", stdout=""),
    "033": Difference("usage", status=ExitStatus.USAGE, stderr='For input string: "a"'),
    "041": Difference("empty-list", stdout=""),
    "082": Difference("matches-listed", stderr="'e.*' matches 1 topic: eps."),
    "087": Difference("matches-listed", stderr="'tmp-.*' matches 2 topics: tmp-a, tmp-b."),
    "091": Difference("help", own_words=True),
    "094": Difference("unreachable", own_words=True),
    "095": Difference("bad-bootstrap", status=ExitStatus.USAGE, own_words=True),
    "096": Difference("bad-bootstrap", own_words=True),
    "097": Difference(
        "missing-file",
        stderr="Error while executing topic command : absent.properties: no such properties file",
    ),
    "099": Difference(
        "nothing-ignored",
        status=ExitStatus.USAGE,
        stdout="",
        stderr="Unexpected argument 'extra'",
    ),
    "107": Difference("help", status=ExitStatus.OK, own_words=True),
}
TOPIC_ID = re.compile(r"^Topic: (\S+)\tTopicId: ([\w-]{22})", re.MULTILINE)
_OFFSETS = ("compression.type=producer", "cleanup.policy=compact", "segment.bytes=104857600")


def prepare(case: Case, kt: Callable[..., Ran]) -> None:
    """What the recorder did between the cases, without recording it."""
    if case.number == "064":
        configs = [word for text in _OFFSETS for word in ("--config", text)]
        kt("--create", "--topic", "__consumer_offsets", "--partitions", "4", *configs)
    elif case.number == "087":
        kt("--create", "--topic", "tmp-a")
        kt("--create", "--topic", "tmp-b")


class _Replay:
    """Runs the cases in their order and remembers the ids that topics have got here."""

    def __init__(self, bootstrap: str, directory: pathlib.Path) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self.ids: dict[str, str] = {}

    def run(self, case: Case) -> Ran:
        prepare(case, lambda *args: run_kt("topics", "--bootstrap-server", self.bootstrap, *args))
        adapted = case._replace(args=tuple(self._adapted(case, word) for word in case.args))
        ran = admin_tools.run_case("topics", adapted, self.bootstrap, self.directory)
        recorded = dict(TOPIC_ID.findall(case.stdout))
        for topic, topic_id in TOPIC_ID.findall(ran.out):
            self.ids[recorded.get(topic, "")] = topic_id
        return ran

    def _adapted(self, case: Case, word: str) -> str:
        word = _ONE_BROKER.get(case.number, {}).get(word, word)
        return self.ids.get(word, word)


def _on_one_broker(case: Case, wanted: Expected) -> Expected:
    stdout = re.sub(r"ReplicationFactor: \d", "ReplicationFactor: 1", wanted.stdout)
    stdout = re.sub(r"Leader: \d\tReplicas: [\d,]+\tIsr: [\d,]+", "Leader: 1\tReplicas: 1\tIsr: 1", stdout)
    return wanted._replace(stdout=stdout)


def _failures(bootstrap: str, directory: pathlib.Path) -> list[str]:
    replay = _Replay(bootstrap, directory)
    cases = [case for case in transcripts.load("topics") if case.number not in NEEDS_THREE]
    return transcripts.replay(cases, replay.run, DIFFERENCES, _on_one_broker)


@pytest.mark.slow
def test_topics_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    failures = _failures(start_broker(), tmp_path)
    assert not failures, "\n".join(failures)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()


@pytest.fixture
def kt(start_broker: Callable[..., str]) -> Callable[..., Ran]:
    bootstrap = start_broker()
    return lambda *args: run_kt("topics", "--bootstrap-server", bootstrap, *args)


def test_json(kt: Callable[..., Ran]) -> None:
    created = kt("--create", "--topic", "js", "--partitions", "2", "--config", "retention.ms=60000", "--json")
    assert json.loads(created.out) == {"topic": "js", "created": True}
    again = kt("--create", "--topic", "js", "--if-not-exists", "--json")
    assert (again.status, json.loads(again.out)) == (ExitStatus.OK, {"topic": "js", "created": False})
    refused = kt("--create", "--topic", "js", "--json")
    assert refused.status == ExitStatus.FAILED
    assert json.loads(refused.err)["error"]["kind"] == "TOPIC_ALREADY_EXISTS"
    rows = [json.loads(line) for line in kt("--list", "--json").out.splitlines()]
    assert {"topic": "js", "internal": False} in rows
    described = json.loads(kt("--describe", "--topic", "js", "--json").out)
    assert (described["topic"], described["partition_count"], described["replication_factor"]) == ("js", 2, 1)
    assert described["configs"]["retention.ms"] == "60000"
    assert [one["partition"] for one in described["partitions"]] == [0, 1]
    assert described["partitions"][0]["leader"] == 1 and described["partitions"][0]["isr"] == [1]
    deleted = kt("--delete", "--topic", "js", "--json")
    assert json.loads(deleted.out) == {"topic": "js", "deleted": True, "error": None}


def test_a_topic_of_exactly_the_name_is_deleted_alone(kt: Callable[..., Ran]) -> None:
    for name in ("audit.events", "audit-events"):
        assert kt("--create", "--topic", name).status == ExitStatus.OK
    ran = kt("--delete", "--topic", "audit.events")
    assert (ran.status, ran.out) == (ExitStatus.OK, "")
    assert (
        ran.err
        == "Only topic audit.events is selected, although as a regular expression the name also matches audit-events.\n"
    )
    assert kt("--list", "--topic", "audit.*").out == "audit-events\n"


@pytest.mark.parametrize("action", [("--delete",), ("--alter", "--partitions", "3"), ("--describe",)])
def test_an_empty_name_selects_no_topic(kt: Callable[..., Ran], action: tuple[str, ...]) -> None:
    kt("--create", "--topic", "kept", "--if-not-exists")
    ran = kt(*action, "--topic", "")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err == "Error while executing topic command : Topic '' does not exist as expected\n"
    assert kt("--list", "--topic", "").out == ""
    assert "kept\tPartition: 0" in kt("--describe", "--topic", "kept").out


@pytest.mark.parametrize(("assignment", "partitions"), [("1,", 1), ("1:,1", 2), (",", 1)])
def test_empty_texts_at_the_end_of_a_replica_assignment_do_not_count(
    kt: Callable[..., Ran], assignment: str, partitions: int
) -> None:
    created = kt("--create", "--topic", "assigned", "--replica-assignment", assignment)
    assert created.out == "Created topic assigned.\n"
    assert f"PartitionCount: {partitions}\t" in kt("--describe", "--topic", "assigned").out
    refused = kt("--create", "--topic", "refused", "--replica-assignment", ":,1")
    assert refused.err.endswith("Partition 1 has different replication factor: [1]\n")


def test_a_pattern_leaves_internal_topics_alone(kt: Callable[..., Ran]) -> None:
    kt("--create", "--topic", "__consumer_offsets", "--config", "cleanup.policy=compact")
    kt("--create", "--topic", "mine")
    ran = kt("--delete", "--topic", "__consumer_.*|mine")
    assert ran.err.splitlines() == [
        "Internal topics are selected only by their exact names, so these are not: __consumer_offsets.",
        "'__consumer_.*|mine' matches 1 topic: mine.",
    ]
    assert kt("--list", "--topic", "__consumer_offsets|mine").out == "__consumer_offsets\n"


def test_every_failure_is_reported(kt: Callable[..., Ran]) -> None:
    for name in ("up-a", "up-b"):
        kt("--create", "--topic", name, "--partitions", "2")
    ran = kt("--alter", "--topic", "up-.*", "--partitions", "1")
    assert ran.status == ExitStatus.FAILED
    assert len([line for line in ran.err.splitlines() if "would not be an increase" in line]) == 2


def test_one_of_ten_that_fails_does_not_keep_the_others_from_being_done(kt: Callable[..., Ran]) -> None:
    for number in range(10):
        kt("--create", "--topic", f"ten-{number}", "--partitions", "3" if number == 4 else "2")
    ran = kt("--alter", "--topic", "ten-.*", "--partitions", "3", "--json")
    assert ran.status == ExitStatus.FAILED
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert sorted(row["topic"] for row in rows if row["error"] is None) == [f"ten-{n}" for n in range(10) if n != 4]
    assert [row["topic"] for row in rows if row["error"] is not None] == ["ten-4"]
    described = [json.loads(line) for line in kt("--describe", "--topic", "ten-.*", "--json").out.splitlines()]
    assert [one["partition_count"] for one in described] == [3] * 10


def test_unreachable_names_the_address(tmp_path: pathlib.Path) -> None:
    ran = run_kt("topics", "--list", "--bootstrap-server", "127.0.0.1:9")
    assert ran.status == ExitStatus.FAILED and "127.0.0.1:9" in ran.err.splitlines()[0]
