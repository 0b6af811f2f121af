"""Brokers and the active controller: registration, heartbeats, fencing, controlled shutdown, directories, fail-over.

Expected behaviour is that of ClusterControlManager, BrokerHeartbeatManager and ActivationRecordsGenerator of Apache
Kafka 4.3; messages are letter for letter those of its 4.3.1 jars.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from support.quorum_controller import Cluster, Log, directory, incarnation, request

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.metadata.image_records import copy_image, image_records
from kafkatools.core.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    KafkaError,
    NotController,
    StaleBrokerEpoch,
    UnsupportedVersion,
)

SESSION_MS = 9000


# -- activation ----------------------------------------------------------------------------------------------------
def test_a_new_cluster_begins_with_its_bootstrap_records_in_a_transaction() -> None:
    cluster = Cluster()
    names = cluster.log.names()
    assert (names[0], names[-2], names[-1]) == ("BeginTransactionRecord", "ConfigRecord", "EndTransactionRecord")
    assert cluster.log.records[0].name == "Bootstrap records"
    assert cluster.log.batches == [len(names)]
    assert cluster.image.features["metadata.version"] == 30
    assert cluster.image.configs[4, ""] == {"min.insync.replicas": "1"}


def test_metadata_versions_without_transactions_begin_without_one() -> None:
    assert set(Cluster(release="3.5-IV2").log.names()) == {"FeatureLevelRecord"}


def test_the_next_controller_knows_what_was_committed_and_writes_no_second_bootstrap() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2])
    following = cluster.controller_of(2)
    log = Log(2, cluster.log.end_offset)
    following.activate(cluster.image, log, cluster.now_ms)
    assert log.records == []
    assert following.image.topics["a"].partitions[0].replicas == (1, 2)
    assert following.image.brokers[2].epoch == cluster.epochs[2]
    writer = following.ensure_active()
    assert (writer.epoch, writer.end_offset) == (2, cluster.log.end_offset)


def test_a_transaction_that_was_left_open_is_aborted_and_none_of_it_counts() -> None:
    from kafkatools.core.protocol.schemas.metadata import BeginTransactionRecord, TopicRecord

    cluster = Cluster([1])
    committed = copy_image(cluster.image)
    committed.replay(BeginTransactionRecord(name="half"))
    committed.replay(TopicRecord(name="half", topic_id=uuid.UUID(int=5)))
    following, log = cluster.controller_of(2), Log(2)
    following.activate(committed, log, cluster.now_ms)
    assert [(name, record.reason) for name, record in zip(log.names(), log.records, strict=True)] == [
        ("AbortTransactionRecord", "Controller failover")
    ]
    assert "half" not in following.image.topics and not following.image.is_in_transaction
    following.create_topics([NewTopic("whole", 1, 1)])
    assert "whole" in following.image.topics


def test_a_transaction_that_only_the_log_knows_of_is_aborted_too() -> None:
    cluster = Cluster([1])
    following, log = cluster.controller_of(2), Log(2)
    following.activate(cluster.image, log, cluster.now_ms, is_amid_transaction=True)
    assert log.names() == ["AbortTransactionRecord"]


def test_a_bootstrap_that_was_not_finished_is_aborted_and_made_again() -> None:
    cluster = Cluster()
    half = MetadataImage()
    for record in cluster.log.records[:-1]:
        half.replay(record)
    following, log = cluster.controller_of(2, cluster.log.records[1:-2]), Log(2)
    following.activate(half, log, cluster.now_ms)
    assert log.names()[:2] == ["AbortTransactionRecord", "BeginTransactionRecord"]
    assert following.image.features == cluster.image.features


def test_who_is_not_active_does_nothing_but_say_so() -> None:
    cluster = Cluster([1])
    entity = cluster.registration(2)
    cluster.controller.deactivate()
    controller = cluster.controller
    assert not controller.is_active and controller.next_deadline_ms is None
    controller.tick(cluster.now_ms)
    calls: list[Any] = [
        lambda: controller.image,
        lambda: controller.register_broker(entity, 0),
        lambda: controller.create_topics([NewTopic("a", 1, 1)]),
        lambda: controller.elect_leaders(0, None),
        lambda: controller.alter_reassignments([("a", 0, None)]),
        lambda: controller.list_reassignments(None),
        lambda: controller.unregister_broker(1),
        lambda: controller.take_producer_ids(1, 1),
        lambda: controller.alter_configs((2, "a"), [], validate_only=False),
        lambda: controller.update_features([], validate_only=False),
        lambda: controller.create_acls([]),
    ]
    for call in calls:
        with pytest.raises(NotController):
            call()


def test_a_controller_that_may_not_write_any_more_is_not_active_any_more() -> None:
    cluster = Cluster([1])
    cluster.log.is_leader = False
    with pytest.raises(NotController):
        cluster.create("a", [1])
    assert not cluster.controller.is_active


# -- registration --------------------------------------------------------------------------------------------------
def test_a_broker_s_epoch_is_the_offset_of_its_registration_and_it_begins_fenced() -> None:
    cluster = Cluster()
    offset = cluster.log.end_offset
    assert cluster.register(3) == offset
    broker = cluster.image.brokers[3]
    assert (broker.epoch, broker.is_fenced, broker.log_dirs) == (offset, True, (directory(3),))
    assert cluster.log.names(offset) == ["RegisterBrokerRecord"]
    assert cluster.log.records[-1].__version__ == 4


def test_another_process_under_the_same_id_waits_until_the_session_is_over() -> None:
    cluster = Cluster([1])
    with pytest.raises(DuplicateBrokerRegistration) as refused:
        cluster.register(1, 1)
    assert str(refused.value) == (
        "Another broker is registered with that broker id. If the broker was recently restarted this should "
        "self-resolve once the heartbeat manager expires the broker's session."
    )
    cluster.clock.advance_ms(SESSION_MS)
    epoch = cluster.register(1, 1)
    assert cluster.image.brokers[1].incarnation_id == incarnation(1, 1)
    assert cluster.image.brokers[1].epoch == epoch


def test_a_process_that_follows_a_clean_stop_waits_for_no_session() -> None:
    """Ours: Apache Kafka 4.3 lets it wait (docs/differences.md, `broker-registration`)."""
    cluster = Cluster([1])
    before = cluster.epochs[1]
    with pytest.raises(DuplicateBrokerRegistration):
        cluster.register(1, 1, previous_broker_epoch=before - 1)
    assert cluster.register(1, 1, previous_broker_epoch=before) > before
    assert cluster.image.brokers[1].incarnation_id == incarnation(1, 1)


def test_the_same_process_keeps_its_epoch_and_is_not_fenced_by_registering_again() -> None:
    cluster = Cluster([1])
    epoch = cluster.epochs[1]
    assert cluster.register(1) == epoch
    assert not cluster.image.brokers[1].is_fenced


def _with_directories(*ids: uuid.UUID) -> dict[str, Any]:
    return {"log_dirs": list(ids)}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"cluster_id": "other"},
            InconsistentClusterId,
            "Expected cluster ID MkU3OEVBNTcwNTJENDM2Qk, but got cluster ID other",
        ),
        ({"log_dirs": []}, InvalidRegistration, "No directories specified in request"),
        (_with_directories(uuid.UUID(int=99)), InvalidRegistration, "Reserved directory ID in request"),
        (_with_directories(directory(2), directory(2)), InvalidRegistration, "Duplicate directory ID in request"),
        (
            _with_directories(directory(1)),
            InvalidRegistration,
            "Broker 1 is already registered with directory AAAAAAAAAAIAAAAAAAAAAQ",
        ),
        (
            {"is_migrating_zk_broker": True},
            BrokerIdNotRegistered,
            "Controller does not support registering ZK brokers.",
        ),
        (
            {"features": [{"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 29}]},
            UnsupportedVersion,
            "Unable to register because the broker does not support finalized version 30 of metadata.version. The "
            "broker wants a version between 7 and 29, inclusive.",
        ),
        ({"features": []}, InvalidRegistration, "Request features do not contain 'metadata.version'"),
        (
            {"features": [{"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}]},
            UnsupportedVersion,
            "Unable to register because the broker does not support finalized version 2 of transaction.version. The "
            "broker wants a version between 0 and 0, inclusive.",
        ),
    ],
)
def test_a_registration_is_refused_in_kafka_s_words(
    changes: dict[str, Any], error: type[KafkaError], message: str
) -> None:
    cluster = Cluster([1])
    with pytest.raises(error) as refused:
        cluster.register(2, **changes)
    assert str(refused.value) == message
    assert 2 not in cluster.image.brokers


def test_a_clean_restart_leaves_eligible_replicas_and_an_unclean_one_does_not() -> None:
    for previous, expected in ((True, (2,)), (False, ())):
        cluster = Cluster([1, 2])
        cluster.create("a", [1, 2], min_insync_replicas="2")
        cluster.kill(2)
        assert cluster.partition("a").elr == (2,)
        cluster.register(2, 1, previous_broker_epoch=cluster.epochs[2] if previous else -1)
        assert cluster.partition("a").elr == expected


def test_a_restart_that_is_faster_than_the_session_takes_the_broker_out_of_the_isr() -> None:
    cluster = Cluster([1, 2], elr=False)
    cluster.create("a", [1, 2])
    cluster.clock.advance_ms(SESSION_MS)
    cluster.heartbeat(2)
    cluster.register(1, 1)
    state = cluster.partition("a")
    assert (state.leader, state.isr, state.leader_epoch) == (2, (2,), 1)


def test_a_broker_that_is_unregistered_leaves_isr_and_eligible_replicas() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2, 3], min_insync_replicas="3")
    cluster.kill(2)
    assert cluster.partition("a").elr == (2,)
    cluster.controller.unregister_broker(1)
    state = cluster.partition("a")
    assert (state.leader, state.isr, 1 in cluster.image.brokers) == (3, (3,), False)
    with pytest.raises(BrokerIdNotRegistered, match="^Broker ID 1 is not currently registered$"):
        cluster.controller.unregister_broker(1)


def test_a_controller_registers_where_it_listens() -> None:
    cluster = Cluster([1])
    fields = {
        "controller_id": 2,
        "incarnation_id": incarnation(9),
        "zk_migration_ready": False,
        "listeners": [{"name": "CONTROLLER", "host": "h", "port": 9, "security_protocol": 0}],
        "features": [{"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}],
    }
    cluster.controller.register_controller(request(70, fields))
    assert cluster.image.controllers[2].end_points[0].host == "h"
    with pytest.raises(UnsupportedVersion, match="too old to support controller registrations"):
        Cluster(release="3.6-IV2").controller.register_controller(request(70, fields))


# -- heartbeats ----------------------------------------------------------------------------------------------------
def test_a_broker_is_unfenced_when_it_has_read_its_own_registration() -> None:
    cluster = Cluster()
    epoch = cluster.register(1)
    answer = cluster.heartbeat(1, epoch - 1)
    assert (answer["is_caught_up"], answer["is_fenced"]) == (False, True)
    assert cluster.heartbeat(1, epoch, want_fence=True)["is_fenced"]
    answer = cluster.heartbeat(1, epoch)
    assert (answer["is_caught_up"], answer["is_fenced"], answer["should_shut_down"]) == (True, False, False)
    assert cluster.log.names(epoch + 1) == ["BrokerRegistrationChangeRecord"]
    cluster.heartbeat(1)
    assert len(cluster.log.names(epoch + 1)) == 1


@pytest.mark.parametrize(
    ("broker_id", "epoch", "message"),
    [
        (7, 1, "No broker registration found for broker id 7"),
        (1, 99, "Expected broker epoch 10, but got broker epoch 99"),
    ],
)
def test_a_heartbeat_of_nobody_or_of_an_earlier_process_is_stale(broker_id: int, epoch: int, message: str) -> None:
    cluster = Cluster([1])
    cluster.epochs[broker_id], known = epoch, cluster.epochs[1]
    with pytest.raises(StaleBrokerEpoch) as refused:
        cluster.heartbeat(broker_id)
    assert str(refused.value) == message.replace("10", str(known))


def test_a_broker_that_is_not_heard_of_is_fenced_when_its_session_is_over() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2])
    cluster.pass_time(SESSION_MS - 1, alive=[2])
    assert cluster.image.brokers[1].is_active
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 1
    cluster.pass_time(1)
    assert cluster.image.brokers[1].is_fenced and not cluster.image.brokers[2].is_fenced
    state = cluster.partition("a")
    assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (2, (2,), 1, 1)
    assert cluster.reports == [f"Fencing broker 1 at epoch {cluster.epochs[1]} because its session has timed out."]


def test_brokers_that_are_lost_together_are_fenced_one_after_the_other() -> None:
    """The second one's election knows that the first is gone: nobody leads in between who is not there."""
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2, 3])
    cluster.pass_time(SESSION_MS, alive=[3])
    state = cluster.partition("a")
    assert (state.leader, state.isr) == (3, (3,))


