"""kt monitor on three brokers of Apache Kafka, one of which stops and comes back; its counts are those of Kafka's own
tool for topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.apache_kafka import CLUSTER_ID
from support.live_groups import GroupClient
from support.three_nodes import ThreeNodes
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.elections import PREFERRED, elect_leaders
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import LeaderNotAvailable
from kafkatools.tools.monitor.collector import ClusterCollector
from kafkatools.tools.monitor.messages.reading import read_messages
from kafkatools.tools.monitor.messages.request import MessageRequest, Source
from kafkatools.tools.monitor.view import ClusterView

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

_LAYOUT = {"orders": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "solo2": [[2]], "split": [[1], [2]]}
_EVERYTHING = {str(number) for number in range(30)}


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


def values(nodes: ThreeNodes, topic: str) -> tuple[set[str], list[str]]:
    """The values of a topic's newest records as the page shows them, and its notes."""
    source, request = Source({"bootstrap.servers": nodes.bootstrap}), MessageRequest(topic)
    body: Any = read_messages(source, request, SystemClock(), lambda progress: None)
    return {record["value"]["text"] for record in body["records"]}, body["notes"]


def send_records(nodes: ThreeNodes) -> None:
    """Thirty records to `orders` and to `split`."""
    with Producer(bootstrap_servers=nodes.bootstrap, acks="all") as producer:
        for number in range(30):
            producer.send("orders", b"%d" % number, partition=number % 3)
            producer.send("split", b"%d" % number, partition=number % 2)
    assert (values(nodes, "orders"), values(nodes, "split")) == ((_EVERYTHING, []), (_EVERYTHING, []))


def read_records_of_led_partitions(nodes: ThreeNodes) -> None:
    """The page's records while broker 2 is stopped."""
    note = "Without the records of partitions that have no leader: split-1"
    assert values(nodes, "split") == ({str(number) for number in range(0, 30, 2)}, [note])
    with pytest.raises(LeaderNotAvailable, match="No records can be read: no leader for solo2-0"):
        values(nodes, "solo2")
    assert values(nodes, "orders") == (_EVERYTHING, [])


def test_a_broker_that_stops_is_seen_within_two_looks(empty_three_nodes: ThreeNodes) -> None:
    nodes = empty_three_nodes
    nodes.make_topics(_LAYOUT)
    send_records(nodes)
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
            read_records_of_led_partitions(nodes)
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
