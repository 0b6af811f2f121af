"""Clusters for the simulation of `kt reassign-partitions plan balance`: generated from a seed, without servers.

A cluster has 100 brokers in three racks and 100,000 partitions of 1,000 topics with three replicas. Sizes and rates of
topics follow Zipf's law; the partitions of a topic differ by a random factor. Replicas are placed as Apache Kafka
places those of new topics, by the rack-aware rule of KIP-36, without regard to sizes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from kafkatools.core.java.random import JavaRandom
from kafkatools.core.replica_placement import UsableBroker, place
from kafkatools.tools.reassignment.balance.model import BalanceInput, Disk
from kafkatools.tools.reassignment.layout import Broker, ClusterState, Partition

BROKERS = 100
TOPICS = 1_000
PARTITIONS_OF_TOPIC = 100
REPLICAS = 3
RACKS = "abc"
TOTAL_BYTES = 200 * 10**12  # of one replica of everything
TOTAL_RATE = 2 * 10**9
_SEED = 20


def generated(brokers: int = BROKERS, topics: int = TOPICS, partitions: int = PARTITIONS_OF_TOPIC) -> BalanceInput:
    """A cluster whose topics were created while all brokers were there."""
    return _placed(_racks(brokers), _racks(brokers), topics, partitions)


def after_adding() -> BalanceInput:
    """The cluster after ten empty brokers have joined."""
    return _placed(_racks(BROKERS), _racks(BROKERS + 10), TOPICS, PARTITIONS_OF_TOPIC)


def after_losing_a_rack() -> BalanceInput:
    """The cluster without the brokers of rack c, whose replicas were made anew on the others: on the next live broker
    by number that had none of the partition."""
    given = _placed(_racks(BROKERS), _racks(BROKERS), TOPICS, PARTITIONS_OF_TOPIC)
    live = [broker for broker in given.cluster.brokers if broker.rack != "c"]
    ids = sorted(broker.id for broker in live)
    partitions = []
    for part in given.cluster.partitions:
        replicas = [broker for broker in part.replicas if broker in ids]
        lost = next(broker for broker in part.replicas if broker not in ids)
        following = [broker for broker in ids if broker > lost] + ids
        replicas.append(next(broker for broker in following if broker not in replicas))
        partitions.append(part._replace(replicas=tuple(replicas), isr=tuple(replicas), leader=replicas[0]))
    return given._replace(cluster=ClusterState(tuple(live), tuple(partitions)))


CLUSTERS: Mapping[str, Callable[[], BalanceInput]] = {
    "as created": generated,
    "10 brokers added": after_adding,
    "a rack lost": after_losing_a_rack,
}


def _racks(brokers: int) -> dict[int, str]:
    return {broker: RACKS[broker % len(RACKS)] for broker in range(brokers)}


def _placed(used: dict[int, str], live: dict[int, str], topics: int, partitions_of_topic: int) -> BalanceInput:
    numbers, java = random.Random(_SEED), JavaRandom(_SEED)
    usable = [UsableBroker(broker, rack) for broker, rack in used.items()]
    harmonic = sum(1 / rank for rank in range(1, topics + 1))
    rate_ranks = list(range(1, topics + 1))
    numbers.shuffle(rate_ranks)  # a large topic is not always a busy one
    parts: list[Partition] = []
    rates: list[float | None] = []
    for rank in range(1, topics + 1):
        placed = place(usable, partitions_of_topic, REPLICAS, java)
        size = TOTAL_BYTES / rank / harmonic / partitions_of_topic
        rate = TOTAL_RATE / rate_ranks[rank - 1] / harmonic / partitions_of_topic
        for number, replicas in enumerate(placed):
            factor = numbers.lognormvariate(0, 0.5)
            ids = tuple(replicas)
            parts.append(Partition(f"topic-{rank:04}", number, ids, ids, ids[0], int(size * factor)))
            rates.append(rate * factor)
    brokers = tuple(Broker(broker, rack) for broker, rack in live.items())
    return BalanceInput(ClusterState(brokers, tuple(parts)), {}, rates)


def with_disks(given: BalanceInput, disks: int, volume_bytes: int) -> BalanceInput:
    """The cluster with this many log directories for each broker, filled in turn, on volumes of this size."""
    contents: dict[int, list[list[int]]] = {broker.id: [[] for _ in range(disks)] for broker in given.cluster.brokers}
    for index, part in enumerate(given.cluster.partitions):
        for broker in part.replicas:
            contents[broker][index % disks].append(index)
    sizes = [part.size_bytes for part in given.cluster.partitions]
    return given._replace(
        disks={
            broker: tuple(
                Disk(f"/data{number}", volume_bytes, volume_bytes - used, tuple(items), used)
                for number, items in enumerate(lists)
                for used in [sum(sizes[item] for item in items)]
            )
            for broker, lists in contents.items()
        }
    )
