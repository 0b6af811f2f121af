"""Looks at a cluster: against the embedded broker, and against brokers that answer from a script where some are silent,
old, or have no controller."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.live_groups import ClassicMember, ConsumerMember, GroupClient, visit_share_group
from support.scripted_broker import CLOSE, SILENCE, ScriptedBroker

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import GROUP, TOPIC, ConfigChange, incremental_alter_configs
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import Timeout
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import RequestHeader
from kafkatools.tools.monitor.collector import ClusterCollector, Scope
from kafkatools.tools.monitor.view import NO_BROKER, NOT_REPORTED, ClusterView

PATIENCE_MS = 600


@contextlib.contextmanager
def collector(bootstrap: str, scope: Scope | None = None, patience_ms: int = 5000) -> Iterator[ClusterCollector]:
    with contextlib.ExitStack() as stack:
        admin, aside, apart = (stack.enter_context(AdminClient(bootstrap, {}, SystemClock())) for _ in range(3))
        yield ClusterCollector(admin, aside, scope, patience_ms, apart)


# -- a broker that has everything --


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("broker"), group_initial_rebalance_delay_ms="0") as address:
        with AdminClient(address, {}, SystemClock()) as admin:
            topics = [NewTopic("orders", 3, 1), NewTopic("pay", 1, 1), NewTopic("idle", 2, 1), NewTopic("old", 1, 1)]
            made = create_topics(admin, topics)
            assert not [one.error for one in made.values() if one.error]
            incremental_alter_configs(admin, {(TOPIC, "pay"): [ConfigChange("min.insync.replicas", "2")]})
        yield address


def send(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"value %d" % number, partition=0)


def test_a_look_tells_of_everything(bootstrap: str) -> None:
    send(bootstrap, "orders", 7)
    with GroupClient(bootstrap) as client:
        client.commit("left", {("orders", 0): 3, ("orders", 1): 0})
    with collector(bootstrap) as collects:
        view = collects.collect()
    (broker,) = view.brokers
    assert (broker.id, view.controller, broker.is_responding, broker.is_fenced) == (1, 1, True, False)
    assert broker.log_bytes is not None and broker.log_bytes > 0
    counts = {topic.name: len(topic.partitions) for topic in view.topics if not topic.is_internal}
    assert counts.items() >= {"orders": 3, "pay": 1, "idle": 2}.items()
    orders = view.by_partition["orders", 0]
    assert (orders.leader, orders.isr, orders.end_offset, orders.min_isr) == (1, (1,), 7, 1)
    assert orders.size_bytes is not None and orders.size_bytes > 0
    # min.insync.replicas is 2, of one replica: effectiveMinIsr is 1.
    assert (view.by_partition["pay", 0].min_isr, view.by_partition["pay", 0].is_under_min_isr) == (2, False)
    (left,) = [group for group in view.groups if group.group_id == "left"]
    assert (left.state, left.members, left.coordinator) == ("Empty", 0, 1)
    assert {(at.topic, at.partition): (at.committed, at.lag) for at in left.partitions or ()} == {
        ("orders", 0): (3, 4), ("orders", 1): (0, 0),
    }  # fmt: skip
    assert view.quorum is not None and view.quorum.leader_id == 1
    assert (view.problems, view.events) == ((), ())


def test_groups_of_every_kind_are_described(bootstrap: str) -> None:
    with (
        ClassicMember(bootstrap, "c1", "classic", {"orders": [0]}) as classic,
        ConsumerMember(bootstrap, "c2", "modern", "AAAAAAAAAAAAAAAAAAAAAQ", ["orders"]),
    ):
        classic.commit_own({("orders", 0): 1})
        visit_share_group(bootstrap, "shared", "AAAAAAAAAAAAAAAAAAAABA", "orders")
        with collector(bootstrap) as collects:
            view = collects.collect()
        with collector(bootstrap, Scope(with_owners=True)) as collects:
            owners = {group.group_id: group.owners for group in collects.collect().groups}
    assert owners["classic"] == {("orders", 0): (classic.member_id, "c1", "/127.0.0.1")}
    assert owners["modern"] == {("orders", n): ("AAAAAAAAAAAAAAAAAAAAAQ", "c2", "/127.0.0.1") for n in range(3)}
    assert owners["shared"] is None and all(group.owners is None for group in view.groups)
    found = {group.group_id: (group.type, group.members) for group in view.groups}
    assert found["classic"] == ("Classic", 1)
    assert found["modern"] == ("Consumer", 1)
    assert found["shared"][0] == "Share"
    assert view.problems == ()


def test_acknowledged_records_of_a_share_group_have_no_lag_time(bootstrap: str) -> None:
    """The start offset that the group stores stays before the records that it acknowledged last."""
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        create_topics(admin, [NewTopic("jobs", 1, 1)])
        incremental_alter_configs(admin, {(GROUP, "workers"): [ConfigChange("share.auto.offset.reset", "earliest")]})
    send(bootstrap, "jobs", 5)
    words = ("--topic", "jobs", "--group", "workers", "--max-messages", "5", "--timeout-ms", "20000")
    assert run_kt("console-share-consumer", "--bootstrap-server", bootstrap, *words).out.count("value") == 5
    with collector(bootstrap) as collects:
        before = collects.collect()
        send(bootstrap, "jobs", 1)
        after = collects.collect()
    (was,), (now,) = ([g for g in view.groups if g.group_id == "workers"] for view in (before, after))
    assert [(part.committed, part.lag) for part in now.partitions or ()] == [(0, 1)]
    assert (was.lag, was.lag_ms, now.lag) == (0, 0, 1)
    assert now.lag_ms is not None and now.lag_ms <= after.clock_ms - before.clock_ms + 5000


def test_the_second_look_has_rates_and_events(bootstrap: str) -> None:
    with collector(bootstrap) as collects, AdminClient(bootstrap, {}, SystemClock()) as admin:
        with GroupClient(bootstrap) as client:
            client.commit("behind", {("idle", 0): 0})
            client.commit("older", {("old", 0): 0})
        send(bootstrap, "old", 1)
        before = collects.collect()
        assert before.totals.messages_in is None
        send(bootstrap, "idle", 20)
        create_topics(admin, [NewTopic("late", 1, 1)])
        after = collects.collect()
    (idle,) = [topic for topic in after.topics if topic.name == "idle"]
    seconds = (after.clock_ms - before.clock_ms) / 1000
    assert idle.messages_in == pytest.approx(20 / seconds)
    assert [(event.kind, event.topic) for event in after.events] == [("topic-created", "late")]
    behind, older = (next(group for group in after.groups if group.group_id == name) for name in ("behind", "older"))
    assert behind.lag == 20 and behind.lag_ms is not None and 0 < behind.lag_ms < 1000 * seconds + 5000
    assert older.lag_ms is None, "what came in before the first look is older than anybody knows"
    (late,) = [topic for topic in after.topics if topic.name == "late"]
    assert late.partitions[0].min_isr == 1, "settings of a new topic are asked for at once"


def test_only_what_the_scope_takes_is_looked_at(bootstrap: str) -> None:
    with GroupClient(bootstrap) as client:
        client.commit("both", {("orders", 0): 1, ("pay", 0): 0})
    scope = Scope(("pay",), {"pay"}.__contains__, {"both"}.__contains__, with_starts=True)
    with collector(bootstrap, scope) as collects:
        view = collects.collect()
    assert [topic.name for topic in view.topics] == ["pay"]
    assert (view.by_partition["pay", 0].start_offset, view.by_partition["pay", 0].end_offset) == (0, 0)
    (both,) = view.groups
    assert [(at.topic, at.partition) for at in both.partitions or ()] == [("pay", 0)]


def test_a_topic_that_is_not_there_is_a_problem(bootstrap: str) -> None:
    with collector(bootstrap, Scope(("ghost",))) as collects:
        view = collects.collect()
    assert view.topics == ()
    assert [problem.what for problem in view.problems] == ["topic ghost"]


# -- brokers that answer from a script --


class Brokers:
    """Brokers of one cluster with a topic `t` of a partition on each, which all of them replicate; `fenced` ones are
    told by DescribeCluster."""

    def __init__(self, *ids: int) -> None:
        self.ids = ids
        self.fenced: set[int] = set()
        self.brokers = {id: ScriptedBroker() for id in ids}
        ports = {id: broker.port for id, broker in self.brokers.items()}
        for id, broker in self.brokers.items():
            broker.nodes = ports
            broker.answers |= {
                ApiKey.METADATA: self._metadata,
                ApiKey.DESCRIBE_CLUSTER: self._cluster,
                ApiKey.DESCRIBE_TOPIC_PARTITIONS: self._topics,
                ApiKey.DESCRIBE_QUORUM: lambda header, request: {"error_code": 35, "topics": ()},
                ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda header, request: {"topics": ()},
                ApiKey.LIST_GROUPS: lambda header, request, id=id: {"groups": [self._group(header, id)]},
                ApiKey.DESCRIBE_LOG_DIRS: lambda header, request, id=id: {"results": [self._log_dir(id)]},
                ApiKey.LIST_OFFSETS: self._ends,
                ApiKey.DESCRIBE_GROUPS: self._groups,
                ApiKey.OFFSET_FETCH: self._offsets,
                ApiKey.DESCRIBE_CONFIGS: self._configs,
            }

    def silence(self, id: int, *keys: ApiKey) -> None:
        """A broker no longer answers these (all that there are when none is named)."""
        for key in keys or self.brokers[id].answers:
            self.brokers[id].answers[key] = lambda header, request: SILENCE

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        with contextlib.ExitStack() as stack:
            for broker in self.brokers.values():
                stack.enter_context(broker.in_background())
            yield ",".join(broker.bootstrap for broker in self.brokers.values())

    def _metadata(self, header: RequestHeader, request: Any) -> Any:
        brokers = [
            {"node_id": id, "host": "127.0.0.1", "port": self.brokers[id].port}
            for id in self.ids
            if id not in self.fenced
        ]
        topics = [] if request.topics == () else [
            {"name": "t", "topic_id": None, "is_internal": False, "partitions": [
                {"partition_index": id, "leader_id": id, "leader_epoch": 0, "replica_nodes": self.ids,
                 "isr_nodes": (id,)}
                for id in self.ids
            ]},
        ]  # fmt: skip
        return {"brokers": brokers, "topics": topics, "controller_id": self.ids[0], "cluster_id": "c"}

    def _cluster(self, header: RequestHeader, request: Any) -> Any:
        brokers = [
            {"broker_id": id, "host": "127.0.0.1", "port": self.brokers[id].port, "is_fenced": id in self.fenced}
            for id in self.ids
        ]
        return {"cluster_id": "c", "controller_id": self.ids[0], "brokers": brokers}

    def _topics(self, header: RequestHeader, request: Any) -> Any:
        """A page of as many partitions as there are brokers, less one."""
        first = 0 if request.cursor is None else request.cursor.partition_index
        ids = [id for id in self.ids if id >= first]
        page, rest = (ids[:-1], ids[-1:]) if request.cursor is None and len(ids) > 1 else (ids, [])
        parts = [
            {"partition_index": id, "leader_id": id, "leader_epoch": 0, "replica_nodes": self.ids, "isr_nodes": (id,),
             "eligible_leader_replicas": (), "last_known_elr": (), "offline_replicas": ()}
            for id in page
        ]  # fmt: skip
        cursor = {"topic_name": "t", "partition_index": rest[0]} if rest else None
        return {"topics": [{"name": "t", "topic_id": None, "partitions": parts}], "next_cursor": cursor}

    def _group(self, header: RequestHeader, id: int) -> dict[str, Any]:
        newer = {"group_state": "Stable", "group_type": "classic"} if header.api_version >= 5 else {}
        return {"group_id": f"g{id}", "protocol_type": "consumer", **newer}

    def _log_dir(self, id: int) -> dict[str, Any]:
        parts = [{"partition_index": each, "partition_size": 10 * id, "offset_lag": 0} for each in self.ids]
        return {"log_dir": "/d", "topics": [{"name": "t", "partitions": parts}]}

    def _ends(self, header: RequestHeader, request: Any) -> Any:
        return {
            "topics": [
                {"name": topic.name, "partitions": [
                    {"partition_index": part.partition_index, "offset": 100} for part in topic.partitions
                ]}
                for topic in request.topics
            ]
        }  # fmt: skip

    def _groups(self, header: RequestHeader, request: Any) -> Any:
        member = {"member_id": "m", "client_id": "c", "client_host": "/h"}
        return {
            "groups": [
                {"group_id": name, "group_state": "Stable", "protocol_type": "consumer", "members": [member, member]}
                for name in request.groups
            ]
        }

    def _offsets(self, header: RequestHeader, request: Any) -> Any:
        parts = [{"name": "t", "partitions": [{"partition_index": 1, "committed_offset": 40, "metadata": ""}]}]
        if header.api_version < 8:
            return {"topics": parts, "error_code": 0}
        return {"groups": [{"group_id": each.group_id, "topics": parts} for each in request.groups]}

    def _configs(self, header: RequestHeader, request: Any) -> Any:
        entry = {"name": "min.insync.replicas", "value": "2"}
        return {
            "results": [
                {"resource_type": each.resource_type, "resource_name": each.resource_name, "configs": [entry]}
                for each in request.resources
            ]
        }


def told(view: ClusterView) -> list[tuple[int, str]]:
    return [(problem.broker, problem.what) for problem in view.problems]


def test_a_look_takes_few_requests() -> None:
    cluster = Brokers(1, 2, 3)
    with cluster.running() as bootstrap, collector(bootstrap) as collects:
        collects.collect()
        before = {key: sum(broker.count(key) for broker in cluster.brokers.values()) for key in ApiKey}
        view = collects.collect()
        after = {key: sum(broker.count(key) for broker in cluster.brokers.values()) for key in ApiKey}
    asked = {key.name: after[key] - before[key] for key in ApiKey if after[key] != before[key]}
    assert asked == {
        "METADATA": 1, "DESCRIBE_CLUSTER": 1, "DESCRIBE_TOPIC_PARTITIONS": 2, "DESCRIBE_QUORUM": 1,
        "LIST_PARTITION_REASSIGNMENTS": 1, "LIST_GROUPS": 3, "DESCRIBE_LOG_DIRS": 3, "LIST_OFFSETS": 3,
        "DESCRIBE_GROUPS": 3, "OFFSET_FETCH": 3,
    }  # fmt: skip
    assert [part.partition for part in view.partitions] == [1, 2, 3], "both pages"
    assert view.controller == 1, "without a quorum brokers know the controller"
    assert [part.size_bytes for part in view.partitions] == [10, 20, 30], "of the leader"
    assert {group.group_id: (group.members, group.lag) for group in view.groups} == {
        "g1": (2, 60), "g2": (2, 60), "g3": (2, 60),
    }  # fmt: skip
    assert view.totals.under_min_isr == 3
    assert told(view) == []


def test_what_a_silent_broker_does_not_tell_is_named_and_later_looks_are_quick() -> None:
    cluster = Brokers(1, 2)
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        collects.collect()
        cluster.silence(2)
        first = collects.collect()
        second = collects.collect()
    assert told(first) == told(second) == [(2, "no response")]
    assert [(broker.id, broker.is_responding) for broker in first.brokers] == [(1, True), (2, False)]
    assert [event.kind for event in first.events] == ["broker-silent"]
    assert [(group.group_id, group.is_lag_known) for group in first.groups] == [("g1", True), ("g2", False)]
    assert first.groups[1].unknown == "its coordinator, broker 2, does not respond"
    assert first.totals.lag is None and first.unlisted
    assert [part.end_offset for part in first.partitions] == [100, None]
    assert first.took_ms >= PATIENCE_MS
    assert cluster.brokers[2].count(ApiKey.LIST_GROUPS) == 2, "it owes an answer: it is not asked again"
    (reason,) = second.unlisted
    assert "broker 2 did not list its groups: No response from" in reason, "the reason of the snapshot that asked it"


def test_a_cluster_that_is_away_is_reported_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the shorter time-out the test would take two minutes."""
    monkeypatch.setattr("kafkatools.tools.monitor.collector.SILENCE_MS", 300)
    cluster = Brokers(1, 2)
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=60_000) as collects:
        collects.collect()
        requests = sum(broker.count(ApiKey.METADATA) for broker in cluster.brokers.values())
        for id in cluster.ids:
            cluster.silence(id)
        with pytest.raises(Timeout, match="No response within 300 ms"):
            collects.collect()
        assert sum(broker.count(ApiKey.METADATA) for broker in cluster.brokers.values()) == requests + 1


