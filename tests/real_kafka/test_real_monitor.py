"""kt monitor on three brokers of Apache Kafka, one of which stops and comes back; its counts are those of Kafka's own
tool for topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from support.apache_kafka import CLUSTER_ID
from support.live_groups import GroupClient
from support.three_nodes import ThreeNodes
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.elections import PREFERRED, elect_leaders
from kafkatools.core.clock import SystemClock
from kafkatools.tools.monitor.collector import ClusterCollector
from kafkatools.tools.monitor.view import ClusterView

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

_LAYOUT = {"orders": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "solo2": [[2]]}


@contextlib.contextmanager
def collector(nodes: ThreeNodes) -> Iterator[ClusterCollector]:
    with (
        AdminClient(nodes.bootstrap, {}, SystemClock()) as admin,
        AdminClient(nodes.bootstrap, {}, SystemClock()) as aside,
    ):
        yield ClusterCollector(admin, aside)


def kinds(view: ClusterView) -> set[tuple[str, object]]:
    """Events with what they are about: a partition, a broker or a group."""
    return {(event.kind, event.partition if event.topic == "orders" else event.broker) for event in view.events}


def under_replicated(nodes: ThreeNodes) -> set[str]:
    """The partitions that Apache Kafka's tool lists."""
    told = nodes.tool("topics", "--describe", "--under-replicated-partitions")
    return {"-".join(line.split()[1:4:2]) for line in told.splitlines() if line.startswith("\tTopic: ")}


def test_a_broker_that_stops_is_seen_within_two_looks(empty_three_nodes: ThreeNodes) -> None:
    nodes = empty_three_nodes
    nodes.make_topics(_LAYOUT)
    with Producer(bootstrap_servers=nodes.bootstrap, acks="all") as producer:
        for number in range(30):
            producer.send("orders", b"%d" % number, partition=number % 3)
    with GroupClient(nodes.address(1)) as client:
        client.find_coordinator("shop")
    with collector(nodes) as collects:
        eventually(lambda: collects.collect().problems == ())  # the coordinators load what find_coordinator created
        well = collects.collect()
        assert (well.cluster_id, well.controller, well.problems) == (CLUSTER_ID, 1, ())
        assert (well.totals.alive, well.totals.under_replicated, well.totals.offline) == (3, 0, 0)
        ends = [well.by_partition["orders", number].end_offset for number in range(3)]
        assert ends == [10, 10, 10] and well.by_partition["orders", 0].elr == ()
        assert all(broker.log_bytes for broker in well.brokers)
        nodes.stop_broker(2)  # the others know it when this returns
        try:
            looks = [collects.collect(), collects.collect()]
            seen = set().union(*map(kinds, looks))
            last = looks[-1]
            assert last.by_partition["orders", 1].leader == 3
            assert last.by_partition["solo2", 0].is_offline
            listed = {f"{part.topic}-{part.partition}" for part in last.partitions if part.is_under_replicated}
            assert listed == under_replicated(nodes)
            assert listed >= {"orders-0", "orders-1", "orders-2"}
            assert seen >= {("broker-gone", 2), ("leader-changed", 1), *(("isr-shrank", each) for each in range(3))}
            assert [broker.is_fenced for broker in last.brokers] == [False, True, False]
        finally:
            nodes.start_broker(2)
        seen = set()

        def is_well() -> bool:
            view = collects.collect()
            seen.update(kinds(view))
            return view.totals.under_replicated == view.totals.offline == 0

        eventually(is_well)
        assert seen >= {("broker-back", 2), *(("isr-grew", each) for each in range(3))}
        with AdminClient(nodes.bootstrap, {}, SystemClock()) as admin:
            elect_leaders(admin, PREFERRED, None)
        eventually(lambda: collects.collect().totals.not_preferred == 0)
        assert collects.collect().problems == ()
    nodes.empty()