def test_a_fence_that_cannot_be_written_is_tried_again() -> None:
    cluster = Cluster([1, 2])
    cluster.log.failure = OSError(28, "No space left on device")
    cluster.pass_time(SESSION_MS)
    assert cluster.image.brokers[1].is_active
    assert cluster.reports == ["The controller cannot write to the metadata log: [Errno 28] No space left on device"]
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 1000
    cluster.log.failure = None
    cluster.pass_time(999)
    assert cluster.image.brokers[1].is_active
    cluster.pass_time(1)
    assert cluster.image.brokers[1].is_fenced and cluster.image.brokers[2].is_fenced


def test_who_is_replaced_amid_its_duties_leaves_them() -> None:
    cluster = Cluster([1])
    cluster.log.is_leader = False
    cluster.pass_time(SESSION_MS)
    assert not cluster.controller.is_active


def test_a_new_controller_gives_every_broker_a_full_session() -> None:
    cluster = Cluster([1, 2])
    cluster.clock.advance_ms(SESSION_MS - 1)
    following = cluster.controller_of(2)
    following.activate(cluster.image, Log(2), cluster.now_ms)
    cluster.clock.advance_ms(SESSION_MS - 1)
    following.tick(cluster.now_ms)
    assert following.image.brokers[1].is_active
    cluster.clock.advance_ms(1)
    following.tick(cluster.now_ms)
    assert following.image.brokers[1].is_fenced