def test_a_slow_broker_is_waited_for_when_another_responds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkatools.tools.monitor.collector.SILENCE_MS", 200)
    cluster = Brokers(1, 2)
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        collects.collect()
        cluster.silence(2)
        assert collects.collect().took_ms >= PATIENCE_MS


class CaughtUp(Brokers):
    """Their groups have consumed partitions 1 and 2 to the end."""

    def _offsets(self, header: RequestHeader, request: Any) -> Any:
        parts = [{"partition_index": id, "committed_offset": 100, "metadata": ""} for id in (1, 2)]
        topics = [{"name": "t", "partitions": parts}]
        return {"groups": [{"group_id": each.group_id, "topics": topics} for each in request.groups]}


def test_the_time_of_a_group_behind_an_unknown_end_is_unknown() -> None:
    cluster = CaughtUp(1, 2)
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        known = collects.collect()
        cluster.silence(2)
        unknown = collects.collect()
    assert (known.groups[0].lag, known.groups[0].lag_ms) == (0, 0)
    assert (unknown.groups[0].lag, unknown.groups[0].lag_ms) == (None, None)


def test_a_broker_that_falls_silent_within_a_look_is_named() -> None:
    cluster = Brokers(1, 2)
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        collects.collect()
        cluster.silence(2, ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH)
        view = collects.collect()
    assert told(view) == [(2, "no response")]
    assert [broker.is_responding for broker in view.brokers] == [True, False]


