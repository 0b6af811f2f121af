"""Commands on three nodes of Apache Kafka of which one was killed and one hangs, before the controller notices: each
ends soon, shows what the third broker tells, names the other two on stderr, and does not exit with 0.

They run at the same time: what they do is wait. The cluster is the file's own, for it is never whole again.
"""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent import futures
from typing import NamedTuple

import pytest
from support.kt import Ran, run_kt
from support.kt_process import error_lines, start_kt
from support.three_nodes import ThreeNodes

from kafkatools.exit_status import ExitStatus

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

# A few times what the settings below say; without them it would be a minute and more.
_LIMIT_S = 30
_SETTINGS = {
    "request.timeout.ms": "2000",
    "default.api.timeout.ms": "4000",
    "socket.connection.setup.timeout.ms": "2000",
}
_PARTITIONS = [[1], [1], [2], [3]]
# By the hash of their names their coordinators lead partitions 1, 2 and 3; the ids partitions 0, 2 and 3.
_GROUPS = ("g0", "g1", "g2")
_IDS = ("tx0", "tx2", "tx3")


class Command(NamedTuple):
    """What is run, from which brokers on, and what has to come of it."""

    words: tuple[str, ...]
    shows: tuple[str, ...]
    names: tuple[str, ...] = ("{2}", "{3}")
    status: ExitStatus = ExitStatus.FAILED
    bootstrap: tuple[int, ...] = (1,)


_OF_BOTH = ("broker 2", "broker 3")
_DELETE = {"partitions": [{"topic": name, "partition": 0, "offset": 0} for name in ("one", "two", "three")]}
_COMMANDS = {
    "topics-list": Command(("topics", "--list"), ("all\n", "three\n"), (), ExitStatus.OK),
    "topics-list-from-all": Command(("topics", "--list"), ("all\n", "three\n"), (), ExitStatus.OK, (3, 2, 1)),
    "topics-describe": Command(("topics", "--describe"), ("Topic: three\tPartition: 0\tLeader: 3",), (), ExitStatus.OK),
    "groups-describe": Command(("consumer-groups", "--describe", "--all-groups"), ("g0 ", "one "), _OF_BOTH),
    "groups-state": Command(
        ("consumer-groups", "--describe", "--group", "g0", "--group", "g1", "--state"), ("g0 ",), ("g1", "node 2 ({2})")
    ),
    "groups-list": Command(("consumer-groups", "--list"), ("g0\n",), _OF_BOTH),
    "all-groups-list": Command(("groups", "--list"), ("g0 ",), _OF_BOTH),
    "share-groups-list": Command(("share-groups", "--list"), (), _OF_BOTH),
    "log-dirs": Command(
        ("log-dirs", "--describe"), ("from brokers 1\n", '"partition":"one-0"'), ("Broker 2", "Broker 3")
    ),
    "get-offsets": Command(
        ("get-offsets",), ("all:0:1\n", "one:0:"), ("two-0", "three-0", "all-1", "all-2", "{2}", "{3}")
    ),
    "configs": Command(
        ("configs", "--describe", "--entity-type", "brokers"), ("Dynamic configs for broker 1 are:",), _OF_BOTH
    ),
    "configs-all": Command(("configs", "--describe", "--all", "--entity-type", "brokers"), ("log.dirs=",), _OF_BOTH),
    "api-versions": Command(("broker-api-versions",), ("{1} (id: 1 ",), ("{2} (id: 2 ", "{3} (id: 3 ")),
    "transactions-list": Command(("transactions", "list"), ("tx0 ",), _OF_BOTH),
    "transactions-describe": Command(
        ("transactions", "describe", "--transactional-id", "tx3"), (), ("`tx3`", "node 3 ({3})")
    ),
    "find-hanging": Command(("transactions", "find-hanging", "--broker-id", "3"), (), ("{3}",)),
    "delete-records": Command(
        ("delete-records", "--offset-json-file", "delete.json"),
        ("partition: one-0\t",),
        ("two-0", "three-0", "{2}", "{3}"),
    ),
    "replica-verification": Command(
        ("replica-verification", "--exit-at-end", "--topics-include", "all|one|two"),
        ("verification process is started",),
        (
            "partition two-0: Connection to node 2 ({2}) failed",
            "replica 2 of partition all-0: Connection to node 2 ({2}) failed",
            "replica 3 of partition all-0: ",
            "complete: 1/5 partitions",
            "partition all-0 was compared without replica 2, 3",
        ),
    ),
    "monitor": Command(
        ("monitor", "--once"),
        ("alive, controller", "no response", "g0 ", "three "),
        ("broker 2: no response: ", "{2}", "{3}"),
    ),
    "doctor": Command(("doctor",), ("broker 2 {2}", "broker 3 {3}", "FAILED"), (), ExitStatus.FINDINGS),
}


