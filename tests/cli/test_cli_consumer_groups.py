"""kt consumer-groups against the recordings of kafka-consumer-groups.sh.

The groups of the recordings are made by requests of our own. Errors and warnings that Kafka prints on stdout are looked
for on stderr, without the names of Java classes; what fails has exit status 1 instead of 0.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.apache_kafka import ApacheKafka
from support.kt import Ran
from support.live_groups import ClassicMember, ConsumerMember, GroupClient
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

_DIFFERENCES = {
    "049": Difference("usage", status=ExitStatus.USAGE),
    "050": Difference("reset-no-later-record", stderr=(
        "Warn: Partition 0 from topic orders has no record that late. Falling back to latest known offset."
    )),
    "051": Difference("reset-no-later-record", stderr=(
        "Warn: Partition 0 from topic orders has no record that late. Falling back to latest known offset."
    )),
    "053": Difference("reset-duration", status=ExitStatus.OK, own_words=True),
    "065": Difference("reset-topic", stderr=(
        "Error: Executing consumer group command failed due to topic ghost: "
        "This server does not host this topic-partition."
    )),
    "067": Difference("reset-preview", stderr="Group 'brandnew' does not exist: --execute would create it"),
    "068": Difference("reset-preview", stderr="Group 'brandnew2' does not exist: there are no offsets to reset"),
    "071": Difference("reset-warning", stderr="One of the reset scopes should be defined: --all-topics, --topic."),
    "072": Difference("reset-scope", status=ExitStatus.USAGE, stdout="", stderr=(
        'Option "[topic]" can\'t be used with option "[all-topics]"'
    )),
    "074": Difference(
        "reset-warning", stderr="Option [reset-offsets] takes one of these options: [all-groups], [group]"
    ),
    "075": Difference("reset-warning", stderr='Option "[group]" can\'t be used with option "[all-groups]"'),
    "084": Difference("reset-undo", stderr=""),
    "086": Difference("stderr", stderr=""),
    "087": Difference("stderr", stderr=""),
    "089": Difference("reset-plan", stderr=(
        "Error: Executing consumer group command failed due to bad.csv, line 1: 1 columns; topic,partition,offset or "
        "group,topic,partition,offset is expected"
    )),
    "090": Difference("reset-scope", status=ExitStatus.USAGE, stdout="", stderr=(
        'Option "[topic]" can\'t be used with option "[from-file]"'
    )),
    "091": Difference("reset-plan", stderr=(
        "Error: Executing consumer group command failed due to none.csv holds no offsets"
    )),
    "100": Difference("delete-offsets-topic", status=ExitStatus.FAILED, stderr=(
        "Error: topic ghost: This server does not host this topic-partition."
    )),
    "118": Difference("all-groups-listed", stderr="Deleting 4 groups: empty1, live, live-new, old1."),
    "123": Difference("groups-unreachable", own_words=True, status=ExitStatus.FAILED),
    "124": Difference("groups-unreachable", own_words=True, status=ExitStatus.FAILED),
    "125": Difference("groups-timeout", status=ExitStatus.USAGE, stderr=(
        "Error: Executing consumer group command failed due to --timeout must be 0 ms or more, not -1"
    )),
    "126": Difference("numbers", status=ExitStatus.USAGE),
    "128": Difference("nothing-ignored", status=ExitStatus.USAGE, stdout="", stderr=(
        "Unexpected argument 'extra'"
    )),
    "130": Difference("regex-finding", status=ExitStatus.FINDINGS),
    "134": Difference("missing-file", stderr=(
        "Error: Executing consumer group command failed due to absent.properties: no such properties file"
    )),
    "135": Difference("nothing-ignored", status=ExitStatus.USAGE, stdout="", stderr=(
        'Option "[execute]" can only be used with option "[reset-offsets]"'
    )),
    "137": Difference("help", status=ExitStatus.OK, own_words=True),
}  # fmt: skip

# The epoch that a new group has after its first member came is the coordinator's business; the member was told it.
_WITH_EPOCHS = ("023", "027")
_HOUR_MS = 3_600_000
_START_MS = 1_700_000_000_000
_MEMBER = "live-client-2c44654e-0c4b-4227-bb05-e889214a2aab"
_NEW_MEMBER = "Gupb3acnT0OK7bDYDTphTQ"
_CLASS = re.compile(r"\b(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_CLAMPED = re.compile(r"^\[[^]]*\] WARN (New offset .*) \(org\.apache\.kafka\S*\)$")
_MOVED = re.compile(r"\n((?:Error|Warn): .*)\n(?:\* .*\n| at .*\n)*")
_NAMES = re.compile(r"\[[\w-]+\], \[[\w-]+\]$")


class _Groups:
    """The topics and groups of the recordings, on one broker."""

    def __init__(self, bootstrap: str) -> None:
        client = GroupClient(bootstrap)
        for topic, partitions in (("orders", 2), ("pay", 1), ("other", 1), ("solo", 1)):
            client.create_topic(topic, partitions)
        for partition in (0, 1):
            _produce(client, "orders", partition, [_START_MS + hour * _HOUR_MS for hour in range(partition, 10, 2)])
        _produce(client, "pay", 0, [_START_MS + hour * _HOUR_MS for hour in range(5)])
        _produce(client, "other", 0, [_START_MS] * 3)
        client.commit("empty1", {("orders", 0): 5, ("orders", 1): 1, ("pay", 0): 2})
        client.commit("empty2", {("other", 0): 3})
        self.live = ClassicMember(bootstrap, "live-client", "live", {"orders": [0, 1]})
        self.live.commit_own({("orders", 0): 5, ("orders", 1): 5})
        client.commit("old1", {("pay", 0): 5})
        self.live_new = ConsumerMember(bootstrap, "new-client", "live-new", _NEW_MEMBER, ["pay"])
        self.live_new.commit_own({("pay", 0): 5})
        self._client = client

    def before(self, case: Case) -> None:
        """What the recorder did between the cases, and a sign of life."""
        if case.number == "117":
            self.live_new.leave()
        elif case.number < "117":
            self.live_new.heartbeat()

    def close(self) -> None:
        """Ends the connections."""
        for one in (self._client, self.live, self.live_new):
            one.__exit__()


def _produce(client: GroupClient, topic: str, partition: int, timestamps: list[int]) -> None:
    client.produce_rows(topic, partition, [(timestamp, None, b"value", ()) for timestamp in timestamps])


def _wanted(case: Case, wanted: Expected) -> Expected:
    """Errors on stdout are for stderr, and make the exit status 1."""
    difference = _DIFFERENCES.get(case.number)
    moved = _MOVED.findall(case.stdout)
    stdout, error, status = wanted.stdout, wanted.error, wanted.status
    if moved and (difference is None or difference.stdout is None):
        stdout = _MOVED.sub("", stdout)
    if difference is None or difference.stderr is None:
        error = moved[0] if moved else _first_line(case.stderr)
        error = None if error is None else _CLASS.sub("", error)
    if any(line.startswith("Error") for line in moved) and (difference is None or difference.status is None):
        status = ExitStatus.FAILED
    return Expected(status, stdout, error)


def _first_line(stderr: str) -> str | None:
    """The first line that says something; None when that is not ours to say."""
    lines = [line for line in stderr.split("\n") if line]
    if not lines:
        return ""
    if lines[0].startswith("<"):
        return None
    clamped = _CLAMPED.match(lines[0])
    text = clamped.group(1) if clamped else lines[0].removeprefix('Exception in thread "main" ')
    return _sorted_names(text)


def _sorted_names(text: str) -> str:
    """Names of options at the end of a message, whose order changes from run to run in Kafka's tool."""
    return _NAMES.sub(lambda found: ", ".join(sorted(found.group().split(", "))), text)


