"""Compute reassignment plans: drain or add brokers, change the replication factor, or balance. The same cluster state
always gives the same plan; nothing is read or sent.

Rules:
- A replica moves only where the goal needs it. drain: off the drained brokers. add: onto the new brokers. A new
  replication factor adds or removes replicas and moves none. balance: the fewest moves that bring brokers within one
  replica of each other. Of equal choices a replica of the topic moves that the source has most of compared to the
  target, and of that topic's replicas the smallest.
- Racks come first (KIP-36): a new replica goes to the rack with the fewest replicas of its partition, and no levelling
  move makes a partition's spread over racks worse. With racks of unequal size, brokers can therefore stay unequal.
  Balance also moves replicas to repair the spread, and add does so within a new broker's share.
- Then load counts: the replicas of the chosen topics per broker, then those of the topic, then those of all topics.
- A new replica takes the list position of the old one, so a preferred leader (the first position) moves with its
  replica. Then reordered lists bring preferred leaders within one of each other where possible. Balance may reorder all
  chosen partitions, the other plans only those that change anyway. Reordering moves no data.
- Only live brokers get replicas. A replica on a broker that is down counts, and stays unless that broker is drained. A
  lower replication factor removes replicas that are down first, then those out of sync, the leader last. A partition
  without a live in-sync replica cannot be copied, so it is left out and named.
- Other partitions never get fewer replicas than requested: too few brokers is `PlanRefused`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.tools.reassignment.balance.leaders import Leaders
from kafkatools.tools.reassignment.layout import (
    EVERYTHING,
    ClusterState,
    Layout,
    PlanRefused,
    Scope,
    TopicPartition,
)


class Move(NamedTuple):
    """A change of a partition's replica list. `leader` is -1 without one. `size_bytes` is what each added replica has
    to copy."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader: int
    size_bytes: int

    @property
    def added(self) -> tuple[int, ...]:
        """The brokers that get a new replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        """The brokers that lose their replica."""
        return tuple(broker for broker in self.before if broker not in self.after)


class BrokerLoad(NamedTuple):
    """Replicas, preferred leaders and bytes of a broker over all topics, each as a pair: before and after a plan.
    `bytes_in` is what its new replicas copy, `bytes_out` what it sends as a leader."""

    broker: int
    rack: str | None
    replicas: tuple[int, int]
    leaders: tuple[int, int]
    size_bytes: tuple[int, int]
    bytes_in: int
    bytes_out: int


class ReassignmentPlan(NamedTuple):
    """The moves in order of topic and partition, the broker loads, and partitions left out with the reason."""

    moves: tuple[Move, ...]
    brokers: tuple[BrokerLoad, ...]
    left_out: Mapping[TopicPartition, str]

    @property
    def bytes_to_move(self) -> int:
        """The bytes that all added replicas copy."""
        return sum(move.size_bytes * len(move.added) for move in self.moves)

    @property
    def replicas_to_move(self) -> int:
        """The number of added replicas."""
        return sum(len(move.added) for move in self.moves)


# -- the four plans --


def plan_drain(cluster: ClusterState, brokers: Collection[int], scope: Scope = EVERYTHING) -> ReassignmentPlan:
    """A plan that moves all replicas off these brokers, live or not, except those that cannot be copied. Raises
    PlanRefused for an unknown broker, no brokers, or too few other live brokers, and if only some brokers have a
    rack."""
    layout = Layout(cluster, scope)
    _ensure_among(layout.live.union(*(part.replicas for part in cluster.partitions)), brokers, "drain")
    other_brokers = layout.live - set(brokers)
    for key in layout.keys:
        drained_brokers = [broker for broker in layout.replicas[key] if broker in brokers]
        if not drained_brokers or layout.cannot_be_copied(key):
            continue
        for broker in drained_brokers:
            layout.replace(key, broker, layout.choose(key, other_brokers, without=broker))
    _level(layout, _Edges(other_brokers, other_brokers, placed_only=True))
    return _finish(cluster, layout, other_brokers)


def plan_add(cluster: ClusterState, brokers: Collection[int], scope: Scope = EVERYTHING) -> ReassignmentPlan:
    """A plan that gives these live brokers their share of the replicas. Nothing moves between the other brokers. Raises
    PlanRefused without brokers, if one is not live, or if only some brokers have a rack."""
    _ensure_live(cluster, brokers, "add")
    layout = Layout(cluster, scope)
    new = frozenset(brokers)
    share = -(-sum(layout.count[broker] for broker in layout.live) // len(layout.live))
    _repair_racks(layout, new, share)
    _level(layout, _Edges(layout.live, new, share=share))
    return _finish(cluster, layout, layout.live)


def plan_replication_factor(
    cluster: ClusterState, factor: int, brokers: Collection[int] | None = None, scope: Scope = EVERYTHING
) -> ReassignmentPlan:
    """A plan that gives every chosen partition `factor` replicas. New ones go to `brokers` (default: all live ones).
    Partitions that need more replicas but have no live in-sync one are left out.

    Raises PlanRefused for a factor below 1, too few brokers, a broker that is not live, or if only some brokers have a
    rack.
    """
    if factor < 1:
        raise PlanRefused(f"The replication factor must be at least 1, not {factor}")
    if brokers is not None:
        _ensure_live(cluster, brokers, "use")
    layout = Layout(cluster, scope)
    onto = layout.live if brokers is None else frozenset(brokers)
    for key in layout.keys:
        while len(layout.replicas[key]) > factor:
            layout.remove(key, _replica_to_remove(layout, key))
        missing = factor - len(layout.replicas[key])
        if missing > 0 and not layout.cannot_be_copied(key):
            for _ in range(missing):
                layout.add(key, layout.choose(key, onto))
    _level(layout, _Edges(onto, onto, placed_only=True))
    return _finish(cluster, layout, layout.live)


def plan_balance(
    cluster: ClusterState, brokers: Collection[int] | None = None, scope: Scope = EVERYTHING
) -> ReassignmentPlan:
    """A plan that levels replicas and preferred leaders of these live brokers (default: all) to within one, as far as
    racks allow. Raises PlanRefused if a broker is not live, `brokers` is empty, or only some brokers have a rack."""
    if brokers is not None:
        _ensure_live(cluster, brokers, "use")
    layout = Layout(cluster, scope)
    among = layout.live if brokers is None else frozenset(brokers)
    _repair_racks(layout, among, None)
    _level(layout, _Edges(among, among))
    return _finish(cluster, layout, among, reorder_all=True)


def _ensure_live(cluster: ClusterState, brokers: Collection[int], verb: str) -> None:
    _ensure_among({broker.id for broker in cluster.brokers}, brokers, verb)


def _ensure_among(allowed: Collection[int], brokers: Collection[int], verb: str) -> None:
    if not brokers:
        raise PlanRefused(f"Name at least one broker to {verb}")
    missing = sorted(set(brokers) - set(allowed))
    if missing:
        raise PlanRefused(f"Cannot {verb} broker {', '.join(map(str, missing))}: not a live broker")


def _replica_to_remove(layout: Layout, key: TopicPartition) -> int:
    """The broker that loses its replica. In order: down, out of sync, not the leader, in the rack with most replicas,
    most loaded, not preferred leader, highest id."""
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
    """The allowed moves: from brokers of `among` to brokers of `onto` with less than `share` replicas. With
    `placed_only` only replicas that this plan has placed move."""

    among: frozenset[int]
    onto: frozenset[int]
    placed_only: bool = False
    share: int | None = None

    def may_take(self, count: int, source_count: int) -> bool:
        """Return whether a broker with `count` replicas should take one of a broker with `source_count`."""
        return count <= source_count - 2 and (self.share is None or count < self.share)


def _repair_racks(layout: Layout, onto: frozenset[int], share: int | None) -> None:
    """Move replicas to racks with fewer replicas of their partition, onto brokers with less than `share` replicas
    (None: no limit)."""
    racks = {layout.rack(broker) for broker in onto}
    for key in layout.keys:
        while layout.is_uneven(key, racks) and (step := _repair(layout, key, onto, share)) is not None:
            layout.replace(key, *step)


def _repair(layout: Layout, key: TopicPartition, onto: frozenset[int], share: int | None) -> tuple[int, int] | None:
    """The move that improves the partition's spread most; None if no move does."""
    replicas = layout.replicas[key]
    targets: dict[str, list[int]] = {}
    for broker in onto:
        if broker not in replicas and (share is None or layout.count[broker] < share):
            targets.setdefault(layout.rack(broker), []).append(broker)
    sources = [broker for broker in replicas if broker in layout.live]
    used = [layout.rack(broker) for broker in replicas]
    changes = {
        (source, rack): used.count(rack) - used.count(layout.rack(source)) for source in sources for rack in targets
    }
    best = min(changes.values(), default=0)
    if best >= -1 or layout.cannot_be_copied(key):  # -1: both racks only exchange their numbers
        return None
    steps = [
        (source, target) for (source, rack), change in changes.items() if change == best for target in targets[rack]
    ]
    return min(steps, key=lambda step: (layout.count[step[1]] - layout.count[step[0]], step[::-1]))


