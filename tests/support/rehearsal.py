"""A broker with everything that its users do, to be killed: idempotent writers, transactional copiers, groups, a
compacted topic, topics that come and go; and what must hold afterwards."""

from __future__ import annotations

import os
import pathlib
import random
import sys
import time
from typing import Any

from support import apache_kafka, chaos_checks
from support.chaos import RESTARTABLE, Chaos, Worker
from support.cutting_proxy import CuttingProxy
from support.kt_process import BrokerProcess, kt_process

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.offsets import LATEST, list_offsets
from kafkatools.core.admin.topics import NewTopic, create_topics, list_topics
from kafkatools.core.clock import SystemClock

CLIENTS_PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
WORKERS = pathlib.Path(__file__).parent.parent / "soak" / "workers"
PARTITIONS = 2
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.segment.bytes": "1048576",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
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
ROLLED = {"segment.ms": "4000"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "1000",
}
COPIERS = {
    "assign": ["assigned"],
    "classic": ["classic-1", "classic-2"],
    "consumer": ["consumer-1", "consumer-2"],
    "librdkafka": ["librdkafka-1", "librdkafka-2"],
}
PROTOCOLS = ["classic", "consumer"]


class Rehearsal:
    """A broker, its topics and its clients, in a directory of their own. A long one has all kinds of them, a short one
    chooses; `is_java`: Apache Kafka's copier and verifiable producer too."""

    def __init__(
        self, directory: pathlib.Path, durability: str, seed: int, *, is_long: bool = False, is_java: bool = False
    ) -> None:
        source = random.Random(seed)
        self.directory = directory
        self.is_java = is_java
        self.bootstrap = self._make_brokers({**SETTINGS, "log.durability": durability})
        self.copies = list(COPIERS) if is_long else source.sample(list(COPIERS), 1)
        self.protocols = PROTOCOLS if is_long else source.sample(PROTOCOLS, 1)
        self.writers = self._writers()
        self.readers = self._readers(3 if is_long else 2)
        self.copies += ["java"] if is_java else []
        self.topics = dict.fromkeys(["input", "keys", "java", *(f"copies-{kind}" for kind in self.copies)], PARTITIONS)
        self.groups = [f"copiers-{kind}" for kind in self.copies] + [f"readers-{name}" for name in self.protocols]
        self.chaos = self._make_chaos(seed, is_long)

    def _make_brokers(self, settings: dict[str, str]) -> str:
        """What is to be killed; gives the address for clients."""
        self.proxy = CuttingProxy()
        advertised = f"PLAINTEXT://127.0.0.1:{self.proxy.port}"
        self.broker = BrokerProcess(self.directory, {**settings, "advertised.listeners": advertised})
        self.proxy.target = int(self.broker.bootstrap.rpartition(":")[2])
        return self.broker.bootstrap

    def _make_chaos(self, seed: int, is_long: bool) -> Any:
        return Chaos(self.broker, self.proxy, self.writers + self.readers, seed, is_long=is_long)

    def start(self) -> None:
        """The broker and its topics; the workers come with the chaos."""
        self.broker.start()
        self.create_topics(1, {})

    def create_topics(self, replicas: int, configs: dict[str, str]) -> None:
        """The topics, each with so many replicas and these settings beside its own."""
        with self.admin() as admin:
            wanted = [
                NewTopic(name, PARTITIONS, replicas, configs={**configs, **(COMPACTED if name == "keys" else ROLLED)})
                for name in self.topics
            ]
            assert [found.error for found in create_topics(admin, wanted).values()] == [None] * len(wanted)

    def admin(self) -> AdminClient:
        """An admin client."""
        return AdminClient(self.bootstrap, {}, SystemClock())

    def journal(self, name: str) -> pathlib.Path:
        """Where workers of a kind write down what happened."""
        return self.directory / f"{name}.journal"

    def _worker(self, name: str, script: str, *words: str, more: tuple[str, ...] = (), **given: Any) -> Worker:
        """A script of ours: `words`, the number of the run, `more`."""
        python = given.pop("python", sys.executable)
        start = [python, str(WORKERS / f"{script}.py"), *words]
        return Worker(name, self.directory, lambda run: [*start, str(run), *more], **given)

    def _writers(self) -> list[Worker]:
        bootstrap, count, path = self.bootstrap, str(PARTITIONS), str(self.journal("input"))
        to_input = ("input", count)
        made = [
            self._worker("ours", "writer", "kafkatools", bootstrap, path, "ours", more=to_input),
            self._worker(
                "librdkafka", "writer", "confluent", bootstrap, path, "theirs", more=to_input, python=CLIENTS_PYTHON
            ),
            self._worker("keyed", "keyed_writer", bootstrap, str(self.journal("keys")), "keys", more=("keys", count)),
            self._worker("topics", "topics", bootstrap, str(self.journal("topics")), "made"),
        ]
        return made + ([self._java_writer()] if self.is_java else [])

    def _java_writer(self) -> Worker:
        words = ("--bootstrap-server", self.bootstrap, "--topic", "java", "--throughput", "200")

        def command(run: int) -> list[str]:
            return apache_kafka.command("verifiable-producer", *words, "--value-prefix", str(run), heap="128m")

        return Worker("java-writer", self.directory, command, (0, 143), pause=3)

    def _java_copier(self) -> Worker:
        words = ["--broker-list", self.bootstrap, "--input-topic", "input", "--input-partition", "0"]
        words += ["--output-topic", "copies-java", "--transactional-id", "java", "--transaction-size", "500"]
        words += ["--consumer-group", "copiers-java", "--group-mode", "--use-group-metadata", "--enable-random-aborts"]
        words += ["--transaction-timeout", "5000"]
        command = apache_kafka.command("transactional-message-copier", *words, heap="128m")
        return Worker("copier-java", self.directory, lambda run: command, (0, 1, 143), pause=3)

    def _readers(self, members: int) -> list[Worker]:
        bootstrap = self.bootstrap
        made = [self._copier(kind, name) for kind in self.copies for name in COPIERS[kind]]
        for protocol in self.protocols:
            words = (bootstrap, str(self.journal(f"readers-{protocol}")))
            more = ("input", f"readers-{protocol}", protocol)
            names = [f"{protocol}-member-{number}" for number in range(members)]
            made += [self._worker(name, "member", *words, name, more=more) for name in names]
        return made + ([self._java_copier()] if self.is_java else [])

    def _copier(self, kind: str, name: str) -> Worker:
        words, more = (self.bootstrap, name), ("input", f"copies-{kind}", f"copiers-{kind}")
        ends, full_name = (0, RESTARTABLE), f"copier-{name}"
        if kind == "librdkafka":
            return self._worker(full_name, "librdkafka_copier", *words, more=more, ends=ends, python=CLIENTS_PYTHON)
        return self._worker(full_name, "copier", *words, more=(*more, kind, str(PARTITIONS)), ends=ends)

    def come_to_rest(self, longest_pause: float = 120) -> list[int]:
        """Writers end, readers reach the end (a busy machine takes its time, but all of them go on) and end; the ends
        of the input."""
        for writer in self.writers:
            self.chaos.workers.remove(writer)
            writer.finish(150)
        places = [("input", partition) for partition in range(PARTITIONS)]
        moved: dict[str, tuple[Any, float]] = {}
        with self.admin() as admin:
            found = list_offsets(admin, dict.fromkeys(places, LATEST))
            ends = [found[place].offset for place in places]
            while behind := self._behind(admin, ends):
                now = time.monotonic()
                moved = {
                    name: moved[name] if name in moved and moved[name][0] == offsets else (offsets, now)
                    for name, offsets in behind.items()
                }
                stuck = [name for name, (_, since) in moved.items() if now - since > longest_pause]
                assert not stuck, f"these do not reach {ends}, {stuck} do not go on: {behind}"
                self.chaos.watch(0.5)
        self.chaos.measure()
        self.chaos.workers.clear()
        for reader in self.readers:
            reader.finish(90)
        return ends

    def _behind(self, admin: AdminClient, ends: list[int]) -> dict[str, Any]:
        """The groups that have not committed the ends."""
        reached = {}
        for name, found in fetch_offsets(admin, self.groups).items():
            committed = [found.offsets.get(("input", partition)) for partition in range(PARTITIONS)]
            reached[name] = [None if one is None else one.offset for one in committed]
        return {name: offsets for name, offsets in reached.items() if offsets != ends}

    def check(self, ends: list[int]) -> tuple[list[str], dict[str, int]]:
        """All that is wrong, and how many records there were."""
        bootstrap = self.bootstrap
        source = chaos_checks.read_topic(bootstrap, "input", PARTITIONS, "read_uncommitted")
        problems, acknowledged = chaos_checks.check_numbered(chaos_checks.read_journal(self.journal("input")), source)
        for topic in [f"copies-{kind}" for kind in self.copies]:
            copied = chaos_checks.read_topic(bootstrap, topic, PARTITIONS, "read_committed")
            problems += chaos_checks.check_copies(topic, source, copied)
        keyed = chaos_checks.read_topic(bootstrap, "keys", PARTITIONS, "read_uncommitted")
        versions = chaos_checks.read_journal(self.journal("keys"))
        problems += chaos_checks.check_keyed(versions, keyed)
        java = chaos_checks.read_topic(bootstrap, "java", PARTITIONS, "read_uncommitted")
        problems += chaos_checks.check_java_values(chaos_checks.json_lines(self.directory / "java-writer.log"), java)
        problems += self._check_groups(ends)
        counts = {"input": sum(map(len, source)), "acknowledged": acknowledged, "copies": len(self.copies)}
        return problems, counts | {"versions": len(versions), "java": sum(map(len, java))}

    def _check_groups(self, ends: list[int]) -> list[str]:
        problems = []
        lines = {name: chaos_checks.read_journal(self.journal(name)) for name in self.groups if "readers" in name}
        for name, events in lines.items():
            problems += [f"{name}: {problem}" for problem in chaos_checks.check_members(events, ends)]
        offsets = chaos_checks.read_topic(self.bootstrap, "__consumer_offsets", 2, "read_committed")
        problems += chaos_checks.check_commits(offsets, lines)
        with self.admin() as admin:
            internal = {"__consumer_offsets": 2, "__transaction_state": 2}
            problems += chaos_checks.check_ends(admin, {**self.topics, **internal})
            names = [topic.name for topic in list_topics(admin)]
        return problems + chaos_checks.check_topics(chaos_checks.read_journal(self.journal("topics")), names)

    def damage(self) -> list[str]:
        """What `kt dump-log` says of the directories after another kill, a start and a clean stop."""
        self.broker.kill()
        self.broker.start()
        self.broker.stop()
        problems = []
        for directory in sorted(path for path in self.broker.directory.iterdir() if path.is_dir()):
            ran = kt_process(self.directory, "dump-log", "--files", str(directory))
            if ran.returncode:
                problems.append(f"{directory.name}: {ran.returncode} {ran.stderr.decode()[-500:]}")
        return problems

    @property
    def problems(self) -> list[str]:
        """Workers that ended in a way they should not."""
        return [problem for worker in self.writers + self.readers for problem in worker.problems]
