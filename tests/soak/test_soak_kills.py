"""Acknowledged records are never lost or doubled: producers, transactional copiers, groups and a compacted topic while
the broker and its clients are killed and stopped at random moments.

KT_SOAK_KILLS: kills in all (10; `make soak`: 200). KT_SOAK_SEED repeats the decisions of a run, not its exact timing.
KT_CLIENTS_PYTHON: an interpreter that has confluent-kafka (default: this one).
"""

from __future__ import annotations

import os
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import chaos_checks
from support.chaos import RESTARTABLE, Chaos, Worker
from support.kt_process import BrokerProcess, kt_process

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.offsets import LATEST, list_offsets
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock

KILLS = int(os.environ.get("KT_SOAK_KILLS", "10"))
SEED = int(os.environ.get("KT_SOAK_SEED") or random.SystemRandom().randrange(1_000_000))
IS_LONG = KILLS > 20
CLIENTS_PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
WORKERS = pathlib.Path(__file__).parent / "workers"
PARTITIONS = 2
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "auto.create.topics.enable": "false",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "1000",
}
COPIERS = {"assign": ["assigned"], "classic": ["classic-1", "classic-2"], "consumer": ["consumer-1", "consumer-2"]}


class Rehearsal:
    """A broker, its topics and its clients, in a directory of their own."""

    def __init__(self, directory: pathlib.Path, durability: str, seed: int) -> None:
        self.directory = directory
        self.broker = BrokerProcess(directory, {**SETTINGS, "log.durability": durability})
        self.broker.start()
        self.copies = dict(COPIERS) if IS_LONG else {}
        self.copies |= {} if IS_LONG else {name: COPIERS[name] for name in random.Random(seed).sample(list(COPIERS), 1)}
        self.members = ["classic", "consumer"] if IS_LONG else random.Random(seed).sample(["classic", "consumer"], 1)
        self.writers = [self.writer("ours", "kafkatools"), self.writer("librdkafka", "confluent")]
        self.writers.append(self.worker("keyed", lambda run: self.script("keyed_writer", "keys", run)))
        self.readers = [self.copier(kind, name) for kind, names in self.copies.items() for name in names]
        self.readers += [self.member(protocol, number) for protocol in self.members for number in range(2 + IS_LONG)]
        self.topics = {"input": PARTITIONS, "keys": PARTITIONS} | {f"copies-{kind}": PARTITIONS for kind in self.copies}
        self.groups = [f"copiers-{kind}" for kind in self.copies] + [f"readers-{name}" for name in self.members]
        longest = 10 if IS_LONG else 2.5
        self.chaos = Chaos(self.broker, self.writers + self.readers, seed, longest_stop=longest)
        with self.admin() as admin:
            wanted = [
                NewTopic(name, PARTITIONS, 1, configs=None if name != "keys" else COMPACTED) for name in self.topics
            ]
            assert [found.error for found in create_topics(admin, wanted).values()] == [None] * len(wanted)

    def admin(self) -> AdminClient:
        return AdminClient(self.broker.bootstrap, {}, SystemClock())

    def journal(self, name: str) -> pathlib.Path:
        return self.directory / f"{name}.journal"

    def worker(self, name: str, command: Callable[[int], list[str]], *ends: int) -> Worker:
        return Worker(name, self.directory, command, (0, *ends))

    def script(self, script: str, topic: str, run: int) -> list[str]:
        words = [self.broker.bootstrap, str(self.journal(script)), "keys", str(run), topic, str(PARTITIONS)]
        return [sys.executable, str(WORKERS / f"{script}.py"), *words]

    def writer(self, name: str, library: str) -> Worker:
        python = CLIENTS_PYTHON if library == "confluent" else sys.executable
        words = [python, str(WORKERS / "writer.py"), library, self.broker.bootstrap, str(self.journal("input")), name]
        return self.worker(name, lambda run: [*words, str(run), "input", str(PARTITIONS)])

    def copier(self, kind: str, name: str) -> Worker:
        words = [sys.executable, str(WORKERS / "copier.py"), self.broker.bootstrap, name]
        more = ["input", f"copies-{kind}", f"copiers-{kind}", kind, str(PARTITIONS)]
        return self.worker(f"copier-{name}", lambda run: [*words, str(run), *more], RESTARTABLE)

    def member(self, protocol: str, number: int) -> Worker:
        name = f"{protocol}-member-{number}"
        words = [sys.executable, str(WORKERS / "member.py"), self.broker.bootstrap]
        words += [str(self.journal(f"readers-{protocol}")), name]
        return self.worker(name, lambda run: [*words, str(run), "input", f"readers-{protocol}", protocol])

    def come_to_rest(self, timeout: float = 90) -> list[int]:
        """Writers end, readers reach the end and end; the ends of the input."""
        for writer in self.writers:
            self.chaos.workers.remove(writer)
            writer.finish(60)
        deadline = time.monotonic() + timeout
        places = [("input", partition) for partition in range(PARTITIONS)]
        with self.admin() as admin:
            found = list_offsets(admin, dict.fromkeys(places, LATEST))
            ends = [found[place].offset for place in places]
            while behind := self.behind(admin, ends):
                assert time.monotonic() < deadline, f"these do not reach {ends}: {behind}"
                self.chaos.watch(0.3)
        self.chaos.measure()
        self.chaos.workers.clear()
        for reader in self.readers:
            reader.finish(30)
        return ends

    def behind(self, admin: AdminClient, ends: list[int]) -> dict[str, Any]:
        """The groups that have not committed the ends."""
        found = fetch_offsets(admin, self.groups)
        reached = {
            name: [found[name].offsets[place].offset if place in found[name].offsets else None for place in places]
            for places in [[("input", partition) for partition in range(PARTITIONS)]]
            for name in self.groups
        }
        return {name: offsets for name, offsets in reached.items() if offsets != ends}

    def check(self, ends: list[int]) -> tuple[list[str], dict[str, int]]:
        """All that is wrong, and how many records there were."""
        bootstrap = self.broker.bootstrap
        source = chaos_checks.read_topic(bootstrap, "input", PARTITIONS, "read_uncommitted")
        problems, acknowledged = chaos_checks.check_numbered(chaos_checks.read_journal(self.journal("input")), source)
        for kind in self.copies:
            copied = chaos_checks.read_topic(bootstrap, f"copies-{kind}", PARTITIONS, "read_committed")
            problems += chaos_checks.check_copies(f"copies-{kind}", source, copied)
        keyed = chaos_checks.read_topic(bootstrap, "keys", PARTITIONS, "read_uncommitted")
        versions = chaos_checks.read_journal(self.journal("keyed_writer"))
        problems += chaos_checks.check_keyed(versions, keyed)
        lines = {name: chaos_checks.read_journal(self.journal(name)) for name in self.groups if "readers" in name}
        for name, events in lines.items():
            problems += [f"{name}: {problem}" for problem in chaos_checks.check_members(events, ends)]
        offsets = chaos_checks.read_topic(bootstrap, "__consumer_offsets", 2, "read_committed")
        problems += chaos_checks.check_commits(offsets, lines)
        with self.admin() as admin:
            internal = {"__consumer_offsets": 2, "__transaction_state": 2}
            problems += chaos_checks.check_ends(admin, {**self.topics, **internal})
        counts = {"input": sum(map(len, source)), "acked": acknowledged, "keyed": len(versions)}
        return problems, counts

    def damage(self) -> list[str]:
        """What `kt dump-log` says of the directories of a broker that was killed once more."""
        self.broker.kill()
        self.broker.start()
        self.broker.stop()
        problems = []
        for directory in sorted(path for path in self.broker.directory.iterdir() if path.is_dir()):
            ran = kt_process(self.directory, "dump-log", "--files", str(directory))
            if ran.returncode:
                problems.append(f"{directory.name}: {ran.returncode} {ran.stderr.decode()[-500:]}")
        return problems


