"""Plans that balance 100 brokers with 100,000 partitions: spread, copied bytes, seconds and memory, beside the rules of
topicmappr and Cruise Control on the same generated clusters (`balance_clusters`, `balance_peers`)."""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from benchmarks import measure
from benchmarks.balance_clusters import CLUSTERS, with_disks
from benchmarks.balance_peers import Lists, disk_distribution, storage_rebalance
from kafkatools.tools.reassignment.balance.model import BalanceInput, BalanceOptions, spread_of
from kafkatools.tools.reassignment.balance.planning import plan_balance_by
from kafkatools.tools.reassignment.plan import plan_balance

LIMIT_S = 20
VOLUME_BYTES = 16 * 10**12  # of a broker; the mean use is 38%, and 56% after the loss of a rack
_TIGHT = 1 + 0.05 / 0.9  # the threshold with which Cruise Control aims at 5%

Planner = Callable[[BalanceInput], Lists]


def _by(options: BalanceOptions) -> Planner:
    def planned(given: BalanceInput) -> Lists:
        plan = plan_balance_by(given, options)
        after = {(move.topic, move.partition): list(move.after) for move in plan.moves}
        return [after.get(part.key, list(part.replicas)) for part in given.cluster.partitions]

    return planned


def _by_count(given: BalanceInput) -> Lists:
    after = {(move.topic, move.partition): list(move.after) for move in plan_balance(given.cluster).moves}
    return [after.get(part.key, list(part.replicas)) for part in given.cluster.partitions]


PLANNERS: dict[str, tuple[str, Planner]] = {
    "kt, without --by": ("replicas", _by_count),
    "kt --by bytes": ("bytes", _by(BalanceOptions())),
    "kt --by bytes --tolerance 9%": ("bytes", _by(BalanceOptions(tolerance=0.09))),
    "Cruise Control's rule, 10%": ("bytes", disk_distribution),
    "Cruise Control's rule, 5%": ("bytes", lambda given: disk_distribution(given, _TIGHT)),
    "topicmappr's rule": ("bytes", lambda given: storage_rebalance(given, VOLUME_BYTES)),
    "topicmappr's rule, 10 TB volumes": ("bytes", lambda given: storage_rebalance(given, 10**13)),
    "kt --by rate": ("rate", _by(BalanceOptions("rate"))),
    "kt --by leaders": ("leaders", _by(BalanceOptions("leaders"))),
    "kt --by leaders --max-move 0": ("leaders", _by(BalanceOptions("leaders", max_move_bytes=0))),
    "kt --by bytes --max-move 10T": ("bytes", _by(BalanceOptions(max_move_bytes=10**13))),
    "kt --by bytes --disks, 4 for each broker": ("disks", _by(BalanceOptions(disks=True))),
}


def main() -> None:
    """Prints a line for each cluster and planner; each is planned by a process of its own."""
    for cluster in CLUSTERS:
        for planner in PLANNERS:
            with tempfile.TemporaryDirectory() as directory:
                stdout = pathlib.Path(directory) / "out"
                code = f"from benchmarks import balance; balance.plan_one({cluster!r}, {planner!r})"
                run = measure.run(measure.Work([sys.executable, "-c", code], stdout=stdout))
                facts = json.loads(stdout.read_text())
            limit = {"limit_s": LIMIT_S, "reached": facts["seconds"] <= LIMIT_S} if planner.startswith("kt") else {}
            measure.report(f"balance, {cluster}: {planner}", **facts, **limit, ours_peak_mib=run.peak_bytes >> 20)


def plan_one(cluster: str, planner: str) -> None:
    """Plan one cluster by one planner, and print the figures as JSON."""
    given = CLUSTERS[cluster]()
    measure_name, plan = PLANNERS[planner]
    if measure_name == "disks":
        given = with_disks(given, 4, VOLUME_BYTES // 4)
    if measure_name != "rate":
        given = given._replace(rates=None)
    started, started_cpu = time.perf_counter(), time.process_time()
    after = plan(given)
    times = {"seconds": time.perf_counter() - started, "cpu_s": time.process_time() - started_cpu}
    print(json.dumps(_figures(given, after, measure_name) | {name: round(value, 2) for name, value in times.items()}))


def _figures(given: BalanceInput, after: Lists, measure_name: str) -> dict[str, object]:
    parts = given.cluster.partitions
    before = [part.replicas for part in parts]
    added = [set(new) - set(old) for old, new in zip(before, after, strict=True)]
    facts: dict[str, object] = {}
    for name, lists in (("before", before), ("after", after)):
        spread = spread_of(_loads(given, lists, measure_name))
        assert spread is not None
        facts[f"highest_{name}"] = round(spread.highest, 3)
        facts[f"deviation_{name}"] = f"{100 * spread.deviation:.2f}%"
    facts["copied_tb"] = round(sum(parts[at].size_bytes * len(new) for at, new in enumerate(added)) / 1e12, 2)
    facts["partitions_changed"] = sum(tuple(new) != old for old, new in zip(before, after, strict=True))
    racks = {broker.id: broker.rack for broker in given.cluster.brokers}
    facts["worse_in_racks"] = sum(
        len({racks[broker] for broker in new}) < len({racks[broker] for broker in old})
        for old, new in zip(before, after, strict=True)
    )
    return facts


def _loads(given: BalanceInput, lists: Sequence[Sequence[int]], measure_name: str) -> list[float]:
    loads = {broker.id: 0.0 for broker in given.cluster.brokers}
    for index, (part, replicas) in enumerate(zip(given.cluster.partitions, lists, strict=True)):
        weight: float = part.size_bytes
        if measure_name == "rate":
            assert given.rates is not None
            weight = given.rates[index] or 0
        for broker in replicas[:1] if measure_name == "leaders" else replicas:
            loads[broker] += 1 if measure_name in ("leaders", "replicas") else weight
    return list(loads.values())


if __name__ == "__main__":
    main()