def test_a_coordinator_that_tells_offsets_late_is_not_silent() -> None:
    cluster = Brokers(1, 2)
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        collects.collect()
        cluster.silence(2, ApiKey.OFFSET_FETCH)
        looks = [collects.collect() for _ in range(3)]
    for view in looks:
        assert told(view) == [(2, "offsets of groups")]
        assert [broker.is_responding for broker in view.brokers] == [True, True]
        assert [part.end_offset for part in view.partitions] == [100, 100]
        assert [group.is_lag_known for group in view.groups] == [True, False]
        assert view.totals.lag is None
    assert cluster.brokers[2].count(ApiKey.OFFSET_FETCH) == 2, "it owes an answer: it is not asked again"


def test_a_broker_that_went_away_is_asked_again_when_it_is_back() -> None:
    cluster = Brokers(1, 2)
    answer = cluster.brokers[2].answers[ApiKey.LIST_GROUPS]
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        collects.collect()
        cluster.brokers[2].answers[ApiKey.LIST_GROUPS] = lambda header, request: CLOSE
        away = collects.collect()
        cluster.brokers[2].answers[ApiKey.LIST_GROUPS] = answer
        looks = [collects.collect() for _ in range(2)]
        while not looks[-1].brokers[1].is_responding and len(looks) < 500:
            looks.append(collects.collect())
    assert not away.brokers[1].is_responding
    assert looks[-1].brokers[1].is_responding and told(looks[-1]) == []
    assert [event.kind for event in looks[-1].events if event.broker == 2] == ["broker-answers"]