@pytest.fixture
def make_rehearsal(tmp_path: pathlib.Path) -> Iterator[Callable[[str, int], Rehearsal]]:
    made: list[Rehearsal] = []

    def make(durability: str, seed: int) -> Rehearsal:
        made.append(Rehearsal(tmp_path, durability, seed))
        return made[-1]

    yield make
    for rehearsal in made:
        rehearsal.chaos.close()


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.timeout(120 + 15 * KILLS)
@pytest.mark.parametrize("durability", ["none", "fsync"])
def test_nothing_is_lost_or_doubled_through_kills(make_rehearsal: Any, durability: str) -> None:
    began = time.monotonic()
    seed = SEED + (durability == "fsync")
    print(f"KT_SOAK_SEED={SEED} KT_SOAK_KILLS={KILLS}")
    rehearsal = make_rehearsal(durability, seed)
    chaos = rehearsal.chaos
    chaos.watch(2)
    chaos.run(KILLS // 2)
    ends = rehearsal.come_to_rest()
    problems, counts = rehearsal.check(ends)
    problems += [problem for worker in rehearsal.writers + rehearsal.readers for problem in worker.problems]
    problems += rehearsal.damage()
    tally = chaos.tally
    print(f"{durability}: {time.monotonic() - began:.0f} s, {counts}, {tally}")
    assert problems == [], "\n".join(problems[:20])
    assert max(tally.resident_kib) < 200_000 and max(tally.descriptors) < 200