def test_the_session_of_the_node_that_led_before_runs_since_it_was_heard_of() -> None:
    cluster = Cluster([1, 2])
    following = cluster.controller_of(2)
    begun_ms = cluster.now_ms
    cluster.clock.advance_ms(SESSION_MS // 2)
    following.activate(cluster.image, Log(2), cluster.now_ms, last_leader_contact=(1, begun_ms))
    cluster.clock.advance_ms(SESSION_MS // 2 - 1)
    following.tick(cluster.now_ms)
    assert following.image.brokers[1].is_active
    cluster.clock.advance_ms(2)
    following.tick(cluster.now_ms)
    assert following.image.brokers[1].is_fenced and following.image.brokers[2].is_active


def test_what_was_heard_of_a_leader_long_ago_does_not_end_its_session() -> None:
    cluster = Cluster([1, 2])
    following = cluster.controller_of(2)
    begun_ms = cluster.now_ms
    cluster.clock.advance_ms(10 * SESSION_MS)
    following.activate(cluster.image, Log(2), cluster.now_ms, last_leader_contact=(1, begun_ms))
    cluster.clock.advance_ms(SESSION_MS - 1)
    following.tick(cluster.now_ms)
    assert following.image.brokers[1].is_active


def test_a_broker_that_wants_to_stop_leads_nothing_and_others_know_before_it_may() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2], [2, 1])
    answer = cluster.heartbeat(1, want_shut_down=True)
    assert (answer["should_shut_down"], answer["is_fenced"]) == (False, False)
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert [cluster.partition("a", i).leader for i in (0, 1)] == [2, 2]
    assert cluster.partition("a").isr == (2,)
    offset = cluster.log.end_offset - 1
    cluster.heartbeat(2)
    cluster.heartbeat(3, offset - 1)
    assert not cluster.heartbeat(1, want_shut_down=True)["should_shut_down"]
    cluster.heartbeat(3, offset)
    answer = cluster.heartbeat(1, want_shut_down=True)
    assert (answer["should_shut_down"], answer["is_fenced"]) == (True, True)
    assert cluster.image.brokers[1].is_fenced


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [2, 1])
    assert cluster.heartbeat(1, want_shut_down=True)["should_shut_down"]
    assert cluster.image.brokers[1].is_fenced
    assert cluster.partition("a").isr == (2,)
    assert cluster.heartbeat(1, want_shut_down=True)["should_shut_down"]


