"""Plans of reassignments: which replicas move when brokers are drained or added, when the replication factor changes,
or to balance. Pure: a state of the cluster goes in, a plan comes out, the same one for the same state.

Rules:
- A replica moves only where the goal needs it. drain: off the drained brokers. add: onto the new brokers. A new
  replication factor adds or removes replicas and moves none. balance: as few moves as bring the brokers within one
  replica of each other. Among replicas that serve equally, of the topic that the
  source has most of in comparison, the smallest goes.
- Racks come first (KIP-36): a new replica goes to the rack with the fewest of its partition, and no move makes a
  partition's spread over racks worse. So with racks of unequal size brokers can stay unequal. Balance also moves what
  repairs the spread, add does so within a new broker's share.
- Then load: replicas of the chosen topics per broker; ties by the topic's own replicas, then by those of all topics.
- A new replica takes the place of the old one in the list, so the preferred leadership (the first place) stays or goes
  with it. Then preferred leaders are brought within one of each other where the lists allow, by reordering lists: of
  partitions that change anyway, with balance of all chosen ones. Reordering moves no data.
- Only live brokers get replicas. What is on a broker that is down counts as a replica and stays, unless that broker is
  drained; a lower replication factor gives up replicas that are down first, then those out of sync, never the leader
  while there is another. A partition that nobody could copy from (no live replica in sync) is left out and named.
- There are never fewer replicas than asked for: too few brokers is `PlanRefused`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

TopicPartition = tuple[str, int]


class PlanRefused(ValueError):
    """There is no such plan; the message says why."""


class Broker(NamedTuple):
    id: int
    rack: str | None = None


class Partition(NamedTuple):
    """A partition: its replicas, the preferred leader first; leader -1 when there is none; the bytes of one replica."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    size_bytes: int = 0

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition


class ClusterState(NamedTuple):
    """What a plan starts from: the live brokers and all partitions."""

    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]


class Scope(NamedTuple):
    """What may change: these topics (None: all). Without `rack_aware` racks do not count."""

    topics: frozenset[str] | None = None
    rack_aware: bool = True


EVERYTHING = Scope()


class Move(NamedTuple):
    """A partition whose list of replicas changes. `size_bytes` is what each added replica has to copy."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader: int
    size_bytes: int

    @property
    def added(self) -> tuple[int, ...]:
        """The brokers that get a replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        """The brokers that lose theirs."""
        return tuple(broker for broker in self.before if broker not in self.after)


class BrokerLoad(NamedTuple):
    """A broker before and after a plan, over all topics. `bytes_out` is what it has to send as a leader."""

    broker: int
    rack: str | None
    replicas: tuple[int, int]
    leaders: tuple[int, int]
    size_bytes: tuple[int, int]
    bytes_in: int
    bytes_out: int


class ReassignmentPlan(NamedTuple):
    """The moves in the order of topics and partitions, the brokers, and what was left out with the reason."""

    moves: tuple[Move, ...]
    brokers: tuple[BrokerLoad, ...]
    left_out: Mapping[TopicPartition, str]

    @property
    def bytes_to_move(self) -> int:
        """What all added replicas copy."""
        return sum(move.size_bytes * len(move.added) for move in self.moves)

    @property
    def replicas_to_move(self) -> int:
        """How many replicas are added."""
        return sum(len(move.added) for move in self.moves)


# -- the four plans --


def plan_drain(cluster: ClusterState, brokers: Collection[int], scope: Scope = EVERYTHING) -> ReassignmentPlan:
    """No replica stays on these brokers (live or not). PlanRefused when the others are too few."""
    _ensure_known(cluster, brokers, "drain")
    layout = _Layout(cluster, scope)
    others = layout.live - set(brokers)
    for key in layout.keys:
        leaving = [broker for broker in layout.replicas[key] if broker in brokers]
        if not leaving:
            continue
        if layout.cannot_be_copied(key):
            continue
        for broker in leaving:
            layout.replace(key, broker, layout.choose(key, others, without=broker))
    _level(layout, _Edges(others, others, fresh_only=True))
    return _finish(cluster, layout, others)


