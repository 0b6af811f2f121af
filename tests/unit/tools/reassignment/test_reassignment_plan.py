"""The planner of reassignments: exact plans of small clusters, and properties of any."""

from __future__ import annotations

import cProfile
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.tools.reassignment.layout import Broker, ClusterState, Partition, PlanRefused, Scope
from kafkatools.tools.reassignment.plan import (
    ReassignmentPlan,
    broker_loads,
    plan_add,
    plan_balance,
    plan_drain,
    plan_replication_factor,
)


def cluster(
    brokers: dict[int, str | None] | list[int], replicas: dict[str, list[list[int]]], size: int = 100
) -> ClusterState:
    """Brokers (with racks) and the replicas of topics; all live replicas are in sync, the first of them leads."""
    racks = brokers if isinstance(brokers, dict) else dict.fromkeys(brokers)
    partitions = []
    for topic, lists in replicas.items():
        for number, assigned in enumerate(lists):
            isr = tuple(broker for broker in assigned if broker in racks)
            leader = isr[0] if isr else -1
            partitions.append(Partition(topic, number, tuple(assigned), isr, leader, size))
    return ClusterState(tuple(Broker(broker, rack) for broker, rack in racks.items()), tuple(partitions))


def after(state: ClusterState, plan: ReassignmentPlan) -> dict[tuple[str, int], tuple[int, ...]]:
    changed = {(move.topic, move.partition): move.after for move in plan.moves}
    return {part.key: changed.get(part.key, part.replicas) for part in state.partitions}


def spread(counts: Counter[int], brokers: set[int]) -> int:
    return max(counts[broker] for broker in brokers) - min(counts[broker] for broker in brokers)


def replicas_of(lists: dict[tuple[str, int], tuple[int, ...]]) -> Counter[int]:
    return Counter(broker for replicas in lists.values() for broker in replicas)


# -- small clusters --


def test_drain_replaces_in_place_and_leaves_the_others_alone() -> None:
    state = cluster([1, 2, 3, 4], {"t": [[1, 2], [2, 3], [3, 4], [4, 1]]})
    plan = plan_drain(state, [4])
    # 3 and 1 have two replicas each already; 2 has two as well: the two to be placed go where the partition is not.
    assert {(move.partition, move.before) for move in plan.moves} == {(2, (3, 4)), (3, (4, 1))}
    assert all(len(move.added) == 1 and move.removed == (4,) for move in plan.moves)
    assert sorted(replicas_of(after(state, plan)).values()) == [2, 3, 3]
    assert plan.bytes_to_move == 200


def test_drain_without_enough_brokers_is_refused() -> None:
    state = cluster([1, 2], {"orders": [[1, 2]]})
    with pytest.raises(
        PlanRefused, match="orders-0 needs 2 replicas, but every broker that may get one has one already"
    ):
        plan_drain(state, [2])


def test_drain_of_a_broker_that_is_down_copies_from_the_others() -> None:
    state = cluster([1, 2], {"t": [[1, 3], [3]]})
    plan = plan_drain(state, [3])
    assert [(move.partition, set(move.after)) for move in plan.moves] == [(0, {1, 2})]
    assert list(plan.left_out) == [("t", 1)]
    assert "nothing to copy from" in plan.left_out["t", 1]


def test_unknown_broker_is_refused() -> None:
    state = cluster([1, 2], {"t": [[1]]})
    with pytest.raises(PlanRefused, match="Cannot drain broker 7: not a live broker"):
        plan_drain(state, [7])
    with pytest.raises(PlanRefused, match="Cannot add broker 7: not a live broker"):
        plan_add(state, [2, 7])
    with pytest.raises(PlanRefused, match="at least one broker to drain"):
        plan_drain(state, [])


def test_drained_replica_goes_to_the_rack_that_has_none() -> None:
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "c"}
    plan = plan_drain(cluster(racks, {"t": [[1, 2, 3]]}), [3])
    assert [set(move.after) for move in plan.moves] == [{1, 2, 5}]