def test_a_fenced_broker_is_not_asked() -> None:
    cluster = Brokers(1, 2)
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        collects.collect()
        cluster.fenced = {2}
        cluster.silence(2)
        collects.collect()
        asked = cluster.brokers[2].count(ApiKey.LIST_GROUPS)
        view = collects.collect()
    assert view.brokers[1].is_fenced and not view.brokers[1].is_responding
    assert cluster.brokers[2].count(ApiKey.LIST_GROUPS) == asked
    assert told(view) == []


def test_without_a_controller_the_rest_is_told_quickly() -> None:
    cluster = Brokers(1, 2)
    for id in cluster.ids:
        cluster.silence(id, ApiKey.DESCRIBE_QUORUM, ApiKey.LIST_PARTITION_REASSIGNMENTS)
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        view = collects.collect()
        while "not responded yet" not in view.problems[0].error:  # each broker is tried, and hangs
            view = collects.collect()
        asked = [broker.count(ApiKey.DESCRIBE_QUORUM) for broker in cluster.brokers.values()]
        view = collects.collect()
    assert told(view) == [(-1, "quorum"), (-1, "reassignments")]
    assert asked == [broker.count(ApiKey.DESCRIBE_QUORUM) for broker in cluster.brokers.values()] == [1, 1]
    assert view.controller == NO_BROKER, "what brokers call the controller is any of them"
    assert len(view.groups) == 2 and all(part.end_offset == 100 for part in view.partitions)