def plan_add(cluster: ClusterState, brokers: Collection[int], scope: Scope = EVERYTHING) -> ReassignmentPlan:
    """These live brokers get their share of the replicas; nothing moves between the others."""
    _ensure_live(cluster, brokers, "add")
    layout = _Layout(cluster, scope)
    new = frozenset(brokers)
    share = -(-sum(layout.count[broker] for broker in layout.live) // len(layout.live))
    _repair_racks(layout, new, share)
    _level(layout, _Edges(layout.live, new, share=share))
    return _finish(cluster, layout, layout.live)


def plan_replication_factor(
    cluster: ClusterState, factor: int, brokers: Collection[int] | None = None, scope: Scope = EVERYTHING
) -> ReassignmentPlan:
    """Every chosen partition has `factor` replicas. New ones go to `brokers` (default: all live ones)."""
    if factor < 1:
        raise PlanRefused(f"The replication factor is a number from 1 on, not {factor}")
    if brokers is not None:
        _ensure_live(cluster, brokers, "use")
    layout = _Layout(cluster, scope)
    onto = layout.live if brokers is None else frozenset(brokers)
    for key in layout.keys:
        while len(layout.replicas[key]) > factor:
            layout.remove(key, _least_wanted(layout, key))
        missing = factor - len(layout.replicas[key])
        if missing > 0 and not layout.cannot_be_copied(key):
            for _ in range(missing):
                layout.add(key, layout.choose(key, onto))
    _level(layout, _Edges(onto, onto, fresh_only=True))
    return _finish(cluster, layout, layout.live)


def plan_balance(
    cluster: ClusterState, brokers: Collection[int] | None = None, scope: Scope = EVERYTHING
) -> ReassignmentPlan:
    """Brings replicas and preferred leaders of these live brokers (default: all) within one of each other."""
    if brokers is not None:
        _ensure_live(cluster, brokers, "use")
    layout = _Layout(cluster, scope)
    among = layout.live if brokers is None else frozenset(brokers)
    _repair_racks(layout, among, None)
    _level(layout, _Edges(among, among))
    return _finish(cluster, layout, among, reorder_all=True)


def _ensure_known(cluster: ClusterState, brokers: Collection[int], verb: str) -> None:
    known = {broker.id for broker in cluster.brokers}
    known.update(broker for partition in cluster.partitions for broker in partition.replicas)
    _refuse_missing([broker for broker in brokers if broker not in known], brokers, verb)


def _ensure_live(cluster: ClusterState, brokers: Collection[int], verb: str) -> None:
    live = {broker.id for broker in cluster.brokers}
    _refuse_missing([broker for broker in brokers if broker not in live], brokers, verb)


def _refuse_missing(missing: list[int], brokers: Collection[int], verb: str) -> None:
    if not brokers:
        raise PlanRefused(f"There is no broker to {verb}")
    if missing:
        raise PlanRefused(f"There is no live broker {', '.join(map(str, sorted(missing)))} to {verb}")


# -- where replicas are --


class _Layout:
    """The replicas while a plan is made, with the counts that decide where the next one goes."""

    def __init__(self, cluster: ClusterState, scope: Scope) -> None:
        self.live = frozenset(broker.id for broker in cluster.brokers)
        self._racks = _racks(cluster, scope)
        chosen = [part for part in cluster.partitions if scope.topics is None or part.topic in scope.topics]
        self.partitions = {part.key: part for part in sorted(chosen, key=lambda part: part.key)}
        self.keys = tuple(self.partitions)
        self.replicas = {key: list(part.replicas) for key, part in self.partitions.items()}
        self.left_out: dict[TopicPartition, str] = {}
        self.count = dict.fromkeys(self.live, 0)
        self._all = dict.fromkeys(self.live, 0)
        self._per_topic: dict[tuple[int, str], int] = {}
        # Broker -> topic -> partitions with a replica there: all of them, and those this plan put there.
        self._on: dict[int, dict[str, dict[TopicPartition, None]]] = {}
        self._fresh: dict[int, dict[str, dict[TopicPartition, None]]] = {}
        for part in cluster.partitions:
            for broker in part.replicas:
                self._all[broker] = self._all.get(broker, 0) + 1
        for key, replicas in self.replicas.items():
            for broker in replicas:
                self._note(key, broker)
                self._all[broker] -= 1

    def _note(self, key: TopicPartition, broker: int) -> None:
        self.count[broker] = self.count.get(broker, 0) + 1
        self._all[broker] = self._all.get(broker, 0) + 1
        self._per_topic[broker, key[0]] = self._per_topic.get((broker, key[0]), 0) + 1
        self._on.setdefault(broker, {}).setdefault(key[0], {})[key] = None
        if broker not in self.partitions[key].replicas:
            self._fresh.setdefault(broker, {}).setdefault(key[0], {})[key] = None

    def _forget(self, key: TopicPartition, broker: int) -> None:
        self.count[broker] -= 1
        self._all[broker] -= 1
        self._per_topic[broker, key[0]] -= 1
        del self._on[broker][key[0]][key]
        self._fresh.get(broker, {}).get(key[0], {}).pop(key, None)

    def add(self, key: TopicPartition, broker: int) -> None:
        """One more replica, at the end of the list."""
        self.replicas[key].append(broker)
        self._note(key, broker)

    def remove(self, key: TopicPartition, broker: int) -> None:
        self.replicas[key].remove(broker)
        self._forget(key, broker)

    def replace(self, key: TopicPartition, old: int, new: int) -> None:
        """The new replica takes the place of the old one."""
        self.replicas[key][self.replicas[key].index(old)] = new
        self._forget(key, old)
        self._note(key, new)

    def cannot_be_copied(self, key: TopicPartition) -> bool:
        """Whether no live replica is in sync; then the partition is left out."""
        if any(broker in self.live for broker in self.partitions[key].isr):
            return False
        self.left_out[key] = "no live replica is in sync, so there is nothing to copy from"
        return True

    def in_rack_of(self, key: TopicPartition, broker: int) -> int:
        """How many replicas of the partition are in the broker's rack."""
        rack = self._rack(broker)
        return sum(self._rack(each) == rack for each in self.replicas[key])

    def _rack(self, broker: int) -> str:
        return self._racks.get(broker, f"?{broker}") if self._racks else ""

    def choose(self, key: TopicPartition, brokers: Iterable[int], without: int | None = None) -> int:
        """The broker for one more replica, `without` the one that goes. PlanRefused when all have one already."""
        free = [broker for broker in brokers if broker not in self.replicas[key]]
        if not free:
            factor = len(self.replicas[key]) + (without is None)
            raise PlanRefused(
                f"{key[0]}-{key[1]} needs {factor} replica{'' if factor == 1 else 's'}, but every broker that may get "
                "one has one already"
            )
        in_rack = {
            broker: self.in_rack_of(key, broker) - (without is not None and self._rack(broker) == self._rack(without))
            for broker in free
        }
        return min(free, key=lambda broker: (in_rack[broker], self._load(broker, key[0])))

    def _load(self, broker: int, topic: str) -> tuple[int, int, int, int]:
        return self.count[broker], self._per_topic.get((broker, topic), 0), self._all[broker], broker

    def by_load(self, brokers: Iterable[int]) -> list[int]:
        """The least loaded first."""
        return sorted(brokers, key=lambda broker: (self.count[broker], self._all[broker], broker))

    def spreads_better(self, key: TopicPartition, source: int, target: int) -> bool:
        """Whether the partition's spread over racks gains by a move."""
        return self._rack_change(key, source, target) < 0

    def _rack_change(self, key: TopicPartition, source: int, target: int) -> int:
        """Below zero when a move spreads the partition better over racks, above when worse: the change of the sum of
        squares of its replicas per rack, halved."""
        if self._rack(source) == self._rack(target):
            return 0
        return self.in_rack_of(key, target) - self.in_rack_of(key, source) + 1

    def pick(self, source: int, target: int, *, fresh_only: bool) -> TopicPartition | None:
        """The partition whose replica goes from one broker to another best, None when there is none that may."""
        topics = (self._fresh if fresh_only else self._on).get(source, {})
        surplus = {
            topic: self._per_topic.get((target, topic), 0) - self._per_topic.get((source, topic), 0) for topic in topics
        }
        for topic in sorted(topics, key=lambda topic: (surplus[topic], topic)):
            able = [key for key in topics[topic] if self._may_move(key, source, target)]
            if able:
                return min(able, key=lambda key: self._price(key, source, target))
        return None

    def _may_move(self, key: TopicPartition, source: int, target: int) -> bool:
        return (
            target not in self.replicas[key]
            and self._rack_change(key, source, target) <= 0
            and key not in self.left_out
            and not self.cannot_be_copied(key)
        )

    def _price(self, key: TopicPartition, source: int, target: int) -> tuple[int, int, TopicPartition]:
        """What a move adds to the plan: a replica that moves already moves on for nothing, or back."""
        part = self.partitions[key]
        return (target not in part.replicas) - (source not in part.replicas), part.size_bytes, key


def _racks(cluster: ClusterState, scope: Scope) -> dict[int, str]:
    """Racks by broker; none when they do not count."""
    known = {broker.id: broker.rack for broker in cluster.brokers if broker.rack is not None}
    if not scope.rack_aware or not known:
        return {}
    if len(known) < len(cluster.brokers):
        without = ", ".join(str(broker.id) for broker in cluster.brokers if broker.rack is None)
        raise PlanRefused(f"Not all brokers have a rack (not {without}): plan without racks, or give them one")
    return known


def _least_wanted(layout: _Layout, key: TopicPartition) -> int:
    """The replica to give up: down, out of sync, from a crowded rack, not the leader, from a loaded broker."""
    part = layout.partitions[key]

    def rank(broker: int) -> tuple[object, ...]:
        is_leader = broker == (part.leader if part.leader in layout.replicas[key] else layout.replicas[key][0])
        return (
            broker in layout.live,
            broker in part.isr,
            is_leader,
            -layout.in_rack_of(key, broker),
            -layout.count[broker],
            layout.replicas[key][0] == broker,
            -broker,
        )

    return min(layout.replicas[key], key=rank)


# -- levelling --


class _Edges(NamedTuple):
    """What may move: from a broker of `among` to one of `onto` that has less than its `share`; `fresh_only`: only
    replicas that this plan has placed."""

    among: frozenset[int]
    onto: frozenset[int]
    fresh_only: bool = False
    share: int | None = None

    def wants(self, count: int, source_count: int) -> bool:
        """Whether a broker with so many replicas should take one of a broker with so many."""
        return count <= source_count - 2 and (self.share is None or count < self.share)


def _repair_racks(layout: _Layout, onto: frozenset[int], share: int | None) -> None:
    """Moves replicas to racks that have fewer of their partition, while the target has less than its share."""
    for key in layout.keys:
        while (step := _repair(layout, key, onto, share)) is not None:
            layout.replace(key, *step)


def _repair(layout: _Layout, key: TopicPartition, onto: frozenset[int], share: int | None) -> tuple[int, int] | None:
    targets = [
        broker
        for broker in onto
        if broker not in layout.replicas[key] and (share is None or layout.count[broker] < share)
    ]
    sources = [broker for broker in layout.replicas[key] if broker in layout.live]
    better = [
        (source, target) for source in sources for target in targets if layout.spreads_better(key, source, target)
    ]
    if not better or layout.cannot_be_copied(key):
        return None
    return min(
        better,
        key=lambda step: (
            layout.in_rack_of(key, step[1]) - layout.in_rack_of(key, step[0]),
            layout.count[step[1]] - layout.count[step[0]],
            step[::-1],
        ),
    )


def _level(layout: _Layout, edges: _Edges) -> None:
    """Moves replicas from brokers with more to brokers with less by two or more, over others where racks forbid the
    direct way: augmenting paths, so that what is left could only be levelled by a worse spread over racks."""
    stuck: set[int] = set()
    has_moved = False
    while True:
        path = _path(layout, edges, stuck)
        if path is None:
            if not (stuck and has_moved):
                return
            stuck, has_moved = set(), False  # others have moved since: look once more
        elif _walk(layout, edges, path):
            has_moved = True
        else:
            stuck.add(path[0])


def _path(layout: _Layout, edges: _Edges, stuck: set[int]) -> list[int] | None:
    """The shortest way from the most loaded broker to one with two less; brokers without a way become stuck."""
    least = min(layout.count[broker] for broker in edges.onto) if edges.onto else 0
    for source in reversed(layout.by_load(edges.among)):
        if layout.count[source] < least + 2:
            return None
        if source in stuck:
            continue
        path = _shortest(layout, edges, source)
        if path is not None:
            return path
        stuck.add(source)
    return None


def _shortest(layout: _Layout, edges: _Edges, source: int) -> list[int] | None:
    came_from: dict[int, int] = {}
    queue = deque([source])
    while queue:
        broker = queue.popleft()
        for target in layout.by_load(edges.onto):
            if target == source or target in came_from:
                continue
            if layout.pick(broker, target, fresh_only=edges.fresh_only) is None:
                continue
            came_from[target] = broker
            if edges.wants(layout.count[target], layout.count[source]):
                return _trace(came_from, source, target)
            queue.append(target)
    return None


def _trace(came_from: Mapping[int, int], source: int, target: int) -> list[int]:
    path = [target]
    while path[-1] != source:
        path.append(came_from[path[-1]])
    return path[::-1]


def _walk(layout: _Layout, edges: _Edges, path: Sequence[int]) -> bool:
    """Moves one replica along every step, the last one first; False when a step was spoilt by one behind it."""
    for source, target in reversed(list(zip(path, path[1:], strict=False))):
        key = layout.pick(source, target, fresh_only=edges.fresh_only)
        if key is None:
            return False
        layout.replace(key, source, target)
    return True


def _level_leaders(layout: _Layout, keys: Iterable[TopicPartition], among: frozenset[int]) -> None:
    """Puts other replicas first, in the lists of `keys`, until preferred leaders are within one where they can be."""
    leads: dict[int, dict[TopicPartition, None]] = {}
    count = dict.fromkeys(among, 0)
    for key in layout.keys:
        first = layout.replicas[key][0]
        count[first] = count.get(first, 0) + 1
    for key in keys:
        leads.setdefault(layout.replicas[key][0], {})[key] = None
    pending = deque(sorted(among, key=lambda broker: (-count[broker], broker)))
    while pending:
        source = pending.popleft()
        path = _leader_path(layout, leads, count, among, source)
        if path is None:
            continue
        for key, target in reversed(path):
            first = layout.replicas[key][0]
            layout.replicas[key].remove(target)
            layout.replicas[key].insert(0, target)
            del leads[first][key]
            leads.setdefault(target, {})[key] = None
        count[source] -= 1
        count[path[-1][1]] += 1
        pending = deque(sorted(among, key=lambda broker: (-count[broker], broker)))


def _leader_path(
    layout: _Layout,
    leads: Mapping[int, Mapping[TopicPartition, None]],
    count: Mapping[int, int],
    among: frozenset[int],
    source: int,
) -> list[tuple[TopicPartition, int]] | None:
    """The shortest chain of lists to reorder that takes one leadership from `source` to a broker with two less."""
    came_from: dict[int, tuple[TopicPartition, int]] = {}
    queue = deque([source])
    while queue:
        broker = queue.popleft()
        reachable: dict[int, TopicPartition] = {}
        for key in leads.get(broker, {}):
            for target in layout.replicas[key][1:]:
                if target in among and target != source and target not in came_from:
                    reachable.setdefault(target, key)
        for target in sorted(reachable, key=lambda target: (count[target], target)):
            came_from[target] = (reachable[target], broker)
            if count[target] <= count[source] - 2:
                return _leader_steps(came_from, source, target)
            queue.append(target)
    return None


def _leader_steps(
    came_from: Mapping[int, tuple[TopicPartition, int]], source: int, target: int
) -> list[tuple[TopicPartition, int]]:
    steps = []
    while target != source:
        key, before = came_from[target]
        steps.append((key, target))
        target = before
    return steps[::-1]


# -- the result --


def _finish(
    cluster: ClusterState, layout: _Layout, leaders: frozenset[int], *, reorder_all: bool = False
) -> ReassignmentPlan:
    """Levels preferred leaders among `leaders` and says what changes."""
    changed = [key for key in layout.keys if tuple(layout.replicas[key]) != layout.partitions[key].replicas]
    movable = layout.keys if reorder_all else changed
    _level_leaders(layout, [key for key in movable if key not in layout.left_out], leaders)
    moves = []
    for key in layout.keys:
        part, after = layout.partitions[key], tuple(layout.replicas[key])
        if after != part.replicas:
            moves.append(Move(part.topic, part.partition, part.replicas, after, part.leader, part.size_bytes))
    return ReassignmentPlan(tuple(moves), broker_loads(cluster, moves), dict(sorted(layout.left_out.items())))


def broker_loads(cluster: ClusterState, moves: Iterable[Move]) -> tuple[BrokerLoad, ...]:
    """Every broker, live ones and those that replicas are on, before and after these moves."""
    after = {(move.topic, move.partition): move.after for move in moves}
    racks = {broker.id: broker.rack for broker in cluster.brokers}
    sums: dict[int, list[int]] = {broker: [0] * 8 for broker in racks}
    for part in cluster.partitions:
        target = after.get(part.key, part.replicas)
        for column, replicas in enumerate((part.replicas, target)):
            for position, broker in enumerate(replicas):
                row = sums.setdefault(broker, [0] * 8)
                row[column] += 1
                row[2 + column] += position == 0
                row[4 + column] += part.size_bytes
        added = [broker for broker in target if broker not in part.replicas]
        for broker in added:
            sums[broker][6] += part.size_bytes
        if added and part.leader >= 0:
            sums.setdefault(part.leader, [0] * 8)[7] += part.size_bytes * len(added)
    return tuple(
        BrokerLoad(broker, racks.get(broker), (row[0], row[1]), (row[2], row[3]), (row[4], row[5]), row[6], row[7])
        for broker, row in sorted(sums.items())
    )
