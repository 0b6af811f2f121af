"""Faults of nodes, links, clocks and disks, chosen by a seed; clients are killed and stopped besides.

Each fault is written to a history of its own. A fault ends before the next one begins, except that clients come back
when their time has come. A wipe waits until every replica is in sync before and after, as an operator would: two copies
lost at once are nobody's to keep.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from support.chaos import Worker, WorkerChaos
from support.history.links import HOLD, RESET
from support.history.nodes import NODES, HistoryNodes
from support.history.record import Recorder

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.quorum import describe_metadata_quorum, remove_raft_voter
from kafkatools.core.admin.topics import describe_topics, list_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError

SKEWS_MS = (-3_600_000, -30_000, 5_000, 600_000, 3_600_000)
IN_SYNC_S = 60
DEFAULT = ("kill", "kill", "kill all", "pause", "wipe", "cut", "cut", "skew", "full disk")


class Nemesis(WorkerChaos):
    """`faults`: the names among which each is chosen."""

    def __init__(
        self,
        nodes: HistoryNodes,
        workers: list[Worker],
        recorder: Recorder,
        seed: int,
        faults: Sequence[str],
        *,
        is_long: bool,
    ) -> None:
        super().__init__(workers, seed, is_long=is_long)
        self._is_long = is_long
        self.nodes = nodes
        self._recorder = recorder
        self.faults: list[str] = []
        self.ended: list[str] = []
        known: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill all": self._kill_all,
            "pause": self._pause,
            "wipe": self._wipe,
            "cut": self._cut,
            "skew": self._skew,
            "full disk": self._full_disk,
            "voter": self._voter,
        }
        usable = [name for name in faults if nodes.has_faulty_machine or name not in ("skew", "full disk", "voter")]
        self._faults = [(name, known[name]) for name in usable]

    def run(self, seconds: float) -> None:
        """Fault after fault for so long; then all nodes run and are connected, and all clients go on."""
        until = time.monotonic() + seconds
        order: list[tuple[str, Callable[[], None]]] = []
        while time.monotonic() < until or (order and not self._is_long):
            if not order:  # each at least once before any comes again; a short run ends when all have come
                order = self._source.sample(self._faults, len(self._faults))
            self.watch(self._source.uniform(0.5, 4 if self._is_long else 1))
            fault = order.pop()[1]
            self._check_running()
            fault()
            self._strike_client()
        self.heal()

    def heal(self) -> None:
        """End all faults."""
        self.nodes.links.heal()
        for node in NODES:
            self.nodes.set_faults(node)
            self.nodes.signal(node, signal.SIGCONT)
            self._start(node)
        self.let_all_go_on()
        self._note("heal")

    def _note(self, fault: str, **values: Any) -> None:
        self._recorder.note(fault, time.monotonic_ns(), **values)
        words = " ".join(str(value) for value in values.values())
        self.faults.append(f"{fault} {words}".strip())
        print(f"  {time.monotonic():.1f} {fault} {words}", flush=True)

    def _check_running(self) -> None:
        """Report a node that ended by itself as a finding, and start it again."""
        for node in NODES:
            if not self.nodes.is_running(node):
                self.ended.append(f"ended: node {node} ended by itself, behind the faults {self.faults[-2:]}")
                self._start(node)

    def _start(self, node: int) -> None:
        if not self.nodes.is_running(node):
            if node in self.nodes.processes:
                self.nodes.forget(node)
            self.nodes.start_node(node, wait=False)

    # -- whom it meets ---------------------------------------------------------------------------------------------
    def _admin(self) -> AdminClient:
        settings = {"default.api.timeout.ms": "5000", "request.timeout.ms": "3000"}
        return AdminClient(self.nodes.bootstrap, settings, SystemClock())

    def _choose_node(self) -> tuple[int, str]:
        """A node, and as what it was chosen: the leader of a partition, the controller, or any."""
        role = self._source.choice(("leader", "controller", "any"))
        found = -1
        with contextlib.suppress(KafkaError), self._admin() as admin:
            if role == "controller":
                found = describe_metadata_quorum(admin).leader_id
            elif role == "leader":
                topics = describe_topics(admin, [self._source.choice(("log", "transactions"))]).values()
                found = self._source.choice([part.leader for topic in topics for part in topic.partitions])
        return (found, role) if found in NODES else (self._source.choice(NODES), "any")

    def in_sync(self) -> bool:
        """Whether every replica of every topic is in sync and every voter has the metadata log."""
        try:
            with self._admin() as admin:
                found = describe_topics(admin, [topic.name for topic in list_topics(admin)]).values()
                quorum = describe_metadata_quorum(admin)
        except KafkaError:
            return False
        is_replicated = all(
            len(part.isr) == len(part.replicas) and part.leader >= 0 for topic in found for part in topic.partitions
        )
        is_whole = len(quorum.voters) == len(NODES)  # else the only voter might be wiped
        return (
            is_replicated
            and is_whole
            and all(voter.log_end_offset >= quorum.high_watermark - 50 for voter in quorum.voters)
        )

    def wait_until_in_sync(self, seconds: float = IN_SYNC_S) -> bool:
        """Whether all are in sync within the time."""
        return self._wait_until(self.in_sync, seconds)

    def _wait_until(self, condition: Callable[[], bool], seconds: float = IN_SYNC_S) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if condition():
                return True
            self.watch(0.3)
        return False

    # -- faults ----------------------------------------------------------------------------------------------------
    def _for_a_while(self, longest_s: float) -> None:
        longest_s = longest_s if self._is_long else 2.0
        self.watch(min(longest_s, self._source.choice((0.3, 1.0, 3.0, self._source.uniform(1, longest_s)))))

    def _kill(self) -> None:
        node, role = self._choose_node()
        self._note("kill", node=node, role=role)
        self.nodes.kill(node)
        self._for_a_while(8)
        self._start(node)

    def _kill_all(self) -> None:
        order = self._source.sample(NODES, len(NODES))
        gap_s = self._source.choice((0.0, 0.0, 0.5, 3.0))
        self._note("kill all", order=order, gap_s=gap_s)
        for node in order:
            self.nodes.kill(node)
        self._for_a_while(4)
        for node in self._source.sample(NODES, len(NODES)):
            self._start(node)
            self.watch(gap_s)

    def _pause(self) -> None:
        node, role = self._choose_node()
        self._note("pause", node=node, role=role)
        self.nodes.signal(node, signal.SIGSTOP)
        self._for_a_while(12)
        self.nodes.signal(node, signal.SIGCONT)

    def _wipe(self) -> None:
        if not self.wait_until_in_sync():
            self._note("no wipe: replicas are out of sync")
            return
        node, role = self._choose_node()
        self._note("wipe", node=node, role=role)
        self.nodes.kill(node)
        sizes = self.nodes.sizes(node)
        self._for_a_while(6)
        self.nodes.wipe(node)
        self._start(node)
        # The ISR alone says nothing while the controller has not missed the node.
        is_complete = self._wait_until(lambda: self.nodes.has_refilled(node, sizes) and self.in_sync())
        self._note("wiped", node=node, is_complete=is_complete)
        if is_complete and self._source.random() < 0.7:  # leadership moves, to the refilled node among others
            others = [other for other in NODES if other != node]
            other = self._source.choice(others)
            self._note("kill", node=other, role="beside the wiped one")
            self.nodes.kill(other)
            self._for_a_while(8)
            self._start(other)

    def _cut(self) -> None:
        how = self._source.choice((HOLD, HOLD, RESET))
        shape = self._source.choice(("pair", "one way", "isolate", "isolate"))
        first, _ = self._choose_node()
        second = self._source.choice([node for node in NODES if node != first])
        cuts = [(first, second)] if shape != "isolate" else [(first, node) for node in NODES if node != first]
        if shape != "one way":
            cuts += [(target, source) for source, target in cuts]
        self._note("cut", shape=shape, how=how, links=cuts)
        for source, target in cuts:
            self.nodes.links.cut(source, target, how)
        self._for_a_while(14)
        self.nodes.links.heal()

    def _voter(self) -> None:
        """Remove a voter, which then joins again by itself; only with nodes of a dynamic quorum."""
        node, role = self._choose_node()
        outcome = "unreachable"
        try:
            with self._admin() as admin:
                voters = {voter.id: voter.directory_id for voter in describe_metadata_quorum(admin).voters}
                directory_id = voters.get(node)
                outcome = "no voter"
                if directory_id is not None:
                    remove_raft_voter(admin, node, directory_id, None)
                    outcome = "removed"
        except KafkaError as error:
            outcome = type(error).__name__
        self._note("voter", node=node, role=role, outcome=outcome)
        if self._source.random() < 0.5:  # while the change may not be committed everywhere
            other, role = self._choose_node()
            self._note("kill", node=other, role=role)
            self.nodes.kill(other)
            self._for_a_while(4)
            self._start(other)
        self._for_a_while(8)

    def _skew(self) -> None:
        node = self._source.choice(NODES)
        skew_ms = self._source.choice(SKEWS_MS)
        self._note("skew", node=node, skew_ms=skew_ms)
        for _ in range(self._source.choice((1, 1, 4))):  # four: the clock jumps to and fro
            self.nodes.set_faults(node, skew_ms=skew_ms)
            self.watch(self._source.uniform(1, 4))
            self.nodes.set_faults(node)
            self.watch(0.3)

    def _full_disk(self) -> None:
        node, role = self._choose_node()
        self._note("full disk", node=node, role=role)
        self.nodes.set_faults(node, is_full=True)
        self.watch(self._source.uniform(2, 9))
        self.nodes.set_faults(node)
        self._note("disk has room", node=node, still_runs=self.nodes.is_running(node))
        if self.nodes.is_running(node):  # its failed directories stay offline until it is started again
            self.nodes.kill(node)
        self._start(node)

    def _strike_client(self) -> None:
        running = self._free_workers()
        chance = self._source.random()
        if running and chance < 0.25:
            worker = self._source.choice(running)
            self._note("stop client", worker=worker.name)
            self._stop_worker(worker)
        elif running and chance < 0.4:
            worker = self._source.choice(running)
            self._note("kill client", worker=worker.name)
            self._kill_worker(worker)