def test_the_last_broker_in_the_isr_waits_with_its_leadership() -> None:
    """With nobody to take over it stays in controlled shutdown with an empty ISR; it is an eligible leader replica."""
    cluster = Cluster([1])
    cluster.create("a", [1])
    assert not cluster.heartbeat(1, want_shut_down=True)["should_shut_down"]
    state = cluster.partition("a")
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (-1, (), (1,), (1,))
    assert cluster.heartbeat(1, want_shut_down=True)["should_shut_down"]


def test_an_idle_controller_writes_a_record_that_says_nothing() -> None:
    cluster = Cluster([1], {"metadata.max.idle.interval.ms": "500"})
    offset = cluster.log.end_offset
    cluster.pass_time(499, alive=[1])
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 1
    cluster.pass_time(1)
    assert cluster.log.names(offset) == ["NoOpRecord"]


# -- directories ---------------------------------------------------------------------------------------------------
def _two_directories(cluster: Cluster) -> tuple[uuid.UUID, uuid.UUID]:
    ids = directory(1, 0), directory(1, 1)
    cluster.register(1, log_dirs=list(ids))
    cluster.unfence(1)
    return ids


def _assign(cluster: Cluster, broker_id: int, directory_id: uuid.UUID, topic_id: uuid.UUID, *indexes: int) -> list[int]:
    partitions = [{"partition_index": index} for index in indexes]
    fields = {
        "broker_id": broker_id,
        "broker_epoch": cluster.epochs[broker_id],
        "directories": [{"id_": directory_id, "topics": [{"topic_id": topic_id, "partitions": partitions}]}],
    }
    answer = cluster.controller.assign_directories(request(73, fields))
    return [each["error_code"] for each in answer["directories"][0]["topics"][0]["partitions"]]


