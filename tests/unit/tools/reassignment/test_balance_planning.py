"""Plans that balance brokers by bytes, rate or leaders: exact plans of small clusters, and properties of any."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.admin.reassignments import Replica
from kafkatools.tools.reassignment.balance.model import (
    BalanceInput,
    BalanceOptions,
    BalancePlan,
    Disk,
    Spread,
    spread_of,
)
from kafkatools.tools.reassignment.balance.planning import plan_balance_by
from kafkatools.tools.reassignment.layout import Broker, ClusterState, Partition, PlanRefused

Lists = dict[tuple[str, int], tuple[int, ...]]


def cluster(
    racks: Mapping[int, str | None],
    replicas: Mapping[str, list[list[int]]],
    sizes: Mapping[str, list[int]],
    disks: Mapping[int, tuple[Disk, ...]] | None = None,
    rates: list[float | None] | None = None,
) -> BalanceInput:
    """Brokers with racks; replicas and sizes of the partitions of each topic. Live replicas are in sync."""
    partitions = []
    for topic, lists in replicas.items():
        for number, ids in enumerate(lists):
            isr = tuple(broker for broker in ids if broker in racks)
            size = sizes[topic][number]
            partitions.append(Partition(topic, number, tuple(ids), isr, isr[0] if isr else -1, size))
    brokers = tuple(Broker(broker, rack) for broker, rack in racks.items())
    return BalanceInput(ClusterState(brokers, tuple(partitions)), disks or {}, rates)


def no_racks(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def lists_after(state: BalanceInput, plan: BalancePlan) -> Lists:
    changed = {(move.topic, move.partition): move.after for move in plan.moves}
    return {part.key: changed.get(part.key, part.replicas) for part in state.cluster.partitions}


def bytes_of(state: BalanceInput, lists: Lists) -> Counter[int]:
    loads: Counter[int] = Counter()
    for part in state.cluster.partitions:
        for broker in lists[part.key]:
            loads[broker] += part.size_bytes
    return loads


# -- small clusters --


def test_one_partition_that_suffices_moves_and_not_the_largest() -> None:
    state = cluster(no_racks(1, 2), {"t": [[1], [1], [1], [2]]}, {"t": [50, 30, 20, 40]})
    # 100 and 40: the mean is 70, so 30 has to go to broker 2.
    plan = plan_balance_by(state, BalanceOptions())
    assert [(move.partition, move.after) for move in plan.moves] == [(1, (2,))]
    assert plan.spreads["bytes"] == (Spread(100 / 70, 30 / 70), Spread(1.0, 0.0))
    assert plan.bytes_between_brokers == 30
    assert plan.reasons == ()


def test_brokers_within_the_tolerance_stay() -> None:
    state = cluster(no_racks(1, 2), {"t": [[1], [2], [1]]}, {"t": [50, 50, 4]})
    assert plan_balance_by(state, BalanceOptions(tolerance=0.05)).moves == ()
    assert plan_balance_by(state, BalanceOptions(tolerance=0.01)).spreads["bytes"][0] == Spread(54 / 52, 2 / 52)


def test_partitions_are_exchanged_where_none_fits_alone() -> None:
    state = cluster(no_racks(1, 2), {"t": [[1], [1], [2], [2]]}, {"t": [60, 60, 50, 30]})
    # 120 and 80: 20 has to pass, and only 60 for 50 or 60 for 30 brings both to within 10 of 100.
    plan = plan_balance_by(state, BalanceOptions(tolerance=0.11))
    after = bytes_of(state, lists_after(state, plan))
    assert sorted(after.values()) in ([90, 110], [90, 110])
    assert plan.replicas_to_move == 2


def test_replicas_stay_in_their_racks_where_every_rack_has_one() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "b"}
    state = cluster(racks, {"t": [[1, 2], [1, 2], [2, 1]]}, {"t": [10, 10, 10]})
    plan = plan_balance_by(state, BalanceOptions())
    after = lists_after(state, plan)
    assert all(len({racks[broker] for broker in ids}) == 2 for ids in after.values())
    assert bytes_of(state, after) == {1: 30, 2: 20, 3: 10} or bytes_of(state, after) == {1: 30, 2: 10, 3: 20}
    assert plan.reasons == (
        "Broker 1 stays above: its replicas may not move to another rack: their partitions would be spread less over "
        "the racks",
    )


def test_partition_larger_than_the_mean_is_named() -> None:
    state = cluster(no_racks(1, 2, 3), {"t": [[1], [2], [3]]}, {"t": [100, 10, 10]})
    plan = plan_balance_by(state, BalanceOptions())
    assert plan.moves == ()
    assert plan.reasons == ("Broker 1 stays above: t-0 alone has more than the mean of the brokers",)


def test_budget_ends_the_plan_and_is_named() -> None:
    state = cluster(no_racks(1, 2), {"t": [[1]] * 10 + [[2]]}, {"t": [10] * 10 + [0]})
    plan = plan_balance_by(state, BalanceOptions(max_move_bytes=25))
    assert plan.bytes_between_brokers == 20
    assert plan.reasons == ("Broker 1 stays above: the budget of --max-move is spent",)


def test_excluded_brokers_neither_give_nor_take() -> None:
    state = cluster(no_racks(1, 2, 3), {"t": [[1]] * 6 + [[3]]}, {"t": [10] * 6 + [500]})
    plan = plan_balance_by(state, BalanceOptions(excluded=frozenset({3})))
    assert bytes_of(state, lists_after(state, plan)) == {1: 30, 2: 30, 3: 500}


def test_no_broker_left_is_refused() -> None:
    state = cluster(no_racks(1), {"t": [[1]]}, {"t": [1]})
    with pytest.raises(PlanRefused, match="No live broker is left to balance"):
        plan_balance_by(state, BalanceOptions(excluded=frozenset({1})))


def test_brokers_that_are_down_get_nothing_and_keep_their_replicas() -> None:
    state = cluster(no_racks(1, 2), {"t": [[1], [1], [9, 1]]}, {"t": [10, 10, 10]})
    after = lists_after(state, plan_balance_by(state, BalanceOptions()))
    assert [ids for ids in after.values() if 9 in ids] in ([(9, 1)], [(9, 2)])


def test_partition_without_a_live_replica_in_sync_is_left_out() -> None:
    state = cluster(no_racks(1, 2), {"t": [[9], [1], [1]]}, {"t": [10, 10, 10]})
    plan = plan_balance_by(state, BalanceOptions())
    assert plan.left_out == {("t", 0): "no live replica is in sync, so there is nothing to copy from"}


def test_unknown_sizes_and_rates_are_left_out() -> None:
    state = cluster(no_racks(1, 2), {"t": [[1], [1]]}, {"t": [0, 10]}, rates=[1.0, None])
    state = state._replace(unknown_sizes=frozenset({0}))
    assert plan_balance_by(state, BalanceOptions()).left_out == {("t", 0): "no broker reported its size"}
    assert ("t", 1) in plan_balance_by(state, BalanceOptions(by="rate")).left_out


def test_rates_move_the_partition_with_the_fewest_bytes() -> None:
    replicas = {"t": [[1], [1], [2]]}
    state = cluster(no_racks(1, 2), replicas, {"t": [900, 10, 10]}, rates=[50.0, 50.0, 0.0])
    plan = plan_balance_by(state, BalanceOptions(by="rate"))
    assert [(move.partition, move.after) for move in plan.moves] == [(1, (2,))]
    assert plan.rates[1].written == (100.0, 50.0)


def test_leaders_are_reordered_before_anything_moves() -> None:
    state = cluster(no_racks(1, 2, 3), {"t": [[1, 2], [1, 3], [1, 2], [2, 3], [1, 3], [1, 2]]}, {"t": [10] * 6})
    plan = plan_balance_by(state, BalanceOptions(by="leaders"))
    assert Counter(ids[0] for ids in lists_after(state, plan).values()) == {1: 2, 2: 2, 3: 2}
    assert plan.bytes_between_brokers == 0


def test_leaders_without_followers_move_the_smallest_first() -> None:
    state = cluster(no_racks(1, 2), {"t": [[1], [1], [1], [1]]}, {"t": [400, 10, 20, 300]})
    plan = plan_balance_by(state, BalanceOptions(by="leaders"))
    assert [(move.partition, move.after) for move in plan.moves] == [(1, (2,)), (2, (2,))]
    assert plan_balance_by(state, BalanceOptions(by="leaders", max_move_bytes=0)).moves == ()


def test_led_rates_are_evened_out_without_changing_the_numbers() -> None:
    lists = [[1, 2], [1, 2], [2, 1], [2, 1]]
    state = cluster(no_racks(1, 2), {"t": lists}, {"t": [1] * 4}, rates=[90.0, 10.0, 10.0, 10.0])
    plan = plan_balance_by(state, BalanceOptions(by="leaders"))
    after = lists_after(state, plan)
    assert Counter(ids[0] for ids in after.values()) == {1: 2, 2: 2}
    state = state._replace(rates=[50.0, 50.0, 10.0, 10.0])
    plan = plan_balance_by(state, BalanceOptions(by="leaders"))
    assert plan.rates[1].led == (100.0, 60.0)
    assert plan.rates[2].led == (20.0, 60.0)


# -- disks --


def test_disks_of_a_broker_are_levelled() -> None:
    disks = {1: (Disk("/a", 1000, 700, (0, 1, 2)), Disk("/b", 1000, 1000))}
    state = cluster(no_racks(1), {"t": [[1], [1], [1]]}, {"t": [150, 100, 50]}, disks)
    plan = plan_balance_by(state, BalanceOptions(disks=True))
    assert plan.log_dirs == {Replica("t", 0, 1): "/b"}
    assert plan.log_dirs_before == {Replica("t", 0, 1): "/a"}
    assert [row.size_bytes for row in plan.disks] == [(300, 150), (0, 150)]
    assert (plan.bytes_between_brokers, plan.bytes_between_disks, plan.busiest_bytes) == (0, 150, 150)
    assert [(move.before, move.after) for move in plan.moves] == [((1,), (1,))]


def test_replica_that_is_new_on_a_broker_gets_its_emptiest_disk() -> None:
    disks = {
        1: (Disk("/a", 1000, 500, (0, 1)), Disk("/b", 1001, 1000)),
        2: (Disk("/a", 1000, 900, (2,)), Disk("/b", 1001, 1000)),
    }
    state = cluster(no_racks(1, 2), {"t": [[1], [1], [2]]}, {"t": [250, 250, 100]}, disks)
    plan = plan_balance_by(state, BalanceOptions(disks=True, tolerance=0.3))
    assert [(move.partition, move.after) for move in plan.moves if move.added] == [(0, (2,))]
    assert plan.log_dirs[Replica("t", 0, 2)] == "/b"


def test_disks_of_different_sizes_get_shares_in_proportion() -> None:
    disks = {1: (Disk("/a", 1000, 700, tuple(range(30))), Disk("/b", 2000, 2000))}
    state = cluster(no_racks(1), {"t": [[1]] * 30}, {"t": [10] * 30}, disks)
    plan = plan_balance_by(state, BalanceOptions(disks=True))
    assert [row.size_bytes for row in plan.disks] == [(300, 100), (0, 200)]


# -- free space --


def full(total: int, used: int, *partitions: int) -> tuple[Disk, ...]:
    return (Disk("/data", total, total - used, partitions),)


def test_directories_of_one_volume_count_once_and_equal_new_disks_apart() -> None:
    lists = {"t": [[1], [1], [1]]}
    sizes = {"t": [100, 100, 100]}
    one_volume = (Disk("/a", 1000, 150, (), 7), Disk("/b", 1000, 150, (), 0))
    plan = plan_balance_by(cluster(no_racks(1, 2), lists, sizes, {2: one_volume}), BalanceOptions())
    assert plan.replicas_to_move == 1
    new_disks = (Disk("/a", 1000, 120), Disk("/b", 1000, 120))
    lists["t"].append([1])
    sizes["t"].append(100)
    plan = plan_balance_by(cluster(no_racks(1, 2), lists, sizes, {2: new_disks}), BalanceOptions())
    assert plan.replicas_to_move == 2


def test_replica_needs_the_free_space_of_one_log_directory() -> None:
    disks = {1: full(1000, 600, 0, 1), 2: (Disk("/a", 1000, 250), Disk("/b", 1001, 200))}
    state = cluster(no_racks(1, 2), {"t": [[1], [1]]}, {"t": [300, 300]}, disks)
    plan = plan_balance_by(state, BalanceOptions())
    assert plan.moves == ()
    assert plan.reasons == ("Broker 1 stays above: the other brokers lack free space",)


def test_new_replicas_get_the_log_directories_in_which_all_of_them_fit() -> None:
    disks = {3: (Disk("/a", 1000, 50), Disk("/b", 100, 40))}
    sizes, rates = {"t": [50, 5, 10**6, 10**6]}, [10.0, 11.0, 23.0, 21.0]
    state = cluster(no_racks(1, 2, 3), {"t": [[1], [2], [1], [2]]}, sizes, disks, rates)
    plan = plan_balance_by(state, BalanceOptions("rate", tolerance=0.08, disks=True))
    # By its rate the second partition comes first and would take the larger volume, where only the first one fits.
    assert plan.log_dirs == {Replica("t", 0, 3): "/a", Replica("t", 1, 3): "/b"}


def test_only_brokers_above_the_limit_give_and_only_down_to_it() -> None:
    disks = {1: full(1000, 950, 0, 1, 2), 2: full(1000, 800, 3), 3: full(1000, 100)}
    state = cluster(no_racks(1, 2, 3), {"t": [[1], [1], [1], [2]]}, {"t": [20, 60, 800, 800]}, disks)
    plan = plan_balance_by(state, BalanceOptions(only_above=0.9))
    # 950 of 1000 are used, so 50 must go; 60 is the smallest partition that suffices, and broker 3 the emptiest.
    assert [(move.partition, move.after) for move in plan.moves] == [(1, (3,))]
    assert plan_balance_by(state, BalanceOptions(only_above=0.96)).moves == ()


FULL_DIRECTORY = "Log directories of broker 4 stay above the limit of --only-above: only moves between log directories "


def test_broker_below_the_limit_with_a_log_directory_above_it_gives_nothing() -> None:
    # Broker 1 is above the limit and has a replica of one byte that broker 4 could take, which is at 862 of 1725 bytes.
    disks = {
        1: (Disk("/a", 145, 1, (0, 3)), Disk("/b", 726, 2, (1,))),
        2: (Disk("/a", 725, 1, (1,)), Disk("/b", 2, 2)),
        3: (Disk("/a", 3, 2, (3,)), Disk("/b", 278, 278)),
        4: (Disk("/a", 725, 1, (1,)), Disk("/b", 1000, 862, (2,))),
    }
    racks: dict[int, str | None] = {1: "b", 2: "a", 3: "a", 4: "b"}
    state = cluster(racks, {"t": [[1], [2, 1, 4], [4], [3, 1]]}, {"t": [143, 724, 138, 1]}, disks)
    plan = plan_balance_by(state, BalanceOptions(only_above=0.5))
    assert plan.moves == ()
    assert plan.reasons == (
        "Brokers 1,2 stay above: the other brokers lack free space",
        FULL_DIRECTORY + "relieve them, which --disks plans",
    )


def test_log_directory_above_the_limit_gives_to_another_one_of_its_broker() -> None:
    disks = {1: (Disk("/a", 100, 2, (0, 1, 2)), Disk("/b", 200, 190, (3,))), 2: full(300, 10)}
    state = cluster(no_racks(1, 2), {"t": [[1]] * 4}, {"t": [50, 30, 18, 10]}, disks)
    assert plan_balance_by(state, BalanceOptions(only_above=0.9)).moves == ()
    plan = plan_balance_by(state, BalanceOptions(only_above=0.9, disks=True))
    assert (plan.replicas_to_move, plan.log_dirs) == (0, {Replica("t", 2, 1): "/b"})
    assert plan.reasons == ()


def test_broker_above_the_limit_gives_from_its_log_directory_above_it() -> None:
    disks = {1: (Disk("/a", 100, 1, (0, 1)), Disk("/b", 201, 25, (2, 3))), 2: full(300, 10)}
    # 275 of 301 bytes are used, so 5 must go: 20 from /a, though 6 from /b would be enough.
    state = cluster(no_racks(1, 2), {"t": [[1]] * 4}, {"t": [79, 20, 6, 170]}, disks)
    plan = plan_balance_by(state, BalanceOptions(only_above=0.9))
    assert [(move.partition, move.after) for move in plan.moves] == [(1, (2,))]
    assert plan.reasons == ()


def test_log_directory_that_stays_above_the_limit_is_named() -> None:
    disks = {1: (Disk("/a", 100, 0, (0, 1)), Disk("/b", 201, 22, (2, 3))), 2: full(300, 10)}
    # 279 of 301 bytes are used; without 9 the broker is below 90%, but /a still has 91 of 100.
    state = cluster(no_racks(1, 2), {"t": [[1]] * 4}, {"t": [91, 9, 9, 170]}, disks)
    plan = plan_balance_by(state, BalanceOptions(only_above=0.9))
    assert [(move.partition, move.after) for move in plan.moves] == [(1, (2,))]
    assert plan.reasons == (FULL_DIRECTORY.replace("4", "1") + "relieve them, which --disks plans",)
    within = plan_balance_by(state, BalanceOptions(only_above=0.9, disks=True))
    assert within.reasons == (
        "Log directories of broker 1 stay above the limit of --only-above: the other log directories lack free space",
    )


def test_log_directories_of_one_volume_do_not_relieve_each_other() -> None:
    disks = {1: (Disk("/a", 1000, 80, (0, 1), 620), Disk("/b", 1000, 80, (2,), 300)), 2: full(1000, 10)}
    state = cluster(no_racks(1, 2), {"t": [[1], [1], [1]]}, {"t": [600, 20, 300]}, disks)
    plan = plan_balance_by(state, BalanceOptions(only_above=0.9))
    assert ([(move.partition, move.after) for move in plan.moves], plan.reasons) == ([(1, (2,))], ())
    plan = plan_balance_by(state, BalanceOptions(only_above=0.95, disks=True))
    assert (plan.moves, plan.log_dirs, plan.reasons) == ((), {}, ())


def test_unknown_use_is_refused() -> None:
    disks = {1: full(1000, 950, 0), 2: (Disk("/data", -1, -1),)}
    state = cluster(no_racks(1, 2), {"t": [[1]]}, {"t": [20]}, disks)
    with pytest.raises(PlanRefused, match="broker 2 did not report the size of all volumes"):
        plan_balance_by(state, BalanceOptions(only_above=0.9))


def test_brokers_without_free_space_get_nothing() -> None:
    disks = {1: full(1000, 500, 0, 1), 2: full(1000, 995)}
    state = cluster(no_racks(1, 2), {"t": [[1], [1]]}, {"t": [100, 100]}, disks)
    plan = plan_balance_by(state, BalanceOptions())
    assert plan.moves == ()
    assert plan.reasons == ("Broker 1 stays above: the other brokers lack free space",)


# -- any cluster --


@st.composite
def any_cluster(draw: st.DrawFn) -> BalanceInput:
    """Up to seven brokers, with or without racks, of which one may be down; partitions of up to three replicas, in two
    log directories of each broker."""
    count = draw(st.integers(2, 7))
    has_racks = draw(st.booleans())
    racks = {broker: draw(st.sampled_from("abc")) if has_racks else None for broker in range(1, count + 1)}
    down = draw(st.sampled_from([None, *racks]))
    live = {broker: rack for broker, rack in racks.items() if broker != down or count < 3}
    ids = st.lists(st.sampled_from(sorted(racks)), min_size=1, max_size=min(3, count), unique=True)
    drawn = draw(st.lists(st.tuples(ids, st.integers(0, 1000)), min_size=1, max_size=40))
    state = cluster(live, {"t": [ids for ids, _ in drawn]}, {"t": [size for _, size in drawn]})
    contents = {
        broker: [index for index, part in enumerate(state.cluster.partitions) if broker in part.replicas]
        for broker in live
    }
    disks = {
        broker: (Disk("/a", -1, -1, tuple(items[::2])), Disk("/b", -1, -1, tuple(items[1::2])))
        for broker, items in contents.items()
    }
    return state._replace(disks=disks)


@st.composite
def any_excluded(draw: st.DrawFn, state: BalanceInput) -> frozenset[int]:
    """One broker or none."""
    live = [broker.id for broker in state.cluster.brokers]
    return frozenset({min(live)}) if len(live) > 1 and draw(st.booleans()) else frozenset()


any_budget = st.none() | st.integers(0, 2000)


@st.composite
def any_input(draw: st.DrawFn, clusters: st.SearchStrategy[BalanceInput]) -> tuple[BalanceInput, BalanceOptions]:
    """A cluster with any options and, where they need it, with rates."""
    state = draw(clusters)
    by = draw(st.sampled_from(["bytes", "rate", "leaders"]))
    rates: list[float | None] | None = None
    if by == "rate" or (by == "leaders" and draw(st.booleans())):
        count = len(state.cluster.partitions)
        rates = [float(rate) for rate in draw(st.lists(st.integers(0, 100), min_size=count, max_size=count))]
    options = BalanceOptions(
        by,
        tolerance=draw(st.sampled_from([0.01, 0.05, 0.2])),
        excluded=draw(any_excluded(state)),
        disks=by != "leaders" and draw(st.booleans()),
        max_move_bytes=draw(any_budget),
    )
    return state._replace(rates=rates), options


def rack_counts(ids: tuple[int, ...], racks: Mapping[int, str | None]) -> Counter[str]:
    return Counter(racks.get(broker) or f"?{broker}" for broker in ids)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(any_input(any_cluster()))
def test_no_plan_breaks_a_constraint(case: tuple[BalanceInput, BalanceOptions]) -> None:
    state, options = case
    plan = plan_balance_by(state, options)
    racks = {broker.id: broker.rack for broker in state.cluster.brokers}
    after = lists_after(state, plan)
    for part in state.cluster.partitions:
        ids = after[part.key]
        assert len(set(ids)) == len(ids) == len(part.replicas)
        added = set(ids) - set(part.replicas)
        assert added <= set(racks) - options.excluded
        assert set(part.replicas) - set(ids) <= set(racks) - options.excluded
        if any(racks.values()):
            before, now = rack_counts(part.replicas, racks), rack_counts(ids, racks)
            assert sum(n * n for n in now.values()) <= sum(n * n for n in before.values())
            assert max(now.values()) <= max(math.ceil(len(ids) / len(set(racks.values()))), max(before.values()))
    if options.max_move_bytes is not None:
        assert plan.bytes_between_brokers + plan.bytes_between_disks <= options.max_move_bytes


@st.composite
def filled_cluster(draw: st.DrawFn) -> BalanceInput:
    """A cluster with volumes of known sizes."""
    state = draw(any_cluster())
    sizes = [part.size_bytes for part in state.cluster.partitions]
    disks = {}
    for broker, contents in state.disks.items():
        filled = []
        for number, disk in enumerate(contents):
            # an odd size for each directory, since equal ones are taken for one volume
            used, free = sum(sizes[item] for item in disk.partitions), draw(st.integers(1, 1000)) + number
            filled.append(Disk(disk.path, used + free, free, disk.partitions, used))
        disks[broker] = tuple(filled)
    return state._replace(disks=disks)


@st.composite
def limited_input(draw: st.DrawFn) -> tuple[BalanceInput, BalanceOptions]:
    """A cluster with a limit of the use of its volumes."""
    state = draw(filled_cluster())
    options = BalanceOptions(
        excluded=draw(any_excluded(state)),
        disks=draw(st.booleans()),
        only_above=draw(st.sampled_from([0.5, 0.8, 0.9])),
        max_move_bytes=draw(any_budget),
    )
    return state, options


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(any_input(filled_cluster()))
def test_new_replicas_fit_in_the_free_space_of_their_log_directories(case: tuple[BalanceInput, BalanceOptions]) -> None:
    state, options = case
    plan = plan_balance_by(state, options)
    sizes = {part.key: part.size_bytes for part in state.cluster.partitions}
    arriving: Counter[tuple[int, str]] = Counter()
    for replica, path in plan.log_dirs.items():
        arriving[replica.broker, path] += sizes[replica.topic, replica.partition]
    for broker, disks in state.disks.items():
        for disk in disks:
            assert arriving[broker, disk.path] <= disk.usable_bytes
        largest = max(disk.usable_bytes for disk in disks)
        assert all(move.size_bytes <= largest for move in plan.moves if broker in move.added)


def use(disks: tuple[Disk, ...], change: int) -> float:
    """The used part of volumes after a change of their bytes."""
    total = sum(disk.total_bytes for disk in disks)
    return (total - sum(disk.usable_bytes for disk in disks) + change) / total


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(limited_input())
def test_only_what_is_above_the_limit_gives_and_nothing_gets_above_it(
    case: tuple[BalanceInput, BalanceOptions],
) -> None:
    state, options = case
    limit = (options.only_above or 0) + 1e-9
    plan = plan_balance_by(state, options)
    volume_of = {(broker, disk.path): disk for broker, disks in state.disks.items() for disk in disks}
    before = bytes_of(state, {part.key: part.replicas for part in state.cluster.partitions})
    after = bytes_of(state, lists_after(state, plan))
    for move in plan.moves:
        for broker in set(move.before) - set(move.after):
            disks = state.disks[broker]
            assert use(disks, 0) > limit
            assert use(tuple(disk for disk in disks if move.partition in disk.partitions), 0) > limit
        for broker in move.added:
            disks = state.disks[broker]
            assert use(disks, after[broker] - before[broker]) <= limit
            assert any(use((disk,), move.size_bytes) <= limit for disk in disks)
    for row in plan.disks:
        disk = volume_of[row.broker, row.path]
        present, later = row.size_bytes
        assert use((disk,), later - present) <= max(limit, use((disk,), 0))
    for replica, path in plan.log_dirs_before.items():
        assert use((volume_of[replica.broker, path],), 0) > limit


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(any_input(any_cluster()))
def test_no_plan_makes_its_spread_worse(case: tuple[BalanceInput, BalanceOptions]) -> None:
    state, options = case
    plan = plan_balance_by(state, options)
    before, after = plan.spreads[options.by]
    if before is None or after is None:
        assert before == after
        return
    assert after.highest <= before.highest + 1e-9
    assert after.deviation <= before.deviation + 1e-9
    if options.by == "bytes":
        brokers = {broker.id for broker in state.cluster.brokers} - options.excluded
        loads = bytes_of(state, lists_after(state, plan))
        assert spread_of([loads[broker] for broker in brokers]) == pytest.approx(after)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(any_input(any_cluster()))
def test_equal_input_gives_the_same_plan_and_a_second_plan_changes_nothing_that_fits(
    case: tuple[BalanceInput, BalanceOptions],
) -> None:
    state, options = case
    plan = plan_balance_by(state, options)
    assert plan_balance_by(state, options) == plan
    if plan.reasons or options.by == "leaders":
        return
    after = lists_after(state, plan)
    parts = tuple(part._replace(replicas=after[part.key]) for part in state.cluster.partitions)
    again = plan_balance_by(
        state._replace(cluster=state.cluster._replace(partitions=parts), disks={}), options._replace(disks=False)
    )
    assert again.bytes_between_brokers == 0


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(any_input(any_cluster()))
def test_disk_moves_only_change_the_directories_of_replicas_that_are_there(
    case: tuple[BalanceInput, BalanceOptions],
) -> None:
    state, options = case
    plan = plan_balance_by(state, options)
    after = lists_after(state, plan)
    for replica, path in plan.log_dirs.items():
        assert replica.broker in after[replica.topic, replica.partition]
        assert path in {disk.path for disk in state.disks[replica.broker]}
        assert plan.log_dirs_before.get(replica) != path
    for broker, disks in state.disks.items():
        rows = [row.size_bytes for row in plan.disks if row.broker == broker]
        sizes = [part.size_bytes for part in state.cluster.partitions]
        if rows:
            assert [before for before, _ in rows] == [sum(sizes[item] for item in disk.partitions) for disk in disks]
            assert sum(now for _, now in rows) == bytes_of(state, after)[broker]