def test_racks_are_not_looked_at_when_they_do_not_count() -> None:
    racks = {1: "a", 2: "b", 3: "a"}
    state = cluster(racks, {"t": [[1, 2], [2, 3], [2, 3]]})
    plan = plan_drain(state, [2], Scope(rack_aware=False))
    assert replicas_of(after(state, plan)) == {1: 3, 3: 3}


def test_some_brokers_without_rack_are_refused() -> None:
    state = cluster({1: "a", 2: None, 3: "a"}, {"t": [[1]]})
    with pytest.raises(PlanRefused, match=r"Not all brokers have a rack \(not 2\)"):
        plan_balance(state)
    assert plan_balance(state, scope=Scope(rack_aware=False)).moves == ()


def test_new_broker_gets_its_share_and_leads_its_share() -> None:
    state = cluster([1, 2, 3], {"t": [[1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1]]})
    plan = plan_add(state, [3])
    assert replicas_of(after(state, plan)) == {1: 4, 2: 4, 3: 4}
    assert all(move.added == (3,) for move in plan.moves)
    assert Counter(replicas[0] for replicas in after(state, plan).values()) == {1: 2, 2: 2, 3: 2}


def test_new_broker_of_a_new_rack_takes_what_stands_twice_in_a_rack() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    state = cluster(racks, {"t": [[1, 2], [1, 3], [2, 3], [3, 2]]})
    first = next(move for move in plan_add(state, [4]).moves if move.partition == 0)
    assert 4 in first.after


def test_new_broker_takes_from_every_topic() -> None:
    state = cluster([1, 2], {"a": [[1]] * 4, "b": [[1]] * 2})
    assert Counter(move.topic for move in plan_add(state, [2]).moves) == {"a": 2, "b": 1}


def test_raised_factor_keeps_what_is_there() -> None:
    state = cluster([1, 2, 3], {"t": [[1], [2], [3]]})
    plan = plan_replication_factor(state, 3)
    assert [set(move.after) for move in plan.moves] == [{1, 2, 3}] * 3
    assert [move.after[0] for move in plan.moves] == [1, 2, 3]
    assert plan.replicas_to_move == 6


def test_raised_factor_without_enough_brokers_is_refused() -> None:
    with pytest.raises(PlanRefused, match="t-0 needs 3 replicas"):
        plan_replication_factor(cluster([1, 2], {"t": [[1, 2]]}), 3)
    with pytest.raises(PlanRefused, match="must be at least 1, not 0"):
        plan_replication_factor(cluster([1, 2], {"t": [[1, 2]]}), 0)


def test_lowered_factor_gives_up_what_is_down_then_what_is_out_of_sync_and_keeps_the_leader() -> None:
    down = Partition("t", 0, (3, 1, 2), (1, 2), 1, 10)
    behind = Partition("t", 1, (1, 2, 3), (1, 3), 1, 10)
    leader = Partition("t", 2, (1, 2), (1, 2), 2, 10)
    brokers = (Broker(1), Broker(2), Broker(3))
    one = plan_replication_factor(ClusterState(brokers[:2], (down,)), 2)
    assert [set(move.after) for move in one.moves] == [{1, 2}]
    two = plan_replication_factor(ClusterState(brokers, (behind,)), 2)
    assert [set(move.after) for move in two.moves] == [{1, 3}]
    three = plan_replication_factor(ClusterState(brokers, (leader,)), 1)
    assert [move.after for move in three.moves] == [(2,)]
    assert three.bytes_to_move == 0


def test_lowered_factor_keeps_racks_apart() -> None:
    plan = plan_replication_factor(cluster({1: "a", 2: "a", 3: "b"}, {"t": [[1, 2, 3], [3, 1, 2]]}), 2)
    assert all(3 in move.after for move in plan.moves)


