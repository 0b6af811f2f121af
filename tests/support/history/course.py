"""The course of a run: three nodes, the clients of four workloads, faults, the heal, and the checks of what was
recorded."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import sys
import time
from typing import Any, NamedTuple

from support import chaos_checks
from support.chaos import RESTARTABLE, Worker
from support.history import group_checks, log_checks, metadata_checks, progress_checks, transaction_checks
from support.history.final_logs import Partition, check_replicas, decode, partition_bytes
from support.history.nemesis import DEFAULT, IN_SYNC_S, Nemesis
from support.history.nodes import NODES, EmbeddedHistoryNodes, HistoryNodes
from support.history.record import Operation, Recorder, read_histories
from support.waiting import eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import describe_configs
from kafkatools.core.admin.groups import describe_groups
from kafkatools.core.admin.offsets import LATEST, list_offsets
from kafkatools.core.admin.topics import NewTopic, create_topics, list_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError

CLIENTS = pathlib.Path(__file__).parent / "clients"
PARTITIONS = 3
TOPICS = ("log", "transactions")
GROUPS = ("group-classic", "group-consumer")
OURS, THEIRS = "kafkatools", "librdkafka"
METADATA_PREFIX = "meta"
START_S = 120
PROGRESS_S = float(os.environ.get("KT_HISTORY_PROGRESS_SECONDS", "30"))
"""Within this time after the last fault every client does something."""
END_S = 60
ABORTED_S = 30
EXPIRED_S = 30
SHOWN = 4
WORKLOADS = ("log", "transactions", "groups", "metadata")


class Client(NamedTuple):
    """A client: its name, library, script and own arguments; the kinds of operation that must go on after a heal."""

    name: str
    library: str
    script: str
    arguments: tuple[str, ...]
    kinds: tuple[str, ...]


def clients_of(workload: str) -> list[Client]:
    """The clients of a workload, of both libraries."""
    count, both = str(PARTITIONS), ((OURS, "ours"), (THEIRS, "theirs"))
    if workload == "log":
        return [Client(f"log-{n}", lib, "log_client", ("log", count), ("send", "read")) for lib, n in both]
    if workload == "transactions":
        levels = {"a": ("read_committed",), "b": ("read_uncommitted",)}
        return [
            Client(f"transactions-{n}-{letter}", lib, "transaction_client", ("transactions", count, *isolations),
                   ("transaction", "read"))
            for lib, n in both for letter, isolations in levels.items()
        ]  # fmt: skip
    if workload == "groups":
        members = [("classic", OURS, "ours-a"), ("classic", OURS, "ours-b"), ("classic", THEIRS, "theirs")]
        members += [("consumer", OURS, "ours-a"), ("consumer", THEIRS, "theirs")]
        return [
            Client(f"{kind}-{n}", lib, "group_client", ("log", f"group-{kind}", kind), ()) for kind, lib, n in members
        ]
    names = [(OURS, "metadata-1"), (OURS, "metadata-2"), (THEIRS, "metadata-3")]
    return [Client(n, lib, "metadata_client", (METADATA_PREFIX,), ("configs",)) for lib, n in names]


class Findings(NamedTuple):
    """The findings and the counts of a run."""

    problems: list[str]
    counts: dict[str, int]


class Course:
    """One run in a directory of its own; `is_baseline`: against Apache Kafka."""

    def __init__(
        self,
        directory: pathlib.Path,
        seed: int,
        *,
        is_baseline: bool = False,
        workloads: tuple[str, ...] = WORKLOADS,
        faults: tuple[str, ...] = DEFAULT,
        is_long: bool = True,
    ) -> None:
        self.histories = directory / "histories"
        self.histories.mkdir(parents=True)
        self._directory = directory
        self._is_long = is_long
        self._workloads = workloads
        self.nodes = (HistoryNodes if is_baseline else EmbeddedHistoryNodes)(directory / "nodes")
        if isinstance(self.nodes, EmbeddedHistoryNodes):
            self.nodes.is_dynamic = "voter" in faults
        self._clients = [client for workload in workloads for client in clients_of(workload)]
        self._workers = {client.name: self._worker(client) for client in self._clients}
        self._recorder = Recorder(str(self.histories / "nemesis.jsonl"), "nemesis", 0)
        self.nemesis = Nemesis(self.nodes, list(self._workers.values()), self._recorder, seed, faults, is_long=is_long)
        self._healed_ns = 0
        self._problems: list[str] = []
        self._undecided = 0
        self.is_sound = False

    def _worker(self, client: Client) -> Worker:
        script = str(CLIENTS / f"{client.script}.py")
        history = str(self.histories / f"{client.name}.jsonl")
        start = [sys.executable, script, client.library, self.nodes.bootstrap, history, client.name]
        return Worker(client.name, self._directory, lambda run: [*start, str(run), *client.arguments], (0, RESTARTABLE))

    def run(self, seconds: float) -> Findings:
        """All of it."""
        self.start()
        self.nemesis.watch(4)
        self.nemesis.run(seconds)
        self._healed_ns = time.monotonic_ns()
        self._watch_progress()
        if not self.nemesis.wait_until_in_sync(IN_SYNC_S):
            self._problems.append(f"stuck: replicas are not in sync {IN_SYNC_S} s after clients go on")
        self._stop_clients()
        return self._check()

    def _watch_progress(self) -> None:
        """A long run takes all the time that clients have to go on; a short one looks whether they do already."""
        until = time.monotonic() + PROGRESS_S
        while time.monotonic() < until:
            self.nemesis.watch(2)
            if not self._is_long and not self._stuck(read_histories(self.histories)):
                return

    def _stuck(self, operations: list[Operation]) -> list[str]:
        expected = {client.name: client.kinds for client in self._clients}
        return progress_checks.check_progress(operations, expected, self._healed_ns, int(PROGRESS_S * 1e9))

    def start(self) -> None:
        """The nodes and the topics; the clients come with the nemesis."""
        self.nodes.start()
        with self._admin() as admin:
            eventually(self.nemesis.in_sync, START_S)
            topics = [NewTopic(name, PARTITIONS, len(NODES)) for name in TOPICS]
            created = create_topics(admin, topics, timeout_ms=START_S * 1000)
            assert not [each.error for each in created.values() if each.error], created
        eventually(self.nemesis.in_sync, START_S)

    def _admin(self, node: int | None = None) -> AdminClient:
        settings = {"default.api.timeout.ms": "30000"}
        bootstrap = self.nodes.bootstrap if node is None else f"127.0.0.1:{self.nodes.ports[node - 1]}"
        return AdminClient(bootstrap, settings, SystemClock())

    # -- the end ---------------------------------------------------------------------------------------------------
    def _stop_clients(self) -> None:
        """Writers end; members of groups reach the ends of the log; then all end."""
        members = [self._workers[c.name] for c in self._clients if c.script == "group_client"]
        self._finish([self._workers[c.name] for c in self._clients if c.script != "group_client"])
        if members:
            self._wait_for_members()
        self._finish(members)
        self._problems += [f"client: {text}" for worker in self._workers.values() for text in worker.problems]

    def _finish(self, workers: list[Worker]) -> None:
        """Ask all of them to end, then wait for each until the time is over."""
        self.nemesis.let_all_go_on()
        for worker in workers:
            self.nemesis.release(worker)
            worker.signal(signal.SIGTERM)
        until = time.monotonic() + END_S
        for worker in workers:
            worker.finish(max(1.0, until - time.monotonic()))

    def _wait_for_members(self) -> None:
        """Until every group has committed the ends of the log, while offsets still move."""
        from kafkatools.core.admin.group_offsets import fetch_offsets

        until, last = time.monotonic() + 30, None
        with self._admin() as admin:
            ends = self._ends(admin)
            while time.monotonic() < until:
                found = fetch_offsets(admin, list(GROUPS))
                now = {
                    (group, place): each.offset
                    for group, answer in found.items()
                    for place, each in answer.offsets.items()
                    if each is not None
                }
                behind = {
                    (group, place): now.get((group, place))
                    for group in GROUPS
                    for place, end in ends.items()
                    if place[0] == "log" and now.get((group, place)) != end
                }
                if not behind:
                    return
                if now != last:
                    until, last = time.monotonic() + 30, now
                self.nemesis.watch(0.3)
        self._problems.append(f"stuck: groups did not reach the ends {ends} within 30 s without progress: {behind}")

    def _ends_at_rest(self, admin: AdminClient) -> dict[tuple[str, int], int]:
        """The ends once every transaction has ended: one that a client left open is aborted after its time."""
        until = time.monotonic() + ABORTED_S
        while True:
            problems = chaos_checks.check_ends(admin, dict.fromkeys(TOPICS, PARTITIONS))
            if not problems or time.monotonic() > until:
                break
            time.sleep(0.5)
        self._problems += [f"stuck: an open transaction {ABORTED_S} s after the end: {each}" for each in problems]
        return self._ends(admin)

    def _ends(self, admin: AdminClient) -> dict[tuple[str, int], int]:
        places = {(topic, partition): LATEST for topic in TOPICS for partition in range(PARTITIONS)}
        return {place: found.offset for place, found in list_offsets(admin, places).items()}

    # -- checks ----------------------------------------------------------------------------------------------------
    def _check(self) -> Findings:
        with self._admin() as admin:
            ends = self._ends_at_rest(admin)
        if "metadata" in self._workloads:
            self._read_settled()
        if "groups" in self._workloads:
            self._problems += self._check_committed() + self._check_sessions()
        for node in NODES:
            self.nodes.stop_node(node)
        operations = read_histories(self.histories)
        copies = {place: {node: partition_bytes(self.nodes.log_dir(node), *place) for node in NODES} for place in ends}
        for place, replicas in copies.items():
            self._problems += check_replicas(place, replicas, ends[place])
        logs = {place: decode(replicas[1]) for place, replicas in copies.items()}
        self._problems += self._check_histories(operations, logs, ends)
        self._problems += self.nemesis.ended + self._tracebacks()
        return Findings(self._problems, self._count(operations, logs))

    def _check_histories(
        self, operations: list[Operation], logs: dict[tuple[str, int], Partition], ends: dict[tuple[str, int], int]
    ) -> list[str]:
        sends = {place: log for place, log in logs.items() if place[0] == "log"}
        transactions = {place: log for place, log in logs.items() if place[0] == "transactions"}
        problems = log_checks.check_sends(operations, sends) + log_checks.check_reads(operations, logs)
        problems += transaction_checks.check_transactions(operations, transactions)
        problems += transaction_checks.check_isolation(operations)
        if "groups" in self._workloads:
            log_ends = {place[1]: end for place, end in ends.items() if place[0] == "log"}
            problems += group_checks.check_processed(operations, GROUPS, log_ends)
            problems += group_checks.check_commits(operations) + group_checks.check_starts(operations)
        found, self._undecided = metadata_checks.check_metadata(operations)
        return problems + found + self._stuck(operations)

    def _read_settled(self) -> None:
        """Describe the remaining topics on every broker, after all have caught up."""
        for node in NODES:
            with self._admin(node) as admin:
                names = [topic.name for topic in list_topics(admin) if topic.name.startswith(METADATA_PREFIX)]
                for name in names:
                    number = self._recorder.invoke("configs", topic=name, broker=node, settled=True)
                    entries = describe_configs(admin, [(2, name)], node=node)[2, name].entries
                    value = int(next(each.value or 0 for each in entries if each.name == "retention.ms"))
                    self._recorder.complete(number, "ok", exists=True, value=value)

    def _check_committed(self) -> list[str]:
        offsets = chaos_checks.read_topic(self.nodes.bootstrap, "__consumer_offsets", 3, "read_committed")
        return [f"went back: {problem}" for problem in chaos_checks.check_commits(offsets, {})]

    def _check_sessions(self) -> list[str]:
        """Members that ended without a word, or were killed, are put out of their groups when their session is over."""
        until = time.monotonic() + EXPIRED_S
        while True:
            with self._admin() as admin:
                found = describe_groups(admin, list(GROUPS))
            members = {group: [m.member_id for m in each.members] for group, each in found.items() if each.members}
            if not members or time.monotonic() > until:
                return [f"stuck: sessions that did not end in {EXPIRED_S} s: {members}"] if members else []
            time.sleep(0.5)

    def _tracebacks(self) -> list[str]:
        problems = []
        for node in NODES:
            text = self.nodes.server_log(node)
            if not isinstance(self.nodes, EmbeddedHistoryNodes):
                continue
            at = text.find("Traceback")
            if at >= 0:
                problems.append(f"traceback: node {node}: {text[max(0, at - 300) : at + 2500]}")
        return problems

    def _count(self, operations: list[Operation], logs: dict[tuple[str, int], Partition]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for operation in operations:
            name = f"{operation.kind} {operation.outcome}"
            counts[name] = counts.get(name, 0) + 1
        counts["records"] = sum(len(log.entries) for log in logs.values())
        counts["undecided topics"] = self._undecided
        return counts

    def keep(self, target: pathlib.Path, findings: Findings, seed: int) -> None:
        """Write the findings beside the histories, the logs of nodes and clients, for whoever looks into a failure."""
        text = json.dumps({"seed": seed, "faults": self.nemesis.faults, **findings._asdict()}, indent=1)
        (target / "findings.json").write_text(text)

    def close(self) -> None:
        """Leave nothing running."""
        with contextlib.suppress(KafkaError, OSError):
            self.nemesis.close()
        self.nodes.close()


def shown(problems: list[str]) -> str:
    """The first few of each kind of anomaly, and how many there are of it."""
    by_kind: dict[str, list[str]] = {}
    for problem in problems:
        by_kind.setdefault(problem.partition(":")[0], []).append(problem)
    return "\n".join("\n".join([f"{kind}: {len(found)}", *found[:SHOWN]]) for kind, found in by_kind.items())


def summary(findings: Findings, nemesis: Any) -> str:
    """The figures of a run, in a few lines."""
    counts = ", ".join(f"{number} {name}" for name, number in sorted(findings.counts.items()))
    return f"{len(nemesis.faults)} faults; {counts}"
