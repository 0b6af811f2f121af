"""Partitions and the active controller: elections, ISR changes, reassignments, placement, balance.

Expected behaviour is that of ReplicationControlManager of Apache Kafka 4.3; messages are letter for letter those of its
4.3.1 jars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.quorum_controller import Cluster, directory, incarnation, request

from kafkatools.core.broker.metadata.controller.configs import ConfigChange
from kafkatools.core.broker.metadata.controller.features import FeatureUpdate
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.errors import (
    BrokerIdNotRegistered,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    StaleBrokerEpoch,
    UnknownTopicOrPartition,
)

PREFERRED, UNCLEAN = 0, 1
SET, DELETE, APPEND = 0, 1, 2


def _elect(cluster: Cluster, election_type: int, name: str = "a", index: int = 0) -> KafkaError | None:
    return cluster.controller.elect_leaders(election_type, [(name, [index])])[0][1][0][1]


def _reassign(
    cluster: Cluster, replicas: Sequence[int] | None, index: int = 0, *, may_change_factor: bool = True
) -> KafkaError | None:
    return cluster.controller.alter_reassignments([("a", index, replicas)], may_change_factor=may_change_factor)[0]


def _state(cluster: Cluster, index: int = 0) -> tuple[Any, ...]:
    state = cluster.partition("a", index)
    return state.leader, state.isr, state.elr


# -- elections by loss ---------------------------------------------------------------------------------------------
def test_the_next_replica_that_is_in_sync_leads_in_the_order_of_the_assignment() -> None:
    cluster = Cluster([1, 2, 3, 4])
    cluster.create("a", [3, 1, 4, 2])
    cluster.alter_isr("a", [2, 4, 3])
    cluster.kill(3)
    assert _state(cluster) == (4, (2, 4), ())


def test_the_last_replicas_that_were_in_sync_may_lead_again_and_nobody_else() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2, 3], min_insync_replicas="2")
    cluster.alter_isr("a", [1, 2])
    cluster.kill(2)
    assert _state(cluster) == (1, (1,), (2,))
    cluster.kill(1)
    assert _state(cluster) == (-1, (), (1, 2))
    assert cluster.partition("a").last_known_elr == (1,)
    cluster.unfence(2)
    assert _state(cluster) == (2, (2,), (1,))
    assert cluster.partition("a").leader_recovery_state == 0
    assert cluster.partition("a").last_known_elr == ()
    assert cluster.reports == [line for line in cluster.reports if "unclean" not in line]


def test_with_enough_in_sync_those_who_left_are_not_eligible() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2, 3], min_insync_replicas="1")
    cluster.alter_isr("a", [1])
    cluster.kill(1)
    assert _state(cluster) == (-1, (), (1,))
    cluster.unfence(1)
    assert _state(cluster) == (1, (1,), ())


def test_without_eligible_replicas_the_last_in_the_isr_keeps_its_place() -> None:
    cluster = Cluster([1, 2], elr=False)
    cluster.create("a", [1, 2])
    cluster.alter_isr("a", [1])
    cluster.kill(1)
    assert _state(cluster) == (-1, (1,), ())
    assert _elect(cluster, PREFERRED).__class__ is PreferredLeaderNotAvailable
    cluster.unfence(1)
    assert _state(cluster) == (1, (1,), ())


@pytest.mark.parametrize("elr", [True, False])
def test_an_unclean_election_happens_when_the_topic_allows_it_and_is_told(elr: bool) -> None:
    cluster = Cluster([1, 2], elr=elr)
    cluster.create("a", [1, 2], unclean_leader_election_enable="true")
    cluster.alter_isr("a", [1])
    cluster.kill(1)
    state = cluster.partition("a")
    assert (state.leader, state.isr, state.leader_recovery_state) == (2, (2,), 1)
    topic_id = cluster.image.topics["a"].topic_id
    told = (
        f"Setting new leader for topicId {topic_id}, partition 0 to 2 using an unclean election: records of a-0 may "
        "be lost."
    )
    assert told in cluster.reports


def test_the_cluster_allows_unclean_elections_where_the_topic_says_nothing() -> None:
    cluster = Cluster([1, 2], elr=False)
    cluster.controller.alter_configs(
        (4, ""), [ConfigChange("unclean.leader.election.enable", SET, "true")], validate_only=False
    )
    cluster.create("a", [1, 2])
    cluster.create("b", [1, 2], unclean_leader_election_enable="false")
    for name in ("a", "b"):
        cluster.alter_isr(name, [1])
    cluster.kill(1)
    assert [cluster.partition(name).leader for name in ("a", "b")] == [2, -1]


def test_allowing_unclean_elections_later_helps_at_the_next_search() -> None:
    cluster = Cluster([1, 2], {"unclean.leader.election.interval.ms": "60000"}, elr=False)
    cluster.create("a", [1, 2])
    cluster.alter_isr("a", [1])
    cluster.kill(1)
    cluster.controller.alter_configs(
        (2, "a"), [ConfigChange("unclean.leader.election.enable", SET, "true")], validate_only=False
    )
    assert cluster.partition("a").leader == -1
    for _ in range(12):
        cluster.pass_time(5000, alive=[2])
    assert cluster.partition("a").leader == 2


def test_a_recovering_leader_is_alone_in_its_isr_until_it_has_recovered() -> None:
    cluster = Cluster([1, 2, 3], elr=False)
    cluster.create("a", [1, 2, 3], unclean_leader_election_enable="true")
    cluster.alter_isr("a", [1])
    cluster.kill(1)
    assert cluster.alter_isr("a", [2, 3])["error_code"] == 42
    answer = cluster.alter_isr("a", [2, 3], leader_recovery_state=0)
    assert (answer["error_code"], answer["leader_recovery_state"]) == (0, 0)
    assert cluster.alter_isr("a", [2], leader_recovery_state=1)["error_code"] == 42


def test_changing_min_insync_replicas_clears_who_was_eligible_under_the_old_value() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2], min_insync_replicas="2")
    cluster.kill(2)
    assert cluster.partition("a").elr == (2,)
    offset, epoch = cluster.log.end_offset, cluster.partition("a").partition_epoch
    cluster.controller.alter_configs((2, "a"), [ConfigChange("min.insync.replicas", SET, "1")], validate_only=False)
    assert cluster.log.names(offset) == ["ConfigRecord", "ClearElrRecord"]
    assert cluster.partition("a").elr == ()
    assert cluster.partition("a").partition_epoch == epoch + 1  # as Apache Kafka's, whose leaders name this epoch


@pytest.mark.parametrize("resource", [(2, "a"), (4, "")])
def test_a_partition_that_has_only_eligible_leaders_left_keeps_them(resource: tuple[int, str]) -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2])
    cluster.controller.alter_configs((4, ""), [ConfigChange("min.insync.replicas", SET, "2")], validate_only=False)
    for broker_id in (2, 1):
        cluster.kill(broker_id)
    before = cluster.partition("a")
    assert (before.isr, before.elr, before.last_known_elr) == ((), (1, 2), (1,))
    cluster.controller.alter_configs(resource, [ConfigChange("min.insync.replicas", SET, "1")], validate_only=False)
    assert (cluster.partition("a").elr, cluster.partition("a").last_known_elr) == ((1, 2), (1,))
    cluster.register(2, 2)
    cluster.unfence(2)
    assert cluster.partition("a").leader == -1  # stopped uncleanly, so it may lack records
    cluster.register(1, 2, previous_broker_epoch=cluster.epochs[1])
    cluster.unfence(1)
    assert cluster.partition("a").leader == 1


def test_the_reassignment_of_a_partition_that_has_only_eligible_leaders_left_can_be_cancelled() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2], min_insync_replicas="2")
    assert cluster.controller.alter_reassignments([("a", 0, [3, 2])]) == [None]
    for broker_id in (2, 1):
        cluster.kill(broker_id)
    assert (cluster.partition("a").isr, cluster.partition("a").elr) == ((), (1, 2))
    assert cluster.controller.alter_reassignments([("a", 0, None)]) == [None]
    after = cluster.partition("a")
    assert (after.replicas, after.isr, after.elr, after.leader) == ((2, 1), (), (1, 2), -1)
    cluster.register(1, 2, previous_broker_epoch=cluster.epochs[1])
    cluster.unfence(1)
    assert cluster.partition("a").leader == 1


def test_a_partition_that_had_no_leader_before_has_no_last_known_one() -> None:
    cluster = Cluster([1, 2, 3], elr=False)
    cluster.create("a", [1, 2])
    for broker_id in (2, 1):
        cluster.kill(broker_id)
    feature = FeatureUpdate("eligible.leader.replicas.version", 1)
    cluster.controller.update_features([feature], validate_only=False)
    assert cluster.controller.alter_reassignments([("a", 0, [3])]) == [None]
    assert cluster.controller.alter_reassignments([("a", 0, None)]) == [None]
    assert (cluster.partition("a").leader, cluster.partition("a").last_known_elr) == (-1, None)


# -- elections on request ------------------------------------------------------------------------------------------
def test_elections_on_request_say_why_there_was_none() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2])
    refused = [
        (PREFERRED, "b", 0, UnknownTopicOrPartition, "No such topic as b"),
        (PREFERRED, "a", 3, UnknownTopicOrPartition, "No such partition as a-3"),
        (PREFERRED, "a", 0, ElectionNotNeeded, "Leader election not needed for topic partition."),
        (UNCLEAN, "a", 0, ElectionNotNeeded, "Leader election not needed for topic partition."),
    ]
    for election_type, name, index, error, message in refused:
        found = _elect(cluster, election_type, name, index)
        assert (type(found), str(found)) == (error, message)


def test_the_preferred_leader_leads_again_when_it_is_asked_for_and_in_sync() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2], [2, 1])
    cluster.kill(1)
    cluster.unfence(1)
    assert type(_elect(cluster, PREFERRED)) is PreferredLeaderNotAvailable
    cluster.alter_isr("a", [2, 1])
    assert cluster.controller.elect_leaders(PREFERRED, None) == [("a", [(0, None)])]
    assert (cluster.partition("a").leader, cluster.partition("a").isr) == (1, (2, 1))


def test_an_unclean_election_on_request_needs_no_permission_of_the_topic() -> None:
    cluster = Cluster([1, 2], elr=False)
    cluster.create("a", [1, 2])
    cluster.alter_isr("a", [1])
    cluster.kill(1)
    assert _elect(cluster, UNCLEAN) is None
    assert (cluster.partition("a").leader, cluster.partition("a").leader_recovery_state) == (2, 1)
    assert "unclean election" in cluster.reports[-1]


def test_with_nobody_alive_there_is_nobody_to_elect() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1])
    cluster.kill(1)
    assert type(_elect(cluster, UNCLEAN)) is EligibleLeadersNotAvailable


# -- balance -------------------------------------------------------------------------------------------------------
def _imbalanced(settings: dict[str, object]) -> Cluster:
    cluster = Cluster([1, 2], {"leader.imbalance.check.interval.seconds": "60", **settings})
    cluster.create("a", *[[1, 2]] * 10)
    for index in range(2):
        state = cluster.partition("a", index)
        state.leader, state.leader_epoch = 2, 1  # as after an election
    return cluster


@pytest.mark.parametrize(("settings", "leaders"), [({}, {1}), ({"auto.leader.rebalance.enable": "false"}, {1, 2})])
def test_leadership_goes_back_by_itself_to_who_is_preferred(settings: dict[str, object], leaders: set[int]) -> None:
    cluster = _imbalanced(settings)
    cluster.pass_time(5000, alive=[1, 2])
    assert {cluster.partition("a", index).leader for index in range(10)} == {1, 2}
    for _ in range(11):
        cluster.pass_time(5000, alive=[1, 2])
    assert {cluster.partition("a", index).leader for index in range(10)} == leaders


def test_many_partitions_go_back_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkatools.core.broker.metadata.controller.leader_balance.MAX_ELECTIONS", 1)
    cluster = _imbalanced({})
    for _ in range(12):
        cluster.pass_time(5000, alive=[1, 2])
    assert {cluster.partition("a", index).leader for index in range(10)} == {1, 2}
    assert cluster.controller.next_deadline_ms == cluster.now_ms + 1
    cluster.pass_time(1)
    assert {cluster.partition("a", index).leader for index in range(10)} == {1}


# -- ISR changes ---------------------------------------------------------------------------------------------------
def test_a_leader_changes_its_isr_and_hears_the_new_epoch() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2, 3])
    assert cluster.alter_isr("a", [1, 3]) == {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": 1,
        "leader_epoch": 0,
        "isr": (1, 3),
        "leader_recovery_state": 0,
        "partition_epoch": 1,
    }
    assert cluster.alter_isr("a", [1, 3])["partition_epoch"] == 1  # nothing changed: nothing is written


INVALID_REQUEST, NOT_CONTROLLER, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA = 42, 41, 74, 95, 107


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ([1, 2], {"leader_epoch": 9}, NOT_CONTROLLER),
        ([1, 2], {"partition_epoch": 9}, NOT_CONTROLLER),
        ([1, 2], {"leader_epoch": 0}, FENCED_LEADER_EPOCH),
        ([1, 2], {"broker_id": 2}, INVALID_REQUEST),
        ([1, 2], {"partition_epoch": 0}, INVALID_UPDATE_VERSION),
        ([], {}, INVALID_REQUEST),
        ([1, 1], {}, INVALID_REQUEST),
        ([1, 9], {}, INVALID_REQUEST),
        ([2, 3], {}, INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, INVALID_REQUEST),
        ([1, 3], {}, INELIGIBLE_REPLICA),
        ([1, 4], {}, INELIGIBLE_REPLICA),
        ([1, 2], {"new_isr_with_epochs": [{"broker_id": 1}, {"broker_id": 2, "broker_epoch": 9}]}, INELIGIBLE_REPLICA),
    ],
)
def test_an_isr_change_is_refused_with_the_code_for_it(isr: list[int], changes: dict[str, Any], code: int) -> None:
    """3 is fenced, 4 is stopping; the partition has leader epoch 1 and some partition epoch above 0."""
    cluster = Cluster([1, 2, 3, 4])
    cluster.create("a", [1, 2, 3, 4])
    cluster.create("b", [4])
    cluster.kill(3)
    cluster.heartbeat(4, want_shut_down=True)
    state = cluster.partition("a")
    state.leader_epoch = 1
    assert state.isr == (1, 2) and state.partition_epoch > 0
    before = cluster.log.end_offset
    assert cluster.alter_isr("a", isr, **changes)["error_code"] == code
    assert cluster.log.end_offset == before


def test_an_isr_change_of_an_unknown_partition_or_an_earlier_process_is_refused() -> None:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2])
    assert cluster.alter_isr("a", [1], partition_index=7)["error_code"] == 3
    cluster.image.topics_by_id.clear()
    assert cluster.alter_isr("a", [1])["error_code"] == 100
    cluster.epochs[1] += 1
    with pytest.raises(StaleBrokerEpoch):
        cluster.alter_isr("a", [1])


def test_a_follower_that_was_restarted_meanwhile_is_not_taken_for_its_former_self() -> None:
    """KIP-903: the leader names the epoch under which the follower fetched."""
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2])
    cluster.alter_isr("a", [1])
    former = cluster.epochs[2]
    cluster.clock.advance_ms(9000)
    cluster.heartbeat(1)
    cluster.register(2, 1)
    cluster.unfence(2)
    with_former = [{"broker_id": 1, "broker_epoch": cluster.epochs[1]}, {"broker_id": 2, "broker_epoch": former}]
    assert cluster.alter_isr("a", [1, 2], new_isr_with_epochs=with_former)["error_code"] == INELIGIBLE_REPLICA
    assert cluster.alter_isr("a", [1, 2])["error_code"] == 0


# -- reassignments -------------------------------------------------------------------------------------------------
def test_a_reassignment_goes_through_adding_and_removing_and_ends_when_the_new_are_in_sync() -> None:
    cluster = Cluster([1, 2, 3, 4])
    cluster.create("a", [1, 2, 3])
    assert _reassign(cluster, [4, 2, 3]) is None
    state = cluster.partition("a")
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((4, 2, 3, 1), (4,), (1,))
    assert (state.leader, state.isr, state.leader_epoch) == (1, (1, 2, 3), 0)
    assert state.directories == (directory(4), directory(2), directory(3), directory(1))
    assert cluster.controller.list_reassignments(None) == [("a", [state])]
    assert cluster.alter_isr("a", [1, 2, 3, 4])["error_code"] == 108  # NEW_LEADER_ELECTED
    state = cluster.partition("a")
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((4, 2, 3), (), ())
    assert (state.leader, state.isr, state.leader_epoch) == (4, (2, 3, 4), 1)
    assert state.directories == (directory(4), directory(2), directory(3))
    assert cluster.controller.list_reassignments(None) == []


def test_a_leader_that_stays_is_told_nothing_special_when_a_reassignment_ends() -> None:
    cluster = Cluster([1, 2, 3, 4])
    cluster.create("a", [1, 2, 3])
    _reassign(cluster, [1, 2, 4])
    answer = cluster.alter_isr("a", [1, 2, 3, 4])
    assert (answer["error_code"], answer["isr"], answer["leader_id"], answer["leader_epoch"]) == (0, (1, 2, 4), 1, 1)


def test_what_only_changes_the_order_is_done_at_once() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2, 3])
    assert _reassign(cluster, [2, 3, 1]) is None
    state = cluster.partition("a")
    assert (state.replicas, state.is_reassigning, state.leader) == ((2, 3, 1), False, 1)
    offset = cluster.log.end_offset
    assert _reassign(cluster, [2, 3, 1]) is None
    assert cluster.log.end_offset == offset


def test_a_smaller_replication_factor_is_reached_at_once_when_who_stays_is_in_sync() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2, 3])
    assert _reassign(cluster, [2, 3]) is None
    state = cluster.partition("a")
    assert (state.replicas, state.isr, state.leader, state.leader_epoch) == ((2, 3), (2, 3), 2, 1)


def test_a_reassignment_that_is_taken_back_leaves_the_replicas_that_were_there() -> None:
    cluster = Cluster([1, 2, 3, 4])
    cluster.create("a", [1, 2, 3])
    _reassign(cluster, [2, 3, 4])
    assert _reassign(cluster, None) is None
    state = cluster.partition("a")
    assert (sorted(state.replicas), state.isr, state.is_reassigning) == ([1, 2, 3], (1, 2, 3), False)
    assert type(_reassign(cluster, None)) is NoReassignmentInProgress


def test_a_reassignment_is_not_taken_back_when_only_new_replicas_are_in_sync() -> None:
    cluster = Cluster([1, 2, 3, 4])
    cluster.create("a", [1, 2])
    _reassign(cluster, [3, 4])
    cluster.alter_isr("a", [1, 2, 3])
    for broker_id in (1, 2):
        cluster.kill(broker_id)
    assert cluster.partition("a").isr == (3,)
    refused = _reassign(cluster, None)
    assert type(refused) is InvalidReplicaAssignment
    assert str(refused) == (
        "Unable to revert partition assignment for a:0 because it would require an unclean leader election."
    )
    cluster.controller.alter_configs(
        (2, "a"), [ConfigChange("unclean.leader.election.enable", SET, "true")], validate_only=False
    )
    cluster.unfence(2)
    assert _reassign(cluster, None) is None
    assert cluster.partition("a").leader == 2


def test_a_reassignment_that_goes_back_to_what_was_there_ends() -> None:
    """Apache Kafka 4.3.1 keeps 4 among what is added, and waits for ever."""
    cluster = Cluster([1, 2, 3, 4])
    cluster.create("a", [1, 2, 3])
    _reassign(cluster, [4, 2, 3])
    assert _reassign(cluster, [1, 2, 3]) is None
    state = cluster.partition("a")
    assert (state.replicas, state.is_reassigning, state.leader) == ((1, 2, 3), False, 1)


def test_a_reassignment_may_replace_another() -> None:
    cluster = Cluster([1, 2, 3, 4, 5])
    cluster.create("a", [1, 2, 3])
    _reassign(cluster, [4, 2, 3])
    _reassign(cluster, [5, 2, 3])
    state = cluster.partition("a")
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((5, 2, 3, 1, 4), (5,), (1, 4))
    cluster.alter_isr("a", [1, 2, 3, 5])
    assert (cluster.partition("a").replicas, cluster.partition("a").leader) == ((5, 2, 3), 5)


@pytest.mark.parametrize(
    ("replicas", "error", "message"),
    [
        ([], InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list."),
        (
            [1, 9],
            InvalidReplicaAssignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            [1, 1],
            InvalidReplicaAssignment,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ],
)
def test_a_reassignment_is_refused_in_kafka_s_words(replicas: list[int], error: type[KafkaError], message: str) -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2])
    refused = _reassign(cluster, replicas)
    assert (type(refused), str(refused)) == (error, message)
    assert str(_reassign(cluster, [1], 5)) == "Unable to find partition a:5."
    assert str(cluster.controller.alter_reassignments([("b", 0, [1])])[0]) == "Unable to find a topic named b."


def test_the_replication_factor_changes_only_when_it_may() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2])
    refused = _reassign(cluster, [1, 2, 3], may_change_factor=False)
    assert (type(refused), str(refused)) == (
        InvalidReplicationFactor,
        "The replication factor is changed from 2 to 3",
    )
    assert _reassign(cluster, [1, 3], may_change_factor=False) is None
    assert str(_reassign(cluster, [3], may_change_factor=False)) == "The replication factor is changed from 2 to 1"


def test_a_reassignment_waits_for_a_broker_that_is_down_and_ends_when_it_is_back() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [1, 2])
    cluster.kill(3)
    assert _reassign(cluster, [1, 3]) is None
    assert cluster.alter_isr("a", [1, 2, 3])["error_code"] == INELIGIBLE_REPLICA
    assert cluster.partition("a").is_reassigning
    cluster.unfence(3)
    assert cluster.alter_isr("a", [1, 2, 3])["error_code"] == 0
    assert cluster.partition("a").replicas == (1, 3)


# -- topics --------------------------------------------------------------------------------------------------------
def test_new_topics_are_spread_over_racks_and_never_led_by_who_is_fenced() -> None:
    cluster = Cluster([1, 2, 3, 4, 5, 6], racks={1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"})
    cluster.kill(6)
    cluster.controller.create_topics([NewTopic("a", 30, 3)])
    partitions = cluster.image.topics["a"].partitions.values()
    for state in partitions:
        assert {cluster.racks[each] for each in state.replicas} == {"a", "b", "c"}
        assert 6 not in state.replicas and state.leader == state.replicas[0] and state.isr == state.replicas
    leaders = [state.leader for state in partitions]
    assert {leaders.count(each) for each in (1, 2, 3, 4)} <= set(range(3, 9))


def test_a_fenced_broker_gets_replicas_only_where_there_is_no_other_and_is_not_in_sync() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.kill(3)
    cluster.controller.create_topics([NewTopic("a", 6, 3)])
    for state in cluster.image.topics["a"].partitions.values():
        assert sorted(state.replicas) == [1, 2, 3]
        assert state.leader in (1, 2) and sorted(state.isr) == [1, 2]


_FENCED = "All brokers are currently fenced, or have all their log directories cordoned."


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (
            NewTopic("a", 1, 4),
            InvalidReplicationFactor,
            "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because "
            "only 3 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            NewTopic("a", assignments=((0, (1, 2)), (1, (1,)))),
            InvalidReplicaAssignment,
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
            "previous partitions, which have 2 replica(s).",
        ),
        (
            NewTopic("a", assignments=((0, (3,)),)),
            InvalidReplicaAssignment,
            "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
            "shutdown.",
        ),
        (
            NewTopic("a", assignments=((0, (1, 9)),)),
            InvalidReplicaAssignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            NewTopic("a", assignments=((0, (1,)), (2, (1,)))),
            InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence",
        ),
    ],
)
def test_a_topic_is_refused_in_kafka_s_words(topic: NewTopic, error: type[KafkaError], message: str) -> None:
    """Broker 3 is fenced."""
    cluster = Cluster([1, 2, 3])
    cluster.kill(3)
    refused = cluster.controller.create_topics([topic])["a"]
    assert (type(refused), str(refused)) == (error, message)


def test_without_anybody_unfenced_there_are_no_new_topics_and_partitions() -> None:
    cluster = Cluster([1])
    cluster.create("a", [1])
    cluster.kill(1)
    refused = cluster.controller.create_topics([NewTopic("b", 1, 1)])["b"]
    assert str(refused) == f"Unable to replicate the partition 1 time(s): {_FENCED}"
    with pytest.raises(InvalidReplicationFactor) as error:
        cluster.controller.create_partitions("a", 2, None, validate_only=False)
    assert str(error.value) == _FENCED


def test_new_partitions_have_as_many_replicas_as_the_first() -> None:
    cluster = Cluster([1, 2, 3])
    cluster.create("a", [2, 1])
    cluster.controller.create_partitions("a", 3, None, validate_only=False)
    assert [len(cluster.partition("a", index).replicas) for index in range(3)] == [2, 2, 2]
    cluster.controller.create_partitions("a", 4, [[3, 1]], validate_only=False)
    assert cluster.partition("a", 3).replicas == (3, 1)
    refusals: list[tuple[int, Any, type[KafkaError], str]] = [
        (4, None, InvalidPartitions, "Topic already has 4 partition(s)."),
        (2, None, InvalidPartitions, "The topic a currently has 4 partition(s); 2 would not be an increase."),
        (
            6,
            [[1, 2]],
            InvalidReplicaAssignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            5,
            [[1]],
            InvalidReplicaAssignment,
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
            "previous partitions, which have 2 replica(s).",
        ),
    ]
    for count, assignments, error, message in refusals:
        with pytest.raises(error) as refused:
            cluster.controller.create_partitions("a", count, assignments, validate_only=False)
        assert str(refused.value) == message


def test_topics_of_one_request_are_written_together_and_a_validated_one_not_at_all() -> None:
    cluster = Cluster([1, 2])
    batches = len(cluster.log.batches)
    made = cluster.controller.create_topics([NewTopic("a", 2, 2), NewTopic("b", 1, 9), NewTopic("c", 1, 1)])
    assert [type(made[name]).__name__ for name in "abc"] == ["TopicState", "InvalidReplicationFactor", "TopicState"]
    assert len(cluster.log.batches) == batches + 1
    assert cluster.log.records[-1].__version__ == 2
    planned = cluster.controller.create_topics([NewTopic("d", 2, 2)], validate_only=True)["d"]
    assert len(planned.partitions) == 2  # type: ignore[union-attr]
    assert len(cluster.log.batches) == batches + 1 and "d" not in cluster.image.topics


def test_ten_thousand_partitions_are_one_batch_and_more_are_refused() -> None:
    cluster = Cluster([1, 2, 3])
    refused = cluster.controller.create_topics([NewTopic("a", 10_001, 3)])["a"]
    assert str(refused) == "Excessively large number of partitions per request."
    cluster.controller.create_topics([NewTopic("a", 2000, 3)])
    assert cluster.log.batches[-1] == 2001


# -- settings and features -----------------------------------------------------------------------------------------
def test_settings_are_of_brokers_that_are_registered() -> None:
    cluster = Cluster([1, 2])
    change = [ConfigChange("background.threads", SET, "12")]
    cluster.controller.alter_configs((4, "2"), change, validate_only=False)
    assert cluster.image.configs[4, "2"] == {"background.threads": "12"}
    with pytest.raises(BrokerIdNotRegistered, match="^No node with id 9 found.$"):
        cluster.controller.alter_configs((4, "9"), change, validate_only=False)


def test_settings_of_the_only_broker_are_changed_by_a_controller_on_another_node() -> None:
    cluster = Cluster([2])
    registration = {"controller_id": 3, "incarnation_id": incarnation(3), "listeners": [], "features": []}
    cluster.controller.register_controller(request(70, {**registration, "zk_migration_ready": False}))
    change = [ConfigChange("background.threads", SET, "12")]
    for node_id in ("2", "3"):
        cluster.controller.alter_configs((4, node_id), change, validate_only=False)
        assert cluster.image.configs[4, node_id] == {"background.threads": "12"}


def test_settings_of_a_broker_are_compared_with_its_own_and_not_with_those_of_the_controller() -> None:
    cluster = Cluster([1, 2], {"log.dirs": "/one"})

    def alter(name: str, value: str, operation: int = SET, broker: str = "2") -> str | None:
        cluster.controller.alter_configs((4, broker), [ConfigChange(name, operation, value)], validate_only=False)
        return cluster.image.configs[4, broker].get(name)

    assert alter("num.io.threads", "16") == "16"
    assert alter("num.io.threads", "32") == "32"  # twice the broker's 16, and four times the controller's 8
    assert alter("cordoned.log.dirs", "/one", broker="1") == "/one"
    assert alter("cordoned.log.dirs", "/two", APPEND) == "/two"
    with pytest.raises(InvalidRequest, match="Missing entries : /two"):
        alter("cordoned.log.dirs", "/two", broker="1")


def test_a_level_that_a_broker_does_not_support_is_refused() -> None:
    cluster = Cluster(elr=False)
    features = [
        {"name": name, "min_supported_version": 0, "max_supported_version": high}
        for name, high in {"metadata.version": 30, "transaction.version": 2, "group.version": 1}.items()
    ]
    features += [
        {"name": name, "min_supported_version": 0, "max_supported_version": 1}
        for name in ("share.version", "streams.version")
    ]
    cluster.register(2, features=features)
    with pytest.raises(InvalidUpdateVersion) as refused:
        cluster.controller.update_features([FeatureUpdate("eligible.leader.replicas.version", 1)], validate_only=False)
    assert str(refused.value) == (
        "The update failed for all features since the following feature had an error: Invalid update version 1 for "
        "feature eligible.leader.replicas.version. Broker 2 does not support this feature."
    )


def test_enabling_eligible_leader_replicas_leaves_one_min_insync_replicas_for_all() -> None:
    cluster = Cluster([1, 2], {"min.insync.replicas": "2"}, elr=False)
    cluster.controller.alter_configs((4, "2"), [ConfigChange("min.insync.replicas", SET, "1")], validate_only=False)
    cluster.controller.update_features([FeatureUpdate("eligible.leader.replicas.version", 1)], validate_only=False)
    assert cluster.image.configs[4, ""] == {"min.insync.replicas": "2"}
    assert (4, "2") not in cluster.image.configs
