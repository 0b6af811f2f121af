"""kt undo of each kind of change on Apache Kafka: what a command changed comes back, and what cannot is refused."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt
from support.waiting import eventually

from kafkatools.exit_status import ExitStatus

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
BROKER = "2"


@pytest.fixture(scope="module")
def bootstrap(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert kafka_jars
    cluster = ApacheKafka(tmp_path_factory.mktemp("undo"), 2, SETTINGS, controllers=1)
    cluster.start()
    try:
        server = ("--bootstrap-server", cluster.bootstrap)
        for topic in ("kept", "moved", "shrunk", "doomed"):
            run_kt("topics", *server, "--create", "--topic", topic, "--replica-assignment", "1")
            run_kt("console-producer", *server, "--topic", topic, stdin=b"a\nb\nc\nd\n")
        yield cluster.bootstrap
    finally:
        cluster.stop()


class Kt:
    """Runs commands with a journal of their own."""

    def __init__(self, bootstrap: str, directory: pathlib.Path) -> None:
        self._bootstrap, self._directory = bootstrap, directory

    def run(self, line: str) -> Ran:
        command, *words = line.split()
        server = () if command == "undo" else ("--bootstrap-server", self._bootstrap)
        environ = {"KT_HOME": str(self._directory / "home"), "KT_JOURNAL": "required"}
        return run_kt(command, *server, *words, environ=environ, cwd=self._directory)

    def wait_until_all_show(self, text: str, line: str) -> None:
        """Until each broker shows the text: the one that is asked may not know yet of a change that was just made."""
        command, *words = line.split()
        for server in self._bootstrap.split(","):
            eventually(lambda server=server: text in run_kt(command, "--bootstrap-server", server, *words).out)

    def __call__(self, line: str) -> Ran:
        ran = self.run(line)
        assert ran.status == ExitStatus.OK, (line, ran.out, ran.err)
        return ran


@pytest.fixture
def kt(bootstrap: str, tmp_path: pathlib.Path) -> Kt:
    move = {"topic": "moved", "partition": 0}
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": [move | {"replicas": [2]}]}))
    (tmp_path / "offsets.json").write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "shrunk", "partition": 0, "offset": 2}]})
    )
    return Kt(bootstrap, tmp_path)


class Case(NamedTuple):
    """A change, and the command that shows it. `before`: commands that are not undone. `is_redone`: the undo can be
    undone."""

    change: str
    shown: str
    before: tuple[str, ...] = ()
    is_redone: bool = True


RESET = "consumer-groups --group {0} --reset-offsets --execute --no-undo-file"
SHARE = "share-groups --group {0} --topic kept --reset-offsets --execute"
CASES = {
    "topic": Case(
        "topics --create --topic made --partitions 1 --replication-factor 1",
        "topics --list",
        is_redone=False,  # the topic of the undone creation is deleted with its records
    ),
    "topic config": Case(
        "configs --alter --topic kept --add-config retention.ms=60000,cleanup.policy=[compact,delete]",
        "configs --describe --topic kept --json",
    ),
    "removed topic config": Case(
        "configs --alter --topic kept --delete-config segment.ms",
        "configs --describe --topic kept --json",
        ("configs --alter --topic kept --add-config segment.ms=700000",),
    ),
    "broker config": Case(
        f"configs --alter --broker {BROKER} --add-config log.cleaner.backoff.ms=20000",
        f"configs --describe --broker {BROKER} --json",
    ),
    "broker default": Case(
        "configs --alter --broker-defaults --add-config log.retention.ms=600000000",
        "configs --describe --broker-defaults --json",
    ),
    "group config": Case(
        "configs --alter --group tuned --add-config consumer.session.timeout.ms=50000",
        "configs --describe --group tuned --json",
    ),
    "client metrics": Case(
        "configs --alter --client-metrics watched --add-config interval.ms=5000",
        "configs --describe --client-metrics watched --json",
    ),
    "quota of a user": Case(
        "configs --alter --user alice --add-config producer_byte_rate=1024,request_percentage=12.5",
        "configs --describe --user alice --json",
    ),
    "quota of a client of a user": Case(
        "configs --alter --user alice --client app --add-config consumer_byte_rate=2048",
        "configs --describe --user alice --client app --json",
    ),
    "default quota": Case(
        "configs --alter --client-defaults --add-config consumer_byte_rate=4096",
        "configs --describe --client-defaults --json",
    ),
    "quota of an address": Case(
        "configs --alter --ip 127.0.0.9 --add-config connection_creation_rate=10",
        "configs --describe --ip 127.0.0.9 --json",
    ),
    "ACL": Case("acls --add --allow-principal User:al --operation Read --topic kept", "acls --list --json"),
    "prefixed ACLs": Case(
        "acls --add --deny-principal User:al --operation Write --topic kep --resource-pattern-type prefixed",
        "acls --list --json",
    ),
    "removed ACLs": Case(
        "acls --remove --topic gone --force",
        "acls --list --topic gone --json",
        ("acls --add --allow-principal User:bo --operation Read --operation Write --topic gone",),
    ),
    "credential": Case(
        "configs --alter --user carol --add-config SCRAM-SHA-256=[password=secret-7]",
        "configs --describe --user carol --json",
        is_redone=False,
    ),
    "logger": Case(
        f"configs --alter --broker-logger {BROKER} --add-config root=WARN",
        f"configs --describe --broker-logger {BROKER} --json",
    ),
    "offset": Case(
        RESET.format("reader") + " --topic kept:0 --to-latest",
        "consumer-groups --describe --group reader --offsets --json",
        (RESET.format("reader") + " --topic kept:0 --to-offset 1",),
    ),
    "new offset": Case(
        RESET.format("newcomer") + " --topic kept:0 --to-latest",
        "consumer-groups --describe --group newcomer --offsets --json",
    ),
    "deleted offset": Case(
        "consumer-groups --delete-offsets --group leaver --topic kept:0",
        "consumer-groups --describe --group leaver --offsets --json",
        tuple(f"{RESET.format('leaver')} --topic {topic}:0 --to-offset 2" for topic in ("kept", "moved")),
    ),
    "deleted group": Case(
        "consumer-groups --delete --group gone",
        "consumer-groups --describe --group gone --offsets --json",
        (RESET.format("gone") + " --topic kept:0 --to-offset 3",),
    ),
    "start offset": Case(
        SHARE.format("sharer") + " --to-earliest",
        "share-groups --describe --group sharer --offsets --json",
        (SHARE.format("sharer") + " --to-latest",),
    ),
    "deleted share group": Case(
        "share-groups --delete --group shared-out",
        "share-groups --describe --group shared-out --offsets --json",
        (SHARE.format("shared-out") + " --to-latest",),
    ),
    "reassignment": Case(
        "reassign-partitions --execute --reassignment-json-file plan.json", "topics --describe --topic moved --json"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_change_is_undone_and_redone(kt: Kt, case: Case) -> None:
    def shown() -> object:
        return comparable(case.shown, kt.run(case.shown).out)

    if case.before:
        first = shown()
        for line in case.before:
            kt(line)
        eventually(lambda: shown() != first)  # the brokers learn of a change after its response
    before = shown()
    kt(case.change)
    kt("undo last --yes")
    eventually(lambda: shown() == before)
    if case.is_redone:
        kt("undo last --yes")
        eventually(lambda: shown() != before)
        kt("undo last --yes")
        eventually(lambda: shown() == before)
    eventually(lambda: "No partition reassignments found." in kt("reassign-partitions --list").out)


def comparable(command: str, out: str) -> object:
    """The part of the output that an undo brings back: without the state of moves, and of groups only the offsets."""
    if "--describe --topic moved" in command:
        parts = json.loads(out)["partitions"]
        return [[id for id in part["replicas"] if id not in part["removing_replicas"]] for part in parts]
    if "-groups --describe" in command:
        parts = [part for line in out.splitlines() for part in json.loads(line)["partitions"]]
        offsets = [part.get("offset", part.get("start_offset")) for part in parts]
        return [offset for offset in offsets if offset is not None]
    return out


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (("topics --delete --topic doomed",), "its records are gone"),
        (("delete-records --offset-json-file offsets.json",), "the deleted records are gone"),
        (("topics --alter --topic shrunk --partitions 2",), "partitions cannot be removed"),
        (
            (
                "configs --alter --user dave --add-config SCRAM-SHA-512=[password=one]",
                "configs --alter --user dave --add-config SCRAM-SHA-512=[password=two]",
            ),
            "brokers do not reveal passwords",
        ),
        (
            (
                "configs --alter --user erin --add-config SCRAM-SHA-512=[password=one]",
                "configs --alter --user erin --delete-config SCRAM-SHA-512",
            ),
            "brokers do not reveal passwords",
        ),
        (
            (
                f"{RESET.format('empty')} --topic kept:0 --to-latest",
                "consumer-groups --delete-offsets --group empty --topic kept:0",
                "consumer-groups --delete --group empty",
            ),
            "without offsets nothing is left to restore",
        ),
    ],
)
def test_what_cannot_come_back_is_refused(kt: Kt, changes: tuple[str, ...], reason: str) -> None:
    first, *others = changes
    kt(first)
    if (user := re.search(r"--user \w+", first)) is not None:
        kt.wait_until_all_show("SCRAM-SHA-512", f"configs --describe {user[0]}")
    for line in others:
        kt(line)
    ran = kt.run("undo last --yes")
    assert (ran.status, ran.err) == (ExitStatus.FAILED, f"Entry {len(changes)} cannot be undone: {reason}\n")