def test_balance_of_leaders_alone_moves_no_bytes() -> None:
    state = cluster([1, 2, 3], {"t": [[1, 2, 3]] * 3})
    plan = plan_balance(state)
    assert plan.bytes_to_move == 0
    assert Counter(replicas[0] for replicas in after(state, plan).values()) == {1: 1, 2: 1, 3: 1}


def test_balance_of_a_balanced_cluster_is_empty() -> None:
    assert plan_balance(cluster([1, 2, 3], {"t": [[1, 2], [2, 3], [3, 1]]})).moves == ()


def test_balance_moves_the_smallest_of_those_that_serve() -> None:
    parts = tuple(Partition("t", number, (1,), (1,), 1, size) for number, size in enumerate((500, 20, 300)))
    plan = plan_balance(ClusterState((Broker(1), Broker(2)), parts))
    assert [(move.partition, move.after) for move in plan.moves] == [(1, (2,))]


def test_only_chosen_topics_change_and_count() -> None:
    state = cluster([1, 2], {"a": [[1], [1]], "b": [[1], [1]]})
    plan = plan_balance(state, scope=Scope(frozenset({"a"})))
    assert [(move.topic, move.after) for move in plan.moves] == [("a", (2,))]


def test_loads_count_replicas_leaders_and_bytes_to_send_and_receive() -> None:
    state = cluster([1, 2, 3], {"t": [[1, 2]]}, size=7)
    plan = plan_drain(state, [1])
    loads = {load.broker: load for load in plan.brokers}
    assert loads[1][2:] == ((1, 0), (1, 0), (7, 0), 0, 7)
    assert loads[3][2:] == ((0, 1), (0, 1), (0, 7), 7, 0)
    assert loads[2][2:] == ((1, 1), (0, 0), (7, 7), 0, 0)


