"""Records what Apache Kafka makes of three killed nodes of which two come back: the metadata records of each course.

`python -m support.restarted_pairs 2 > golden/controller/restarted-pairs.json` (in tests/) runs each pair in both orders
twice: some eight minutes.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from support.apache_kafka import VERSION, ApacheKafka
from support.kt import run_kt
from support.waiting import eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics, describe_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError

PLACES = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (3, 2, 1), (2, 1, 3))
PAIRS = tuple(itertools.permutations((1, 2, 3), 2))
METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
WAIT_S = 60
RECOVERED, UNFENCED = 0, -1


def events(log: pathlib.Path) -> Iterator[list[Any]]:
    """What happened to brokers since the last topic was created, and the partition changes that were written with it:
    `[fence | register | unfence, broker id, changes]`. Changes that leaders asked for are left out."""
    shown = run_kt("dump-log", "--cluster-metadata-decoder", "--files", str(log)).out
    records = [json.loads(line.split("payload: ", 1)[1]) for line in shown.splitlines() if "payload: " in line]
    first = max(index for index, record in enumerate(records) if record["type"] == "PARTITION_RECORD") + 1
    changes: list[dict[str, Any]] = []
    unfenced: list[Any] | None = None
    for record in records[first:]:
        kind, data = record["type"], record["data"]
        if kind == "PARTITION_CHANGE_RECORD":
            if data.get("leaderRecoveryState") != RECOVERED:
                del data["topicId"]
                changes.append(data)
            continue
        if kind == "REGISTER_BROKER_RECORD" or data.get("fenced"):
            if unfenced is not None:  # elections follow the record that unfences a broker, and precede all others
                elected = [each for each in changes if "leader" in each]
                changes = changes[len(elected) :]
                yield [*unfenced, elected]
                unfenced = None
            if kind != "REGISTER_BROKER_RECORD" and data["fenced"] == UNFENCED:
                unfenced = ["unfence", data["brokerId"]]
            else:
                yield ["register" if kind == "REGISTER_BROKER_RECORD" else "fence", data["brokerId"], changes]
                changes = []
    if unfenced is not None:
        yield [*unfenced, changes]


def _leaders(bootstrap: str) -> list[tuple[int, list[int]]]:
    try:
        with AdminClient(bootstrap, {"default.api.timeout.ms": "4000"}, SystemClock()) as admin:
            partitions = describe_topics(admin, names=["t"])["t"].partitions
            return [(each.leader, sorted(each.isr)) for each in partitions]
    except KafkaError:
        return []


def record(home: pathlib.Path, pair: Sequence[int]) -> dict[str, Any]:
    """One course: all three are killed, the pair is started in its order."""
    kafka = ApacheKafka(home, 3, {"min.insync.replicas": "1"})
    try:
        kafka.start()
        with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
            created = create_topics(admin, [NewTopic("t", replicas_assignments=dict(enumerate(PLACES)))])
            assert created["t"].error is None, created
        eventually(lambda: [leader for leader, _ in _leaders(kafka.bootstrap)] == [each[0] for each in PLACES], WAIT_S)
        for node in (1, 2, 3):
            kafka.processes[node].kill()
        for node in (1, 2, 3):
            kafka.kill(node)
        for node in pair:
            kafka.start_node(node, wait=False)
        bootstrap = ",".join(f"127.0.0.1:{kafka.ports[node - 1]}" for node in pair)
        ends = time.monotonic() + WAIT_S
        wanted = sorted(pair)
        while time.monotonic() < ends:
            found = _leaders(bootstrap)
            if found and all(leader in pair and isr == wanted for leader, isr in found):
                break
            time.sleep(0.5)
    finally:
        kafka.kill_all()
    return course(pair, kafka.log_dir(pair[1]) / METADATA_LOG)


def course(pair: Sequence[int], log: pathlib.Path) -> dict[str, Any]:
    """What is recorded of one course."""
    return {"pair": list(pair), "events": list(events(log))}


def main() -> None:
    """Record every pair as often as the command line says."""
    courses = []
    for pair in PAIRS * int(sys.argv[1]):
        with tempfile.TemporaryDirectory() as home:
            courses.append(record(pathlib.Path(home), pair))
    write(courses)


def write(courses: list[dict[str, Any]]) -> None:
    """Print the recording."""
    lines = ",\n".join(
        json.dumps({"pair": each["pair"]})[:-1]
        + ', "events": [\n  '
        + ",\n  ".join(json.dumps(event) for event in each["events"])
        + "\n]}"
        for each in courses
    )
    places = json.dumps(PLACES)
    print(f'{{"kafka": "{VERSION}", "min.insync.replicas": 1, "places": {places}, "courses": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()
