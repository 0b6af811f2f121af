"""A quorum on a network and on disks that fail as a seed says: one thread, time that is only counted.

Requests and responses go through the codec of the wire (in one history of eight). A message is lost, late, or cut off
by a partition; a node dies at any moment and comes back with what its disk has kept (what was synced, and maybe a part
of the rest). After every step the rules of the quorum are checked (Kafka's RaftEventSimulationTest): one leader an
epoch, epochs and high watermarks never go back, what is committed is on the disks of a majority, never lost and never
different.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from support.faulty_files import FaultyFileSystem
from support.whole_messages import decode_all

from kafkatools.core.broker.metadata.metadata_log import METADATA_LOG_CONFIG, MetadataLog, SnapshotRules
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.quorum_states import Leader
from kafkatools.core.broker.metadata.quorum.raft import Raft
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.snapshot import Snapshot
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.schemas.metadata import TopicRecord
from kafkatools.core.records.batch import read_batches

WALL_MS = 1_700_000_000_000
NEWEST = {1: 18, 52: 2, 53: 1, 54: 1, 59: 1}
HANDLERS = {
    52: "handle_vote",
    53: "handle_begin_quorum_epoch",
    54: "handle_end_quorum_epoch",
    59: "handle_fetch_snapshot",
}
Fields = Mapping[str, Any]


def as_request(api_key: int, fields: Fields) -> Any:
    """What the other side reads of a request."""
    kind = messages.request_type(api_key, NEWEST[api_key])
    return decode_all(kind, messages.encode(messages.build(kind, fields)))


def as_response(api_key: int, fields: Fields) -> Any:
    """What the asking side reads of a response."""
    kind = messages.response_type(api_key, NEWEST[api_key])
    return decode_all(kind, messages.encode_fields(kind, fields))


_NONE = SimpleNamespace(end_offset=-1, epoch=-1)
_DEFAULTS = {"diverging_epoch": _NONE, "snapshot_id": _NONE}


def as_is(api_key: int, fields: Fields) -> Any:
    """The same without the wire: several times as fast."""
    return _namespace(fields)


def _namespace(value: Any) -> Any:
    if type(value) is dict:
        found = {name: _namespace(each) for name, each in value.items()}
        return SimpleNamespace(**{**_DEFAULTS, **found} if "records" in value else found)
    return [_namespace(each) for each in value] if type(value) is list else value


class Violation(AssertionError):
    """A rule of the quorum was broken."""


class SimulatedNode:
    """A node that may be down; its disk stays. It listens to its member of the quorum; `names` is committed."""

    def __init__(self, simulation: Simulation, node_id: int) -> None:
        self.simulation = simulation
        self.node_id = node_id
        self.files = FaultyFileSystem()
        self.incarnation = 0
        self.raft: Raft | None = None
        self.names: list[str] = []
        self.committed_end = 0
        self.highest_epoch = 0
        self.high_watermark = -1
        self.leads: int | None = None
        self.faults: list[str] = []
        self.wakes_at: int | None = None
        self.sent: tuple[int, Counter[int]] = (0, Counter())
        self.paused_until_ms = 0
        self.asking: dict[object, tuple[int, Callable[[Any], None]]] = {}

    # -- life ------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Open what is on the disk."""
        simulation = self.simulation
        now_ms = simulation.now_ms
        log = MetadataLog(self.files, "/node", simulation.rules)
        log.open(now_ms, simulation.wall_ms(), is_clean=False)
        raft_log = RaftLog(log, simulation.wall_ms)
        voters, settings = simulation.static_voters, simulation.settings_of(self.node_id)
        store = ElectionStore(self.files, log.directory, voters)
        random = Random(simulation.random.random())
        channel = SimulatedChannel(self)
        self.raft = Raft(self.node_id, voters, raft_log, store, channel, settings, random, self)
        self.names, self.committed_end, self.high_watermark, self.leads = [], 0, -1, None
        self.raft.start(now_ms)
        self.turn()

    def crash(self, *, is_reset: bool | None = None) -> None:
        """Lose power; with `is_reset` the others' connections break at once, else they hang (None: as it happens)."""
        asking, self.asking = self.asking, {}
        if is_reset or (is_reset is None and self.simulation.random.random() < 0.5):
            for source, finish in asking.values():
                if not self.simulation.is_cut(self.node_id, source):
                    self.simulation.at(self.simulation.now_ms, partial(finish, None))
        self.incarnation += 1
        self.paused_until_ms = 0
        self.raft = None
        self.wakes_at = None
        random = self.simulation.random
        self.files.crash((lambda path, size: random.randint(0, size)) if random.random() < 0.5 else None)

    def turn(self) -> None:
        """As a node's loop does after everything that happens: what is due now, and when to look again."""
        raft = self.raft
        if raft is None or self.is_paused(self.turn):
            return
        for _ in range(50):
            if raft.next_deadline_ms > self.simulation.now_ms:
                break
            raft.tick(self.simulation.now_ms)
        else:
            raise Violation(f"node {self.node_id} never rests: {raft.state}")
        at_ms = raft.next_deadline_ms
        if self.wakes_at is None or at_ms < self.wakes_at or self.wakes_at <= self.simulation.now_ms:
            self.wakes_at = at_ms
            self.simulation.at(at_ms, self._guarded(self.turn))

    def is_paused(self, run: Callable[[], None]) -> bool:
        """Whether this process is stopped; then it does something when it goes on."""
        if self.simulation.now_ms >= self.paused_until_ms:
            return False
        self.simulation.at(self.paused_until_ms, self._guarded(run))
        return True

    def note_sent(self, api_key: int) -> None:
        """Nobody asks again and again for what it has been told. Fetches follow what is written."""
        second = self.simulation.now_ms // 1000
        self.sent = self.sent if self.sent[0] == second else (second, Counter())
        self.sent[1][api_key] += 1
        if self.sent[1][api_key] > (150 if api_key == 1 else 60):
            raise Violation(f"node {self.node_id} sends without rest: {self.sent[1]}, {self.raft and self.raft.state}")

    def _guarded(self, run: Callable[[], None]) -> Callable[[], None]:
        incarnation = self.incarnation

        def guarded() -> None:
            if self.incarnation == incarnation:
                run()

        return guarded

    # -- what the quorum tells -------------------------------------------------------------------------------------
    def on_commit(self, first: int, end: int) -> None:
        assert self.raft is not None
        if first != self.committed_end:
            raise Violation(f"node {self.node_id}: commit from {first}, expected {self.committed_end}")
        for batch in self.raft.log.committed(first, end):
            names = [record.name for record in batch.records]
            self.simulation.note_committed(self.node_id, batch.next_offset, batch.epoch, names)
            self.names += names
            self.committed_end = batch.next_offset
        if self.committed_end != end:
            raise Violation(f"node {self.node_id}: committed to {self.committed_end}, told {end}")

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        self.leads = epoch if leader_id == self.node_id else None

    def on_snapshot_loaded(self, snapshot: Snapshot) -> None:
        self.names = [record.name for record in snapshot.records]
        self.committed_end = snapshot.snapshot_id.offset
        expected = self.simulation.names_until(self.committed_end)
        if self.names != expected:
            raise Violation(f"node {self.node_id}: snapshot {snapshot.snapshot_id} has other records")

    def on_fault(self, error: Exception) -> None:
        self.faults.append(str(error))

    def take_snapshot(self) -> None:
        """Write a snapshot of what is committed; maybe drop the log below it."""
        raft = self.raft
        if raft is None:
            return
        newest = max((each.offset for each in raft.log.snapshots.ids()), default=0)
        if raft.log.applied.offset <= newest:
            return
        records = [TopicRecord(name=name) for name in self.names]
        raft.log.take_snapshot(records, self.simulation.now_ms)
        if self.simulation.random.random() < 0.7:
            raft.log.metadata_log.clean(self.simulation.wall_ms())

    @property
    def end_on_disk(self) -> int:
        """How far the log would reach after a loss of power now."""
        synced = {path: inode.synced for path, inode in self.files._synced_names.items() if path.endswith(".log")}
        newest, content = max(synced.items(), default=("0.log", b""))
        end = int(newest.rpartition("/")[2].removesuffix(".log"))
        for header in read_batches(content):
            end = header.next_offset
        return end