def _level(layout: Layout, edges: _Edges) -> None:
    """Move replicas from brokers with more to brokers with at least two less, as far as racks and `edges` allow. Where
    the direct move is not allowed, replicas move along the shortest path over other brokers."""
    stuck: set[int] = set()
    has_moved = False
    while True:
        path = _path(layout, edges, stuck)
        if path is None:
            if not (stuck and has_moved):
                return
            stuck, has_moved = set(), False  # other replicas have moved since: try again
        elif _walk(layout, edges, path):
            has_moved = True
        else:
            stuck.add(path[0])


def _path(layout: Layout, edges: _Edges, stuck: set[int]) -> list[int] | None:
    """The shortest path from the most loaded broker that has one, to a broker with at least two less; None without any.
    Brokers without a path are added to `stuck`, with all that they reach: a broker on the way has no more replicas than
    the source, so a target for it would have been one for the source."""
    least = min(layout.count[broker] for broker in edges.onto) if edges.onto else 0
    for source in reversed(layout.by_load(edges.among)):
        if layout.count[source] < least + 2:
            return None
        if source in stuck:
            continue
        came_from: dict[int, int] = {}
        path = _shortest(layout, edges, source, came_from)
        if path is not None:
            return path
        stuck |= {source, *(broker for broker in came_from if layout.count[broker] <= layout.count[source])}
    return None