class _Replay:
    """Runs the cases in their order; the first two on an empty cluster."""

    def __init__(self, bootstrap: str, directory: pathlib.Path) -> None:
        self.bootstrap, self.directory = bootstrap, directory
        self.groups: _Groups | None = None

    def run(self, case: Case) -> Ran:
        if case.number == "003":
            self.groups = _Groups(self.bootstrap)
        if self.groups is not None:
            self.groups.before(case)
        ran = admin_tools.run_case("consumer-groups", case, self.bootstrap, self.directory)
        out = ran.out.replace(self.bootstrap, "BOOTSTRAP")
        if self.groups is not None:
            out = out.replace(self.groups.live.member_id, _MEMBER)
        if case.number in _WITH_EPOCHS and self.groups is not None:
            epoch = self.groups.live_new.epoch
            out = re.sub(rf"\b{epoch}(?= +pay:0)", "2", out)
            out = re.sub(rf"(Stable +){epoch}( +){epoch}(?= )", r"\g<1>2\g<2>2", out)
        err = _sorted_names(ran.err.split("\n")[0])
        if "--execute" in case.args and err.startswith("The previous offsets are saved in "):
            err = ""
        return Ran(ran.status, out.encode(), err.encode())

    def close(self) -> None:
        """Ends the connections."""
        if self.groups is not None:
            self.groups.close()


def _failures(bootstrap: str, directory: pathlib.Path) -> list[str]:
    with contextlib.closing(_Replay(bootstrap, directory)) as replay:
        return transcripts.replay(transcripts.load("consumer-groups"), replay.run, _DIFFERENCES, _wanted)


@pytest.mark.slow
def test_consumer_groups_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    failures = _failures(start_broker(), tmp_path)
    assert not failures, "\n".join(failures)


@pytest.mark.real_kafka
@pytest.mark.slow
def test_consumer_groups_behaves_as_recorded_on_apache_kafka(
    new_kafka: Callable[..., ApacheKafka], tmp_path: pathlib.Path
) -> None:
    cluster = new_kafka()
    cluster.start()
    failures = _failures(cluster.bootstrap, tmp_path)
    assert not failures, "\n".join(failures)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()