class Broken(NamedTuple):
    """The cluster, and how each command ended on it, after how many seconds."""

    nodes: ThreeNodes
    runs: dict[str, tuple[Ran, float]]

    def named(self, text: str) -> str:
        for node in (1, 2, 3):
            text = text.replace(f"{{{node}}}", self.nodes.address(node))
        return text


@pytest.fixture(scope="module")
def broken(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    assert kafka_jars
    # The controller would notice after nine seconds that brokers are gone.
    nodes = ThreeNodes(tmp_path_factory.mktemp("half-broken"), {"broker.session.timeout.ms": "3600000"})
    home = tmp_path_factory.mktemp("commands")
    (home / "s.properties").write_text("".join(f"{key}={value}\n" for key, value in _SETTINGS.items()))
    (home / "delete.json").write_text(json.dumps(_DELETE))
    try:
        nodes.start()
        nodes.wait_until_complete()
        _fill(nodes)
        nodes.kill(2)
        nodes.processes[3].send_signal(signal.SIGSTOP)
        with futures.ThreadPoolExecutor(len(_COMMANDS)) as pool:
            runs = pool.map(lambda name: _run(nodes, home, _COMMANDS[name]), _COMMANDS)
            yield Broken(nodes, dict(zip(_COMMANDS, runs, strict=True)))
    finally:
        nodes.kill_all()


def _fill(nodes: ThreeNodes) -> None:
    server = ("--bootstrap-server", nodes.address(1))

    def kt(*words: str, stdin: bytes = b"") -> None:
        ran = run_kt(*words, stdin=stdin)
        assert ran.status == ExitStatus.OK, ran.err

    for topic in ("__consumer_offsets", "__transaction_state"):
        placement = ("--replica-assignment", ",".join(str(one) for (one,) in _PARTITIONS))
        kt("topics", *server, "--create", "--topic", topic, *placement, "--config", "cleanup.policy=compact")
    nodes.make_topics({"all": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "one": [[1]], "two": [[2]], "three": [[3]]})
    for name in _IDS:
        kt("console-producer", *server, "--topic", "one", "--transactional-id", name, stdin=b"a\n")
    for topic, partition in (("all", 0), ("all", 1), ("all", 2), ("two", 0), ("three", 0)):
        record = json.dumps({"value": "v", "partition": partition}).encode()
        kt("console-producer", *server, "--topic", topic, "--json", stdin=record + b"\n")
    for group in _GROUPS:
        reset = ("--reset-offsets", "--to-earliest", "--topic", "one", "--execute", "--no-undo-file")
        kt("consumer-groups", *server, "--group", group, *reset)


def _run(nodes: ThreeNodes, home: pathlib.Path, command: Command) -> tuple[Ran, float]:
    servers = ",".join(nodes.address(node) for node in command.bootstrap)
    connection = ("--bootstrap-server", servers, "--command-config", str(home / "s.properties"))
    words = [str(home / word) if word.endswith(".json") else word for word in command.words]
    started = time.monotonic()
    process = start_kt(home, *words[:1], *connection, *words[1:], stdin=subprocess.DEVNULL)
    try:
        stdout, stderr = process.communicate(timeout=3 * _LIMIT_S)
    finally:
        process.kill()
    error_lines(stderr)
    return Ran(ExitStatus(process.returncode), stdout, stderr), time.monotonic() - started


@pytest.mark.parametrize("name", _COMMANDS)
def test_what_can_be_had_is_shown_and_what_is_missing_is_named(broken: Broken, name: str) -> None:
    wanted = _COMMANDS[name]
    ran, seconds = broken.runs[name]
    assert ran.status == wanted.status, ran.out + ran.err
    assert seconds < _LIMIT_S
    assert [text for text in map(broken.named, wanted.shows) if text not in ran.out] == [], ran.out
    assert [text for text in map(broken.named, wanted.names) if text not in ran.err] == [], ran.err