def test_a_controller_that_is_slow_is_not_gone_at_once() -> None:
    cluster = Brokers(1, 2)
    partition = {"partition_index": 0, "leader_id": 2, "leader_epoch": 1, "high_watermark": 5}
    quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [partition]}]}
    for broker in cluster.brokers.values():
        broker.answers[ApiKey.DESCRIBE_QUORUM] = lambda header, request: quorum
    with cluster.running() as bootstrap, collector(bootstrap, patience_ms=PATIENCE_MS) as collects:
        assert collects.collect().controller == 2
        for id in cluster.ids:
            cluster.silence(id, ApiKey.DESCRIBE_QUORUM, ApiKey.LIST_PARTITION_REASSIGNMENTS)
        looks = [collects.collect() for _ in range(4)]
    assert [view.controller for view in looks] == [2, 2, NO_BROKER, NO_BROKER]
    assert [[event.kind for event in view.events] for view in looks] == [[], [], ["controller-changed"], []]


def test_who_may_not_describe_the_cluster_knows_neither_quorum_nor_reassignments() -> None:
    cluster = Brokers(1)
    for api in (ApiKey.DESCRIBE_QUORUM, ApiKey.LIST_PARTITION_REASSIGNMENTS):
        cluster.brokers[1].answers[api] = lambda header, request: {"error_code": 31, "topics": ()}
    with cluster.running() as bootstrap, collector(bootstrap) as collects:
        view = collects.collect()
    assert view.controller == NOT_REPORTED
    assert told(view) == [(NO_BROKER, "quorum"), (NO_BROKER, "reassignments")]


