"""kt why about topics, partitions, brokers and the cluster: faults of three embedded nodes, each the only verdict."""

from __future__ import annotations

import pathlib
import re
import threading
from collections.abc import Iterator

import pytest
from support.live_groups import GroupClient
from support.waiting import eventually
from support.why import Between, make_topic, only_cause, produce, soon_healthy, why

from kafkatools import EmbeddedCluster, Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER, DELETE, SET, TOPIC, ConfigChange, incremental_alter_configs
from kafkatools.core.admin.group_offsets import alter_offsets
from kafkatools.core.admin.groups import delete_groups
from kafkatools.core.admin.quorum import describe_metadata_quorum
from kafkatools.core.admin.reassignments import alter_reassignments
from kafkatools.core.admin.topics import delete_topics, describe_all_topics, describe_topics
from kafkatools.core.admin.transactions import describe_transactions
from kafkatools.core.clock import SystemClock
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.diagnosis import broker_causes

SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "replication.quota.window.size.seconds": "3600",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "unclean.leader.election.enable": "false",
}


@pytest.fixture(scope="module")
def started() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, SETTINGS) as nodes:
        yield nodes


@pytest.fixture
def cluster(started: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """Three nodes that are all alive and in sync, before and after a test."""
    yield started
    for node in started.node_ids:
        if started.state(node) == "paused":
            started.resume(node)
        if started.state(node) == "dead":
            started.restart(node)
    eventually(lambda: is_in_sync(started), 60)


def is_in_sync(nodes: EmbeddedCluster) -> bool:
    with AdminClient(nodes.bootstrap, {}, SystemClock()) as admin:
        topics = describe_all_topics(admin).values()
    return all(len(part.isr) == len(part.replicas) for topic in topics for part in topic.partitions)


def partition(bootstrap: str, topic: str, number: int = 0) -> tuple[int, tuple[int, ...]]:
    """Leader and ISR."""
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        part = describe_topics(admin, [topic])[topic].partitions[number]
    return part.leader, part.isr


def test_a_sound_cluster(cluster: EmbeddedCluster) -> None:
    make_topic(cluster.bootstrap, "sound", 3, 3)
    for words in ((), ("topic", "sound"), ("partition", "sound-2"), ("broker", "2")):
        soon_healthy(cluster.bootstrap, *words)


@pytest.mark.slow
def test_a_dead_broker(cluster: EmbeddedCluster) -> None:
    make_topic(cluster.bootstrap, "lone", assignments={0: [2]})
    make_topic(cluster.bootstrap, "strict", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"})
    cluster.kill(2)
    eventually(lambda: partition(cluster.bootstrap, "lone")[0] == -1)
    eventually(lambda: partition(cluster.bootstrap, "strict")[1] == (1,))
    for words in ((), ("topic", "lone"), ("partition", "lone-0"), ("broker", "2"), ("topic", "strict")):
        verdict = only_cause(cluster.bootstrap, *words)
        assert verdict["cause"] == "broker-offline", (words, verdict)
        assert verdict["sentence"].startswith("Broker 2 (127.0.0.1:")
    # Until a broker has applied every new leader, it reports more partitions without one.
    consequence = "Consequence: 1 partition without a leader: lone-0"
    eventually(lambda: consequence in " ".join(only_cause(cluster.bootstrap, "topic", "lone")["evidence"]))
    consequence = "Consequence: 1 partition under min.insync.replicas: strict-0"
    eventually(lambda: consequence in " ".join(only_cause(cluster.bootstrap, "topic", "strict")["evidence"]))
    evidence = " ".join(only_cause(cluster.bootstrap)["evidence"])  # which has the topics of other tests, too
    assert re.search("Consequence: [0-9]+ partitions? without a leader: .*lone-0", evidence)
    assert re.search("Consequence: [0-9]+ partitions? under min.insync.replicas: .*strict-0", evidence)


@pytest.mark.slow
def test_a_dead_broker_without_partitions_of_the_topic_is_no_cause(cluster: EmbeddedCluster) -> None:
    make_topic(cluster.bootstrap, "elsewhere", assignments={0: [1, 3]})
    cluster.kill(2)
    await_broker(cluster, 2, is_alive=False)
    soon_healthy(cluster.bootstrap, "topic", "elsewhere")


def await_broker(nodes: EmbeddedCluster, broker: int, *, is_alive: bool = True) -> None:
    """Waits until each node that runs knows whether the broker is alive: kt why may ask any of them."""
    for node in nodes.node_ids:
        if nodes.state(node) == "running":
            with AdminClient(nodes.address(node), {}, SystemClock()) as admin:
                eventually(lambda admin=admin: (broker in brokers_of(admin)) == is_alive)


def brokers_of(admin: AdminClient) -> list[int]:
    admin.metadata_of((), admin.deadline_ms())
    return admin.brokers()


@pytest.mark.slow
def test_a_group_whose_partition_has_no_leader(cluster: EmbeddedCluster) -> None:
    make_topic(cluster.bootstrap, "sole", assignments={0: [2]})
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        eventually(
            lambda: (
                alter_offsets(admin, {"reads-sole": {("sole", 0): OffsetAndMetadata(1)}})["reads-sole"].error is None
            )
        )
    cluster.kill(2)
    eventually(lambda: partition(cluster.bootstrap, "sole")[0] == -1)
    # A new coordinator of the group does not know its offsets at once; until then kt why ends with 1.
    eventually(lambda: why(cluster.bootstrap, "group", "reads-sole")[0] is ExitStatus.FINDINGS)
    assert only_cause(cluster.bootstrap, "group", "reads-sole")["cause"] == "broker-offline"
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:  # other tests examine the whole cluster
        eventually(lambda: delete_groups(admin, ["reads-sole"])["reads-sole"] is None)


@pytest.mark.slow
def test_a_hanging_broker(cluster: EmbeddedCluster) -> None:
    make_topic(cluster.bootstrap, "paused", assignments={0: [2, 1]})
    for _ in range(3):
        cluster.pause(2)
        try:
            verdict = only_cause(cluster.bootstrap, "broker", "2")
        finally:
            cluster.resume(2)
        if verdict["cause"] != "broker-offline":  # so it is if the controller noticed first, on a busy machine
            break
        await_broker(cluster, 2)
    assert verdict["cause"] == "broker-silent" and "does not respond" in verdict["sentence"]


@pytest.mark.slow
@pytest.mark.parametrize(("least", "cause"), [("1", "under-replicated"), ("2", "under-min-isr")])
def test_a_follower_that_cannot_follow(cluster: EmbeddedCluster, least: str, cause: str) -> None:
    """The leader's log is damaged below the high watermark, so the follower refuses the batch and stays out of the ISR.

    With min.insync.replicas=2 from the start the high watermark would not pass the damage, and the follower would join
    and leave the ISR in turns.
    """
    topic = f"damaged-{least}"
    make_topic(cluster.bootstrap, topic, assignments={0: [1, 2]}, configs={"min.insync.replicas": "1"})
    cluster.kill(2)
    eventually(lambda: partition(cluster.bootstrap, topic)[1] == (1,))
    produce(cluster.bootstrap, topic, value=b"PAYLOAD")
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        changes = {(TOPIC, topic): [ConfigChange("min.insync.replicas", least, SET)]}
        assert not any(incremental_alter_configs(admin, changes).values())
    (log,) = pathlib.Path(cluster.directory(1)).rglob(f"{topic}-0/{0:020}.log")
    data = log.read_bytes()
    with log.open("r+b") as file:
        file.seek(data.index(b"PAYLOAD"))
        file.write(b"X")
    cluster.restart(2)
    try:
        await_broker(cluster, 2)
        verdict = only_cause(cluster.bootstrap, "topic", topic)
    finally:
        with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
            delete_topics(admin, [topic])
    assert verdict["cause"] == cause, verdict
    assert "leader 1, replicas 1, 2, ISR 1" in verdict["evidence"][0]


@pytest.mark.slow
def test_a_throttle_that_was_left_behind(cluster: EmbeddedCluster) -> None:
    make_topic(cluster.bootstrap, "behind", assignments={0: [1, 2]})
    throttle(cluster.bootstrap, 2, "behind", "1")
    cluster.kill(2)
    eventually(lambda: partition(cluster.bootstrap, "behind")[1] == (1,))
    for _ in range(5):
        produce(cluster.bootstrap, "behind", records=2, value=b"x" * 500_000)
    cluster.restart(2)
    try:
        await_broker(cluster, 2)
        verdict = only_cause(cluster.bootstrap, "topic", "behind")
    finally:
        throttle(cluster.bootstrap, 2, "behind", None)
    assert verdict["cause"] == "replication-throttled"
    assert "follower.replication.throttled.rate=1 of broker 2" in verdict["sentence"]
    assert any(text.startswith("Consequence: 1 partition under-replicated") for text in verdict["evidence"])


def throttle(bootstrap: str, broker: int, topic: str, rate: str | None) -> None:
    """Sets or removes the throttle of a follower."""
    action = DELETE if rate is None else SET
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        changes = {
            (BROKER, str(broker)): [ConfigChange("follower.replication.throttled.rate", rate, action)],
            (TOPIC, topic): [ConfigChange("follower.replication.throttled.replicas", rate and "*", action)],
        }
        assert set(incremental_alter_configs(admin, changes).values()) == {None}


@pytest.mark.slow
def test_a_reassignment_to_a_dead_broker(cluster: EmbeddedCluster) -> None:
    make_topic(cluster.bootstrap, "moving", assignments={0: [1]})
    cluster.kill(3)
    await_broker(cluster, 3, is_alive=False)
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        outcome = alter_reassignments(admin, {("moving", 0): (1, 3)})
    verdict = only_cause(cluster.bootstrap, "topic", "moving")
    assert outcome and verdict["cause"] == "broker-offline", verdict
    assert any("The reassignment of moving-0 waits for broker 3" in text for text in verdict["evidence"])


@pytest.mark.slow
def test_no_controller(cluster: EmbeddedCluster) -> None:
    cluster.kill(2)
    cluster.kill(3)
    # A leader needs a moment to notice that it has no majority any more.
    eventually(lambda: (why(cluster.bootstrap)[1]["verdict"] or {}).get("cause") == "controller-missing", 60)


@pytest.mark.slow
def test_a_controller_that_is_behind(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_causes, "_BEHIND_MS", 1000)
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        leader = describe_metadata_quorum(admin).leader_id
    follower = next(node for node in cluster.node_ids if node != leader)
    cluster.pause(follower)
    with AdminClient(cluster.address(leader), {}, SystemClock()) as admin:
        eventually(lambda: behind_ms(admin, follower) > 1000)
    verdict = only_cause(cluster.bootstrap, "broker", str(follower))
    assert verdict["cause"] in ("broker-silent", "broker-offline")
    assert any(
        f"Voter {follower} of the controller quorum has not caught up for" in text for text in verdict["evidence"]
    )
    assert any("2 of 3 voters are current" in text for text in verdict["evidence"])


@pytest.mark.slow
def test_a_controller_that_is_dead_since_before_the_election(cluster: EmbeddedCluster) -> None:
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        dead = describe_metadata_quorum(admin).leader_id
    cluster.kill(dead)
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        eventually(lambda: describe_metadata_quorum(admin).leader_id not in (dead, -1), 60)
        active = describe_metadata_quorum(admin).leader_id
    verdict = only_cause(cluster.bootstrap)
    assert verdict["cause"] in ("broker-silent", "broker-offline")
    (line,) = (text for text in verdict["evidence"] if "Voter " in text)
    assert f"Voter {dead} of the controller quorum has not fetched since controller {active} became active" in line
    assert "2 of 3 voters are current" in line


def behind_ms(admin: AdminClient, voter: int) -> int:
    """How long ago a voter was caught up, by the leader's clock."""
    quorum = describe_metadata_quorum(admin)
    caught_up_ms = {one.id: one.last_caught_up_timestamp for one in quorum.voters}
    return caught_up_ms.get(quorum.leader_id, 0) - caught_up_ms[voter]


def test_another_clock_is_no_finding(cluster: EmbeddedCluster) -> None:
    soon_healthy(cluster.bootstrap, clock=Between(later_ms=600_000))


@pytest.mark.slow
def test_a_transaction_whose_markers_cannot_be_written(cluster: EmbeddedCluster) -> None:
    make_topic(cluster.bootstrap, "marked", assignments={0: [3]})
    with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="marks") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("marked", b"value").result()
        cluster.kill(3)
        committing = threading.Thread(target=producer.commit_transaction)
        committing.start()
        try:
            eventually(lambda: partition(cluster.bootstrap, "marked")[0] == -1)
            eventually(lambda: state_of(cluster.bootstrap, "marks") == "PrepareCommit")
            verdict = only_cause(cluster.bootstrap, "transaction", "marks", clock=Between(later_ms=20_000))
        finally:
            cluster.restart(3)
            committing.join()
    assert verdict["cause"] == "broker-offline"
    assert any("in state PrepareCommit: markers are not written to marked-0" in text for text in verdict["evidence"])


def state_of(bootstrap: str, transactional_id: str) -> str:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        described = describe_transactions(admin, [transactional_id])[transactional_id]
    return str(getattr(described, "state", ""))


@pytest.mark.slow
def test_a_group_without_coordinator() -> None:
    settings = {**SETTINGS, "offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}
    with EmbeddedCluster(3, settings) as nodes, GroupClient(nodes.address(1)) as client:
        make_topic(nodes.bootstrap, "kept", assignments={0: [1, 3]})
        client.find_coordinator("g0")
        found = client.call(
            ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": tuple(f"g{n}" for n in range(30))}
        )
        group = next(one.key for one in found.coordinators if one.node_id == 2)
        with AdminClient(nodes.bootstrap, {}, SystemClock()) as admin:
            offsets = {group: {("kept", 0): OffsetAndMetadata(1)}}
            eventually(lambda: alter_offsets(admin, offsets)[group].error is None)
        nodes.kill(2)
        await_broker(nodes, 2, is_alive=False)
        verdict = only_cause(nodes.bootstrap, "group", group)
    assert verdict["cause"] == "broker-offline"
    assert any(f"Consequence: Group {group} has no coordinator" in text for text in verdict["evidence"])