def test_a_replica_is_in_the_only_directory_or_where_its_broker_says() -> None:
    cluster = Cluster([2])
    first, second = _two_directories(cluster)
    cluster.create("a", [1, 2], [2, 1])
    assert cluster.partition("a").directories == (uuid.UUID(int=1), directory(2))
    topic_id = cluster.image.topics["a"].topic_id
    assert _assign(cluster, 1, second, topic_id, 0) == [0]
    assert cluster.partition("a").directories == (second, directory(2))
    assert cluster.partition("a").leader_epoch == 0
    assert _assign(cluster, 1, first, topic_id, 5) == [3]
    assert _assign(cluster, 1, first, uuid.UUID(int=8), 0) == [100]
    cluster.create("b", [2])
    assert _assign(cluster, 1, first, cluster.image.topics["b"].topic_id, 0) == [6]


def test_what_is_in_a_directory_that_fails_is_led_by_others() -> None:
    cluster = Cluster([2])
    first, second = _two_directories(cluster)
    cluster.create("a", [1, 2], [1, 2])
    topic_id = cluster.image.topics["a"].topic_id
    _assign(cluster, 1, first, topic_id, 0)
    _assign(cluster, 1, second, topic_id, 1)
    cluster.heartbeat(1, offline_log_dirs=[second])
    assert [(cluster.partition("a", i).leader, cluster.partition("a", i).isr) for i in (0, 1)] == [
        (1, (1, 2)),
        (2, (2,)),
    ]
    assert cluster.image.brokers[1].log_dirs == (first,)
    offset = cluster.log.end_offset
    cluster.heartbeat(1, offline_log_dirs=[second])
    assert cluster.log.end_offset == offset