def test_old_brokers_tell_what_they_can() -> None:
    cluster = Brokers(1, 2)
    lacking = (ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_QUORUM)
    for broker in cluster.brokers.values():
        old = {int(ApiKey.OFFSET_FETCH): (2, 7), int(ApiKey.LIST_GROUPS): (0, 3)}
        broker.versions = {**dict.fromkeys(map(int, lacking), (32000, 32000)), **old}
        broker.answers[ApiKey.FIND_COORDINATOR] = lambda header, request: {
            "coordinators": [
                {"key": key, "node_id": int(key[1:]), "host": "127.0.0.1", "port": 1}
                for key in request.coordinator_keys
            ]
        }
    with cluster.running() as bootstrap, collector(bootstrap) as collects:
        view = collects.collect()
    assert told(view) == []
    assert (view.quorum, view.controller) == (None, 1)
    assert [(part.leader, part.elr) for part in view.partitions] == [(1, None), (2, None)]
    assert {group.group_id: (group.type, group.members, group.lag) for group in view.groups} == {
        "g1": ("Unknown", 2, 60), "g2": ("Unknown", 2, 60),
    }  # fmt: skip


def test_errors_of_partitions_are_told_together() -> None:
    cluster = Brokers(1)

    def not_leader(header: RequestHeader, request: Any) -> Any:
        parts = [{"partition_index": part.partition_index, "error_code": 6} for part in request.topics[0].partitions]
        return {"topics": [{"name": "t", "partitions": parts}]}

    cluster.brokers[1].answers[ApiKey.LIST_OFFSETS] = not_leader
    with cluster.running() as bootstrap, collector(bootstrap) as collects:
        view = collects.collect()
    assert told(view) == [(1, "offset of t-1")]
    (group,) = view.groups
    assert group.lag is None and group.partitions is not None


def test_a_look_changes_nothing(tmp_path: pathlib.Path) -> None:
    """A broker without topics and groups, internal ones too, has none after it either."""
    with embedded_broker(tmp_path) as bootstrap, collector(bootstrap) as collects:
        for _ in range(2):
            view = collects.collect()
            assert (view.topics, view.groups, view.problems) == ((), (), ())