@pytest.mark.slow
def test_many_brokers_in_racks_of_unequal_size_are_levelled_within_each_rack() -> None:
    # Three replicas in three racks: no replica can leave its rack, so brokers of the small racks keep more, and no path
    # leads from them to the others. 100 brokers and 10,000 partitions did not end when each such search was repeated.
    racks: dict[int, str | None] = {broker: "abc"[broker % 3] for broker in range(40)}
    in_rack = [[broker for broker in racks if broker % 3 == rack] for rack in range(3)]
    lists = [[in_rack[rack][(number * (rack + 1)) % 7] for rack in range(3)] for number in range(1500)]
    state = cluster(racks, {f"t{number}": lists[number * 30 : number * 30 + 30] for number in range(50)})
    counts = replicas_of(after(state, plan_balance(state)))
    for brokers in in_rack:
        assert {counts[broker] for broker in brokers} <= {1500 // len(brokers), -(-1500 // len(brokers))}


@pytest.mark.slow
def test_a_move_is_found_without_a_look_at_every_replica_of_its_broker() -> None:
    racks: dict[int, str | None] = {broker: "abc"[broker % 3] for broker in range(15)}
    lists = {
        f"t{topic}": [[(topic * 7 + number + replica * 4) % 12 for replica in range(3)] for number in range(100)]
        for topic in range(20)
    }
    state = cluster(racks, lists)
    profile = cProfile.Profile()
    plan = profile.runcall(plan_balance, state)
    counts = replicas_of(after(state, plan))
    for rack in "abc":
        assert spread(counts, {broker for broker in racks if racks[broker] == rack}) <= 1
    assert plan.replicas_to_move == 3 * 400
    # looks at about 500 replicas of a broker for each rack and move took five times as many
    assert sum(entry.callcount for entry in profile.getstats()) < 1000 * plan.replicas_to_move


def test_partitions_without_a_live_copy_are_named_only_where_they_hold_up_the_plan() -> None:
    copied = Partition("t", 0, (1,), (1,), 1, 100)
    lost = [Partition("t", number, (1,), (), -1, 100) for number in (1, 2, 3)]
    brokers = (Broker(1), Broker(2))
    plan = plan_balance(ClusterState(brokers, (copied, *lost)))
    assert [(move.partition, move.after) for move in plan.moves] == [(0, (2,))]
    assert [partition for _, partition in plan.left_out] == [1, 2, 3]
    even = plan_balance(ClusterState(brokers, (copied, lost[0]._replace(replicas=(2,)))))
    assert (even.moves, even.left_out) == ((), {})


# -- properties --

RACKS = st.sampled_from(("a", "b", "c"))


@st.composite
def clusters(draw: st.DrawFn, racks: bool = True, live_only: bool = True) -> ClusterState:
    """Up to 6 brokers and 16 partitions; a replication factor for each topic."""
    number = draw(st.integers(2, 6))
    with_racks = racks and draw(st.booleans())
    brokers = {broker: draw(RACKS) if with_racks else None for broker in range(1, number + 1)}
    spare = 0 if live_only else draw(st.integers(0, 1))
    lists: dict[str, list[list[int]]] = {}
    for topic in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        factor = draw(st.integers(1, number))
        all_brokers = range(1, number + 1 + spare)
        one = st.permutations(all_brokers).map(lambda order, factor=factor: order[:factor])
        lists[topic] = draw(st.lists(one, min_size=1, max_size=8))
    return cluster(brokers, lists)


def rack_cost(state: ClusterState, replicas: tuple[int, ...]) -> int:
    """The sum of squares of replicas per rack: the lower, the better the partition is spread."""
    racks = {broker.id: broker.rack for broker in state.brokers}
    return sum(count * count for count in Counter(racks.get(each, f"?{each}") for each in replicas).values())


def sound(state: ClusterState, plan: ReassignmentPlan) -> None:
    """What holds for every plan: no replica twice, only live brokers added, as many live replicas as before."""
    live = {broker.id for broker in state.brokers}
    for move in plan.moves:
        assert len(set(move.after)) == len(move.after)
        assert set(move.added) <= live
        assert move.before != move.after
    assert plan.brokers == broker_loads(state, plan.moves)
    assert sum(load.bytes_in for load in plan.brokers) == plan.bytes_to_move


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(clusters(live_only=False), st.data())
def test_drain_moves_what_is_on_the_drained_brokers_and_nothing_else(state: ClusterState, data: st.DataObject) -> None:
    live = {broker.id for broker in state.brokers}
    known = sorted(live | {broker for part in state.partitions for broker in part.replicas})
    drained = set(data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=2)))
    others = live - drained
    widest = max(len(part.replicas) - len(set(part.replicas) - live - drained) for part in state.partitions)
    try:
        plan = plan_drain(state, drained)
    except PlanRefused:
        assert widest > len(others)
        return
    sound(state, plan)
    assert plan == plan_drain(state, drained)
    for part in state.partitions:
        target = after(state, plan)[part.key]
        if part.key in plan.left_out:
            assert target == part.replicas and not part.isr
            continue
        assert len(target) == len(part.replicas)
        assert not drained & set(target)
        assert set(part.replicas) - drained <= set(target)
        if not drained & set(part.replicas):
            assert target == part.replicas
    ensure_no_better_place(state, plan, others)


def ensure_no_better_place(state: ClusterState, plan: ReassignmentPlan, onto: set[int]) -> None:
    """No replica that the plan places could stand better: by racks, or as well by racks on a broker with two less."""
    lists = after(state, plan)
    counts = replicas_of(lists)
    for move in plan.moves:
        for source in move.added:
            for target in onto - set(move.after):
                swapped = tuple(target if each == source else each for each in move.after)
                change = rack_cost(state, swapped) - rack_cost(state, move.after)
                assert change >= 0 or any(rack is None for _, rack in state.brokers)
                assert not (change <= 0 and counts[target] <= counts[source] - 2)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(clusters(), st.data())