def test_a_replica_that_is_put_into_a_failed_directory_leaves_the_isr() -> None:
    cluster = Cluster([2])
    _, second = _two_directories(cluster)
    cluster.create("a", [1, 2])
    cluster.heartbeat(1, offline_log_dirs=[second])
    assert _assign(cluster, 1, second, cluster.image.topics["a"].topic_id, 0) == [0]
    assert (cluster.partition("a").leader, cluster.partition("a").isr) == (2, (2,))


@pytest.mark.parametrize("elr", [True, False])
def test_a_broker_does_not_lead_from_a_directory_that_failed_before_it_was_unfenced(elr: bool) -> None:
    cluster = Cluster([2], elr=elr)
    _, second = _two_directories(cluster)
    cluster.create("a", [1, 2])
    _assign(cluster, 1, second, cluster.image.topics["a"].topic_id, 0)
    cluster.alter_isr("a", [1])
    cluster.kill(1)
    assert cluster.partition("a").leader == -1
    cluster.register(1, 2, log_dirs=cluster.image.brokers[1].log_dirs)
    cluster.heartbeat(1, offline_log_dirs=[second])
    assert not cluster.image.brokers[1].is_fenced
    assert cluster.partition("a").leader == -1


def test_a_broker_whose_directories_are_all_cordoned_gets_no_new_replicas() -> None:
    cluster = Cluster([1, 2])
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    assert cluster.image.brokers[1].cordoned_log_dirs == (directory(1),)
    made = cluster.controller.create_topics([NewTopic("a", 4, 1), NewTopic("b", 1, 2)])
    assert {each.replicas for each in cluster.image.topics["a"].partitions.values()} == {(2,)}
    assert str(made["b"]) == (
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
        "only 1 broker(s) are registered or some brokers have all their log directories cordoned."
    )
    offset = cluster.log.end_offset
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    cluster.heartbeat(1)
    assert cluster.log.end_offset == offset
    cluster.heartbeat(1, cordoned_log_dirs=[])
    assert cluster.image.brokers[1].cordoned_log_dirs == ()


# -- producer ids --------------------------------------------------------------------------------------------------
def test_every_broker_gets_producer_ids_of_its_own() -> None:
    cluster = Cluster([1, 2])
    blocks = [cluster.controller.take_producer_ids(each, cluster.epochs[each]) for each in (1, 2, 1)]
    assert blocks == [range(0, 1000), range(1000, 2000), range(2000, 3000)]
    record = cluster.log.records[-1]
    assert (record.broker_id, record.broker_epoch, record.next_producer_id) == (1, cluster.epochs[1], 3000)
    with pytest.raises(StaleBrokerEpoch):
        cluster.controller.take_producer_ids(1, cluster.epochs[1] + 1)


def test_the_image_of_a_snapshot_has_everything_a_controller_needs() -> None:
    cluster = Cluster([1, 2])
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    cluster.create("a", [1, 2], min_insync_replicas="2")
    cluster.kill(2)
    again = MetadataImage()
    for record in image_records(cluster.image):
        again.replay(record)
    assert again.brokers == cluster.image.brokers
    assert again.topics == cluster.image.topics


def test_a_new_controller_decides_on_a_copy_of_its_own() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2], min_insync_replicas="2")
    copy = copy_image(cluster.image)
    assert (copy.brokers, copy.topics, copy.configs) == (
        cluster.image.brokers,
        cluster.image.topics,
        cluster.image.configs,
    )
    assert copy.topics_by_id == {topic.topic_id: topic for topic in copy.topics.values()}
    before = copy_image(copy)
    cluster.kill(2)
    cluster.create("b", [1])
    assert (copy.brokers, copy.topics) == (before.brokers, before.topics)