def _shortest(layout: Layout, edges: _Edges, source: int, came_from: dict[int, int]) -> list[int] | None:
    """The shortest path from a broker to one with at least two less. `came_from` gets each broker on the way, with the
    one before it."""
    queue = deque([source])
    while queue:
        broker = queue.popleft()
        for target in layout.by_load(edges.onto):
            if target == source or target in came_from:
                continue
            if not layout.can_pick(broker, target, placed_only=edges.placed_only):
                continue
            came_from[target] = broker
            if edges.may_take(layout.count[target], layout.count[source]):
                return _trace(came_from, source, target)
            queue.append(target)
    return None


def _trace(came_from: Mapping[int, int], source: int, target: int) -> list[int]:
    path = [target]
    while path[-1] != source:
        path.append(came_from[path[-1]])
    return path[::-1]


def _walk(layout: Layout, edges: _Edges, path: Sequence[int]) -> bool:
    """For each step of a path of brokers, last step first, move a replica of any partition from the step's first broker
    to its second. Returns False at a step that has become impossible; the moves before it stay."""
    for source, target in reversed(list(zip(path, path[1:], strict=False))):
        key = layout.pick(source, target, placed_only=edges.placed_only)
        if key is None:
            return False
        layout.replace(key, source, target)
    return True


def _level_leaders(layout: Layout, keys: Collection[TopicPartition], among: frozenset[int]) -> None:
    """Reorder the replica lists of `keys` until preferred leaders are within one of each other, as far as possible."""
    brokers = sorted(among.union(*layout.replicas.values()))
    number = {broker: at for at, broker in enumerate(brokers)}
    replicas = [[number[broker] for broker in layout.replicas[key]] for key in layout.keys]
    movable = [at for at, key in enumerate(layout.keys) if key in keys]
    leaders = Leaders(replicas, movable, [number[broker] for broker in sorted(among)], len(brokers))
    leaders.level_counts()
    for at in leaders.changed:
        layout.replicas[layout.keys[at]] = [brokers[broker] for broker in replicas[at]]


# -- the result --


def _finish(
    cluster: ClusterState, layout: Layout, leaders: frozenset[int], *, reorder_all: bool = False
) -> ReassignmentPlan:
    """Level preferred leaders among `leaders` and return the plan."""
    changed = [key for key in layout.keys if tuple(layout.replicas[key]) != layout.partitions[key].replicas]
    movable = layout.keys if reorder_all else changed
    _level_leaders(layout, {key for key in movable if key not in layout.left_out}, leaders)
    moves = []
    for key in layout.keys:
        part, after = layout.partitions[key], tuple(layout.replicas[key])
        if after != part.replicas:
            moves.append(Move(part.topic, part.partition, part.replicas, after, part.leader, part.size_bytes))
    return ReassignmentPlan(tuple(moves), broker_loads(cluster, moves), dict(sorted(layout.left_out.items())))


def broker_loads(cluster: ClusterState, moves: Iterable[Move]) -> tuple[BrokerLoad, ...]:
    """The load before and after these moves of every broker that is live or has replicas."""
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