class SimulatedChannel:
    """The network as one node sees it."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._incarnation = node.incarnation

    def send(
        self,
        node_id: int,
        api_key: int,
        fields: Fields,
        on_response: Callable[[Any], None],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        node, simulation = self._node, self._node.simulation
        node.note_sent(api_key)
        entity = simulation.as_request(api_key, fields)
        is_done = False

        def finish(answer: Any) -> None:
            nonlocal is_done
            if not is_done and node.incarnation == self._incarnation and not node.is_paused(lambda: finish(answer)):
                is_done = True
                on_response(answer)
                node.turn()

        simulation.at(simulation.now_ms + (timeout_ms or 30_000), lambda: finish(None))
        simulation.deliver(node.node_id, simulation.node_at(node_id), api_key, entity, finish)


class Simulation:
    """`voters` voters and `observers` observers, whose ids follow."""

    def __init__(self, seed: int, voters: int = 3, observers: int = 0, settings: RaftSettings | None = None) -> None:
        self.seed = seed
        is_on_wire = seed % 8 == 0
        self.as_request = as_request if is_on_wire else as_is
        self.as_response = as_response if is_on_wire else as_is
        self.random = Random(seed)
        self.now_ms = 1000
        self.static_voters = {node_id: ("localhost", 9000 + node_id) for node_id in range(1, voters + 1)}
        self.settings = settings or RaftSettings("cluster", fetch_max_bytes=2000, fetch_snapshot_max_bytes=700)
        log_config = replace(METADATA_LOG_CONFIG, segment_bytes=Random(seed).choice((1500, 1 << 30)))
        self.rules = SnapshotRules(max_retention_bytes=0, log_config=log_config)
        self.nodes = {node_id: SimulatedNode(self, node_id) for node_id in range(1, voters + observers + 1)}
        self.loss = 0.0
        self.delay_ms = (0, 5)
        self.cut: set[tuple[int, int]] = set()
        self.leaders: dict[int, int] = {}
        self.committed: list[tuple[int, int, list[str]]] = []
        self.appended = 0
        self.high_watermark = -1
        self.steps = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def node_at(self, node_id: int) -> int:
        """The node that an id of a channel stands for."""
        return node_id

    def settings_of(self, node_id: int) -> RaftSettings:
        """The settings of a node."""
        return self.settings

    def handle(self, node: SimulatedNode, api_key: int, entity: Any, respond: Callable[[Fields], None]) -> None:
        """Let a node answer a request other than Fetch."""
        respond(getattr(node.raft, HANDLERS[api_key])(entity, self.now_ms))

    # -- events ----------------------------------------------------------------------------------------------------
    def at(self, at_ms: int, run: Callable[[], None]) -> None:
        """Do something at a time."""
        self._sequence += 1
        heapq.heappush(self._events, (max(at_ms, self.now_ms), self._sequence, run))

    def run_for(self, duration_ms: int) -> None:
        """Let time pass; the rules are checked after every step."""
        end_ms = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, run = heapq.heappop(self._events)
            run()
            self.steps += 1
            self.check()
        self.now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        """Let time pass until something is so; a Violation when it takes too long."""
        end_ms = self.now_ms + limit_ms
        while not condition():
            if self.now_ms >= end_ms:
                states = {node.node_id: node.raft and node.raft.state for node in self.nodes.values()}
                raise Violation(f"not within {limit_ms} ms: {states}")
            self.run_for(10)

    def is_cut(self, one: int, other: int) -> bool:
        return (one, other) in self.cut

    def deliver(self, source: int, target: int, api_key: int, entity: Any, finish: Callable[[Any], None]) -> None:
        """Carry a request there and its response back, or not."""

        def carry(sender: int, receiver: int, run: Callable[[], None]) -> None:
            if self.random.random() >= self.loss and not self.is_cut(sender, receiver):
                self.at(self.now_ms + self.random.randint(*self.delay_ms), run)

        token = object()

        def respond(fields: Fields) -> None:
            self.nodes[target].asking.pop(token, None)
            answer = self.as_response(api_key, fields)
            carry(target, source, lambda: finish(answer))

        def arrive() -> None:
            node = self.nodes[target]
            if node.raft is None:
                carry(target, source, lambda: finish(None))  # refused
            elif node.is_paused(arrive):
                pass
            elif api_key == 1:
                node.asking[token] = (source, finish)
                node.raft.handle_fetch(entity, self.now_ms, respond)
                node.turn()
            else:
                self.handle(node, api_key, entity, respond)
                node.turn()

        carry(source, target, arrive)

    # -- what may be done to it ------------------------------------------------------------------------------------
    @property
    def leader(self) -> SimulatedNode | None:
        """The leader of the newest epoch, if it is up and leads."""
        leading = [node for node in self.nodes.values() if node.raft is not None and node.raft.is_leader]
        return max(leading, key=lambda node: node.raft.epoch if node.raft else -1, default=None)

    def append(self, count: int = 1) -> None:
        """Let whoever thinks that it leads write a batch, once it has heard so."""
        for node in self.nodes.values():
            if node.raft is not None and node.leads == node.raft.epoch and self.now_ms >= node.paused_until_ms:
                names = [f"t{self.appended + index}-{node.node_id}" for index in range(count)]
                self.appended += count
                node.raft.append([TopicRecord(name=name) for name in names], self.wall_ms())
                node.turn()
        self.check()

    def isolate(self, node_id: int) -> None:
        """Cut a node off from all others."""
        self.cut |= {pair for other in self.nodes for pair in ((node_id, other), (other, node_id))}

    def heal(self) -> None:
        """The network is as it should be, and all nodes are up."""
        self.cut.clear()
        self.loss = 0.0
        self.delay_ms = (0, 5)
        for node in self.nodes.values():
            node.paused_until_ms = min(node.paused_until_ms, self.now_ms + 1000)
            if node.raft is None or node.raft.is_shutting_down:
                if node.raft is not None:
                    node.crash()
                node.start()

    # -- the rules -------------------------------------------------------------------------------------------------
    def note_committed(self, node_id: int, next_offset: int, epoch: int, names: list[str]) -> None:
        """A node was told that a batch is committed: it is what others were told at that offset."""
        known = self.committed
        if not known or next_offset > known[-1][0]:
            known.append((next_offset, epoch, names))
            return
        low, high = 0, len(known)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if known[middle][0] < next_offset else (low, middle)
        if known[low] != (next_offset, epoch, names):
            raise Violation(f"node {node_id}: committed {(next_offset, epoch, names)}, others {known[low]}")

    def names_until(self, offset: int) -> list[str]:
        """The committed records below an offset."""
        return [name for end, _, names in self.committed if end <= offset for name in names]

    def check(self) -> None:
        """The rules that hold at every moment."""
        for node in self.nodes.values():
            raft = node.raft
            if raft is None:
                continue
            if raft.failure is not None:
                raise Violation(f"node {node.node_id} failed: {raft.failure}")
            if raft.epoch < node.highest_epoch:
                raise Violation(f"node {node.node_id}: epoch {raft.epoch} after {node.highest_epoch}")
            node.highest_epoch = raft.epoch
            if raft.high_watermark < node.high_watermark:
                raise Violation(
                    f"node {node.node_id}: high watermark {raft.high_watermark} after {node.high_watermark}"
                )
            node.high_watermark = raft.high_watermark
            if raft.end_offset < raft.high_watermark:
                raise Violation(f"node {node.node_id}: the log ends below the high watermark")
            if isinstance(raft.state, Leader):
                self._check_leader(node, raft.state)

    def _check_leader(self, node: SimulatedNode, state: Leader) -> None:
        known = self.leaders.setdefault(state.epoch, node.node_id)
        if known != node.node_id:
            raise Violation(f"nodes {known} and {node.node_id} lead epoch {state.epoch}")
        assert node.raft is not None
        if state.epoch == max(self.leaders) and node.raft.end_offset < self.high_watermark:
            raise Violation(f"leader {node.node_id} ends below {self.high_watermark}, which was committed")
        if state.high_watermark > self.high_watermark:
            self.high_watermark = state.high_watermark
            ends = [self.nodes[voter].end_on_disk for voter in node.raft.voter_set.by_id]
            if sum(end >= state.high_watermark for end in ends) < len(ends) // 2 + 1:
                raise Violation(f"{state.high_watermark} is committed, the disks have {ends}")

    def check_logs(self) -> None:
        """The logs have the same bytes as far as both are committed, and no faults were told."""
        bounds = [node.raft.high_watermark for node in self.nodes.values() if node.raft is not None]
        end = min(bounds, default=0)
        views = {node_id: self._batches(node, end) for node_id, node in self.nodes.items() if node.raft is not None}
        start = max((min(view, default=end) for view in views.values()), default=0)
        contents = {
            node_id: [data for offset, data in sorted(view.items()) if offset >= start]
            for node_id, view in views.items()
        }
        first = next(iter(contents.values()), [])
        for node_id, content in contents.items():
            if content != first:
                raise Violation(f"the log of node {node_id} differs below {end}")

    def _batches(self, node: SimulatedNode, end: int) -> dict[int, bytes]:
        assert node.raft is not None
        log = node.raft.log
        found: dict[int, bytes] = {}
        offset = log.start_offset
        while offset < end:
            for batch in read_batches(log.read(offset, 1 << 20)):
                if batch.next_offset <= end:
                    found[batch.base_offset] = batch.to_bytes()
                offset = batch.next_offset
        return found

    def settle(self, limit_ms: int = 60_000) -> None:
        """Heal everything; then a leader is found, commits, and all have the same."""
        self.heal()
        self.run_until(lambda: any(node.leads is not None for node in self.nodes.values()), limit_ms)
        self.append()

        def is_settled() -> bool:
            leader = self.leader
            if leader is None or leader.raft is None or leader.leads is None:
                return False
            end = leader.raft.end_offset
            return all(
                node.raft is not None and node.raft.high_watermark == end == node.raft.end_offset
                for node in self.nodes.values()
            )

        self.run_until(is_settled, limit_ms)
        self.check_logs()
        faults = [fault for node in self.nodes.values() for fault in node.faults]
        if faults:
            raise Violation(f"faults were told: {faults[:3]}")
        names = self.names_until(self.high_watermark)
        for node in self.nodes.values():
            if node.names != names:
                raise Violation(f"node {node.node_id} was told other records")


def random_schedule(seed: int, duration_ms: int = 20_000) -> Simulation:
    """One random history: writes, and every second or so something goes wrong."""
    choice = Random(seed)
    simulation = Simulation(seed, voters=choice.choice((1, 3, 3, 3, 5)), observers=choice.choice((0, 0, 1)))
    for node in simulation.nodes.values():
        node.start()
    end_ms = simulation.now_ms + duration_ms
    while simulation.now_ms < end_ms:
        simulation.run_for(choice.randint(1, 400))
        for _ in range(choice.randint(0, 3)):
            simulation.append(choice.randint(1, 4))
        if choice.random() < 0.3:
            _something_happens(simulation, choice)
    simulation.settle()
    return simulation


def _something_happens(simulation: Simulation, choice: Random) -> None:
    node = simulation.nodes[choice.choice(sorted(simulation.nodes))]
    leader = simulation.leader
    if leader is not None and choice.random() < 0.4:
        node = leader
    happenings = (*_CRASHES, _cut, _deafen, _mend, _mend, _lose, _delay, _snapshot, _resign, _leave, _pause)
    choice.choice(happenings)(simulation, node, choice)
    for each in simulation.nodes.values():
        if each.raft is None and choice.random() < 0.3:
            each.start()


def _crash_or_start(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    if node.raft is None:
        node.start()
    else:
        node.crash()


_CRASHES = (_crash_or_start,) * 3


def _pause(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    node.paused_until_ms = simulation.now_ms + choice.randint(1, 8000)


def _cut(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    simulation.isolate(node.node_id)


def _deafen(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    """One direction of one link, or of all."""
    others = [choice.choice(sorted(simulation.nodes))] if choice.random() < 0.5 else sorted(simulation.nodes)
    for other in others:
        simulation.cut.add((node.node_id, other) if choice.random() < 0.5 else (other, node.node_id))


def _mend(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    simulation.cut.clear()


def _lose(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    simulation.loss = choice.choice((0.0, 0.05, 0.3))


def _delay(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    simulation.delay_ms = choice.choice(((0, 5), (0, 300), (50, 900)))


def _snapshot(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    node.take_snapshot()


def _resign(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    if node.raft is not None and simulation.now_ms >= node.paused_until_ms:
        node.raft.resign(simulation.now_ms)
        node.turn()


def _leave(simulation: Simulation, node: SimulatedNode, choice: Random) -> None:
    if node.raft is not None and simulation.now_ms >= node.paused_until_ms:
        node.raft.shut_down(simulation.now_ms)
        node.turn()