def test_add_moves_onto_the_new_brokers_only_and_gives_them_their_share(
    state: ClusterState, data: st.DataObject
) -> None:
    live = {broker.id for broker in state.brokers}
    new = set(data.draw(st.lists(st.sampled_from(sorted(live)), min_size=1, max_size=2)))
    plan = plan_add(state, new)
    sound(state, plan)
    lists = after(state, plan)
    counts, before = replicas_of(lists), replicas_of({part.key: part.replicas for part in state.partitions})
    for part in state.partitions:
        assert len(lists[part.key]) == len(part.replicas)
        assert set(lists[part.key]) - set(part.replicas) <= new
        assert rack_cost(state, lists[part.key]) <= rack_cost(state, part.replicas)
    share = math.ceil(counts.total() / len(live))
    for broker in new:
        assert counts[broker] <= max(share, before[broker])
    if all(broker.rack is None for broker in state.brokers):
        least = min(counts[broker] for broker in new)
        assert least >= share or max(counts[broker] for broker in live) - least <= 1


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(clusters(live_only=False), st.integers(1, 6))
def test_replication_factor_is_reached_with_as_few_changes_as_it_takes(state: ClusterState, factor: int) -> None:
    live = {broker.id for broker in state.brokers}
    try:
        plan = plan_replication_factor(state, factor)
    except PlanRefused:
        assert factor > len(live)
        return
    sound(state, plan)
    lists = after(state, plan)
    for part in state.partitions:
        target = lists[part.key]
        if part.key in plan.left_out:
            assert target == part.replicas and not part.isr
            continue
        assert len(target) == factor
        assert set(target) >= set(part.replicas) or set(target) <= set(part.replicas)
        assert len(set(target) & live) >= min(factor, len(set(part.replicas) & live))
        if len(part.replicas) == factor:
            assert target == part.replicas


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(clusters(racks=False))
def test_balance_brings_replicas_and_leaders_within_one_by_the_fewest_moves(state: ClusterState) -> None:
    live = {broker.id for broker in state.brokers}
    plan = plan_balance(state)
    sound(state, plan)
    assert plan == plan_balance(state)
    lists = after(state, plan)
    before, counts = replicas_of({part.key: part.replicas for part in state.partitions}), replicas_of(lists)
    assert all(len(lists[part.key]) == len(part.replicas) for part in state.partitions)
    assert spread(counts, live) <= 1
    low, high = counts.total() // len(live), math.ceil(counts.total() / len(live))
    above = sum(max(0, before[broker] - high) for broker in live)
    below = sum(max(0, low - before[broker]) for broker in live)
    assert plan.replicas_to_move == max(above, below)
    assert not plan_balance(ClusterState(state.brokers, tuple(moved(state, plan)))).moves


def moved(state: ClusterState, plan: ReassignmentPlan) -> list[Partition]:
    """The partitions when the plan has been carried out."""
    lists = after(state, plan)
    return [part._replace(replicas=lists[part.key], isr=lists[part.key], leader=lists[part.key][0])
            for part in state.partitions]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(clusters())
def test_leaders_could_not_be_balanced_better_by_reordering(state: ClusterState) -> None:
    lists = after(state, plan_balance(state))
    counts = Counter(replicas[0] for replicas in lists.values())
    for replicas in lists.values():
        assert all(counts[replicas[0]] <= counts[other] + 1 for other in replicas[1:])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(clusters())
def test_balance_spreads_every_partition_over_racks_as_well_as_possible(state: ClusterState) -> None:
    plan = plan_balance(state)
    sound(state, plan)
    lists = after(state, plan)
    counts = replicas_of(lists)
    for part in state.partitions:
        replicas = lists[part.key]
        assert rack_cost(state, replicas) <= rack_cost(state, part.replicas)
        for source in replicas:
            for target in {broker.id for broker in state.brokers} - set(replicas):
                swapped = tuple(target if each == source else each for each in replicas)
                change = rack_cost(state, swapped) - rack_cost(state, replicas)
                assert change >= 0 or any(rack is None for _, rack in state.brokers)
                assert not (change <= 0 and counts[target] <= counts[source] - 2)
