"""Groups over a cluster: elections and resignations in every state, loading in slices, answers that wait for the
replicas. The nodes are fakes around the real coordinators and handlers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.coordinator_cluster import NOBODY, Asked, CoordinatorCluster

from kafkatools.core.broker.coordinators.groups import offsets_topic, service
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.internal_topic import partition_for
from kafkatools.core.broker.metadata.image import MetadataDelta, TopicState
from kafkatools.core.errors import NotCoordinator
from kafkatools.core.protocol.slices import pausing

OFFSETS = "__consumer_offsets"
COMMIT, FETCH, FIND, JOIN, BEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE = 8, 9, 10, 11, 12, 13, 14, 15, 16, 42
CONSUMER_BEAT, CONSUMER_DESCRIBE, OFFSET_DELETE = 68, 69, 47
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_MEMBER = 14, 15, 16, 25
GROUP = "g"


class Groups(CoordinatorCluster):
    """A cluster with a topic `t` and the group's partition led by node 1."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self.add_topic("t", 2)
        self.add_topic(OFFSETS, 3, leader=1)
        self.index = partition_for(GROUP, 3)
        self.log = self.logs[OFFSETS, self.index]

    def move(self, leader: int) -> None:
        self.lead(OFFSETS, self.index, leader)
        self.advance(20)

    def join(self, node_id: int, member_id: str = "", protocols: Any = None) -> Asked:
        protocols = protocols or [{"name": "range", "metadata": b"subscription"}]
        return self.ask(
            node_id,
            JOIN,
            3,
            group_id=GROUP,
            session_timeout=10_000,
            rebalance_timeout=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        )

    def joined(self) -> tuple[str, int]:
        """One member of a group that awaits its assignment: its id and generation."""
        waiting = self.join(1)
        self.settle()
        self.advance(3000)
        self.settle()
        assert waiting.answer.error_code == 0
        return waiting.answer.member_id, waiting.answer.generation_id

    def sync(self, node_id: int, member: tuple[str, int], *, is_leader: bool = True) -> Asked:
        assignments = [{"member_id": member[0], "assignment": b"all"}] if is_leader else []
        return self.ask(
            node_id, SYNC, 3, group_id=GROUP, generation_id=member[1], member_id=member[0], assignments=assignments
        )

    def stable(self) -> tuple[str, int]:
        member = self.joined()
        synced = self.sync(1, member)
        self.settle()
        assert synced.answer.error_code == 0
        return member

    def commit(self, node_id: int, offset: int, member: tuple[str, int] = ("", -1)) -> Asked:
        partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
        return self.ask(
            node_id,
            COMMIT,
            8,
            group_id=GROUP,
            generation_id_or_member_epoch=member[1],
            member_id=member[0],
            topics=[{"name": "t", "partitions": partitions}],
        )

    def fetch(self, node_id: int, *, is_stable: bool = False) -> Asked:
        group = {"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0]}]}
        return self.ask(node_id, FETCH, 8, groups=[group], require_stable=is_stable)

    def fetch_all(self, node_id: int) -> dict[int, int]:
        """The offsets of the group, by partition, that are told at once."""
        group = {"group_id": GROUP, "topics": None}
        (found,) = self.ask(node_id, FETCH, 8, groups=[group], require_stable=False).answer.groups
        return {each.partition_index: each.committed_offset for topic in found.topics for each in topic.partitions}


def committed(asked: Asked) -> Any:
    """The error code of a commit's only partition."""
    return None if asked.answer is None else asked.answer.topics[0].partitions[0].error_code


def fetched(asked: Asked) -> tuple[int, int]:
    """The group's error code, or the offset."""
    (group,) = asked.answer.groups
    return (group.error_code, -1) if group.error_code else (0, group.topics[0].partitions[0].committed_offset)


# -- who coordinates ---------------------------------------------------------------------------------------------------
def ask_all(cluster: Groups, node_id: int) -> dict[str, int]:
    """Every request about a group, with the code that the answer gives."""
    group = {"group_id": GROUP}
    leave = cluster.ask(node_id, LEAVE, 3, **group, members=[{"member_id": "m", "group_instance_id": None}])
    beat = cluster.ask(node_id, BEAT, 3, **group, generation_id=1, member_id="m")
    modern = {
        **group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    delete_offsets = {**group, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}
    return {
        "join": cluster.join(node_id).answer.error_code,
        "sync": cluster.sync(node_id, ("m", 1)).answer.error_code,
        "heartbeat": beat.answer.error_code,
        "leave": leave.answer.error_code,
        "commit": committed(cluster.commit(node_id, 1)),
        "fetch": fetched(cluster.fetch(node_id))[0],
        "describe": cluster.ask(node_id, DESCRIBE, 5, groups=[GROUP]).answer.groups[0].error_code,
        "describe consumer": cluster.ask(node_id, CONSUMER_DESCRIBE, 0, group_ids=[GROUP]).answer.groups[0].error_code,
        "delete": cluster.ask(node_id, DELETE, 2, groups_names=[GROUP]).answer.results[0].error_code,
        "delete offsets": cluster.ask(node_id, OFFSET_DELETE, 0, **delete_offsets).answer.error_code,
        "consumer heartbeat": cluster.ask(node_id, CONSUMER_BEAT, 0, **modern).answer.error_code,
    }


def test_a_node_that_does_not_lead_the_groups_partition_is_not_its_coordinator() -> None:
    cluster = Groups()
    assert set(ask_all(cluster, 2).values()) == {NOT_COORDINATOR}
    cluster.move(NOBODY)  # Apache Kafka 4.3.1 answers the same then
    assert set(ask_all(cluster, 2).values()) == {NOT_COORDINATOR}
    assert set(ask_all(cluster, 1).values()) == {NOT_COORDINATOR}


def test_a_partition_that_is_being_loaded_answers_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Groups()
    cluster.commit(1, 5)
    cluster.settle()
    monkeypatch.setattr(offsets_topic, "SLICE_BYTES", 1)
    cluster.lead(OFFSETS, cluster.index, 2)
    assert set(ask_all(cluster, 2).values()) == {LOADING}
    assert cluster.ask(2, LIST, 4, states_filter=[]).answer.error_code == LOADING
    cluster.advance(20)
    assert fetched(cluster.fetch(2)) == (0, 5)
    assert [group.group_id for group in cluster.ask(2, LIST, 4, states_filter=[]).answer.groups] == [GROUP]
    assert not cluster.ask(1, LIST, 4, states_filter=[]).answer.groups


def test_a_coordinator_is_found_where_its_partition_is_led() -> None:
    cluster = Groups()
    record = type("Broker", (), {"is_fenced": False, "endpoints": (("PLAINTEXT", "two", 9192),)})
    cluster.image.brokers[2] = record()  # type: ignore[assignment]
    cluster.move(2)
    (found,) = cluster.ask(3, FIND, 4, key_type=0, coordinator_keys=[GROUP]).answer.coordinators
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 2, "two", 9192)
    cluster.move(NOBODY)
    (found,) = cluster.ask(3, FIND, 4, key_type=0, coordinator_keys=[GROUP]).answer.coordinators
    assert found.error_code == NOT_AVAILABLE


def test_the_topic_is_asked_for_with_as_many_replicas_as_the_settings_say() -> None:
    cluster = CoordinatorCluster(
        offsets_topic_replication_factor="3",
        transaction_state_log_replication_factor="2",
        transaction_state_log_min_isr="1",
        share_coordinator_state_topic_replication_factor="2",
    )
    keys = ["g", "x", "g:AAAAAAAAAAAAAAAAAAAAAQ:0"]
    for kind, key in enumerate(keys):
        (found,) = cluster.ask(1, FIND, 6, key_type=kind, coordinator_keys=[key]).answer.coordinators
        assert found.error_code == NOT_AVAILABLE
    wanted = [(each.name, each.replication_factor) for each in cluster.nodes[1].wanted_topics]
    assert wanted == [(OFFSETS, 3), ("__transaction_state", 2), ("__share_group_state", 2)]
    min_isr = [each.configs.get("min.insync.replicas") for each in cluster.nodes[1].wanted_topics]
    assert min_isr == [None, "1", "2"]


# -- the states of a group, and another leader -------------------------------------------------------------------------
State = Callable[[Groups], list[Asked]]


def empty(cluster: Groups) -> list[Asked]:
    cluster.commit(1, 5)
    cluster.settle()
    return []


def preparing(cluster: Groups) -> list[Asked]:
    return [cluster.join(1), cluster.join(1)]


def completing(cluster: Groups) -> list[Asked]:
    waiting = [cluster.join(1), cluster.join(1)]
    cluster.advance(6000)
    cluster.settle()
    answers = [each.answer for each in waiting]
    follower = next(each for each in answers if each.member_id != each.leader)
    return [cluster.sync(1, (follower.member_id, follower.generation_id), is_leader=False)]


def completing_unreplicated(cluster: Groups) -> list[Asked]:
    return [cluster.sync(1, cluster.joined())]


def stable(cluster: Groups) -> list[Asked]:
    member = cluster.stable()
    return [cluster.commit(1, 9, member)]


def stable_beating(cluster: Groups) -> list[Asked]:
    member = cluster.stable()
    cluster.commit(1, 9, member)
    return [cluster.ask(1, BEAT, 3, group_id=GROUP, generation_id=member[1], member_id=member[0])]


def rebalancing(cluster: Groups) -> list[Asked]:
    cluster.stable()
    return [cluster.join(1)]


@pytest.mark.parametrize(
    "state", [empty, preparing, completing, completing_unreplicated, stable, stable_beating, rebalancing]
)
@pytest.mark.parametrize("leader", [2, NOBODY])
def test_who_waits_for_a_group_that_moves_is_sent_to_its_new_coordinator(state: State, leader: int) -> None:
    cluster = Groups()
    waiting = state(cluster)
    assert [each.answer for each in waiting] == [None] * len(waiting)
    cluster.lead(OFFSETS, cluster.index, leader)
    assert cluster.nodes[1].groups.groups == {}
    assert [each.answer for each in waiting] == [None] * len(waiting), "the change of the metadata comes first"
    cluster.advance(10)
    for each in waiting:
        code = committed(each) if each.api_key == COMMIT else each.answer.error_code
        assert code == NOT_COORDINATOR
    cluster.advance(60_000)
    assert cluster.nodes[1].failures == []
    assert cluster.nodes[1].groups.groups == {}, "no timer brings it back"


def test_a_stable_group_goes_on_with_its_new_coordinator() -> None:
    cluster = Groups()
    member_id, generation = cluster.stable()
    cluster.commit(1, 7, (member_id, generation))
    cluster.settle()
    cluster.move(2)
    beat = cluster.ask(2, BEAT, 3, group_id=GROUP, generation_id=generation, member_id=member_id)
    assert beat.answer.error_code == 0
    assert fetched(cluster.fetch(2)) == (0, 7)
    cluster.advance(11_000)
    beat = cluster.ask(2, BEAT, 3, group_id=GROUP, generation_id=generation, member_id=member_id)
    assert beat.answer.error_code == UNKNOWN_MEMBER, "its session is watched there"
    cluster.settle()
    cluster.move(1)
    assert fetched(cluster.fetch(1)) == (0, 7)


def test_a_consumer_group_goes_on_with_its_new_coordinator() -> None:
    cluster = Groups()
    fields = {
        "group_id": GROUP,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    joined = cluster.ask(1, CONSUMER_BEAT, 1, **fields)
    assert joined.answer is None
    cluster.settle()
    assert joined.answer.error_code == 0
    epoch = joined.answer.member_epoch
    assert len(joined.answer.assignment.topic_partitions[0].partitions) == 2
    cluster.move(2)
    beat = {"group_id": GROUP, "member_id": "m", "member_epoch": epoch, "rebalance_timeout": -1}
    again = cluster.ask(2, CONSUMER_BEAT, 1, **beat, subscribed_topic_names=None, topic_partitions=None)
    assert (again.answer.error_code, again.answer.member_epoch) == (0, epoch)
    cluster.advance(46_000)
    cluster.settle()
    members = cluster.ask(2, CONSUMER_DESCRIBE, 0, group_ids=[GROUP]).answer.groups[0].members
    assert len(members) == 0, "its session is watched there"


# -- what counts -------------------------------------------------------------------------------------------------------
def test_a_read_of_stable_offsets_waits_until_what_it_tells_is_replicated() -> None:
    cluster = Groups()
    asked = cluster.commit(1, 5)
    read = cluster.fetch(1, is_stable=True)
    assert (asked.answer, read.answer) == (None, None)
    cluster.advance(100)
    assert (asked.answer, read.answer) == (None, None)
    cluster.replicate()
    assert (committed(asked), fetched(read)) == (0, (0, 5))


def test_any_other_read_is_answered_at_once_from_what_is_replicated() -> None:
    cluster = Groups()
    cluster.commit(1, 5)
    assert fetched(cluster.fetch(1)) == (0, -1)
    assert cluster.fetch_all(1) == {}
    cluster.settle()
    assert fetched(cluster.fetch(1)) == (0, 5)
    cluster.commit(1, 6)
    cluster.commit(1, 7)
    assert fetched(cluster.fetch(1)) == (0, 5)
    cluster.log.high_watermark = cluster.log.log_end_offset - 1
    assert (fetched(cluster.fetch(1)), cluster.fetch_all(1)) == ((0, 6), {0: 6})
    cluster.settle()
    assert fetched(cluster.fetch(1)) == (0, 7)


def test_an_offset_whose_deletion_is_not_replicated_is_still_told() -> None:
    for api_key, fields in (
        (OFFSET_DELETE, {"group_id": GROUP, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}),
        (DELETE, {"groups_names": [GROUP]}),
    ):
        cluster = Groups()
        cluster.commit(1, 5)
        cluster.settle()
        cluster.ask(1, api_key, 2 if api_key == DELETE else 0, **fields)
        assert cluster.nodes[1].groups.offsets.of_group(GROUP) == {}
        assert (fetched(cluster.fetch(1)), cluster.fetch_all(1)) == ((0, 5), {0: 5})
        cluster.settle()
        assert (fetched(cluster.fetch(1)), cluster.fetch_all(1)) == ((0, -1), {})


def test_the_next_coordinator_tells_what_is_replicated_of_what_it_loads() -> None:
    cluster = Groups()
    cluster.commit(1, 5)
    cluster.settle()
    cluster.commit(1, 6)
    cluster.move(2)
    stable = cluster.fetch(2, is_stable=True)
    assert (fetched(cluster.fetch(2)), stable.answer) == ((0, 5), None)
    cluster.move(1)
    assert fetched(cluster.fetch(1)) == (0, 5)
    cluster.replicate()
    assert (fetched(cluster.fetch(1)), cluster.fetch_all(1)) == ((0, 6), {0: 6})
    cluster.commit(1, 7)
    cluster.log.truncate_to_high_watermark()
    cluster.move(2)
    cluster.move(1)
    cluster.commit(1, 8)
    assert fetched(cluster.fetch(1)) == (0, 6)
    cluster.replicate()
    assert fetched(cluster.fetch(1)) == (0, 8)


def test_a_commit_that_is_not_replicated_in_time_is_to_be_tried_again() -> None:
    cluster = Groups(offsets_commit_timeout_ms="200")
    asked = cluster.commit(1, 5)
    cluster.advance(190)
    assert asked.answer is None
    cluster.advance(20)
    assert committed(asked) == NOT_AVAILABLE
    cluster.replicate()
    assert fetched(cluster.fetch(1)) == (0, 5), "it was late, not lost"


def test_what_was_never_replicated_is_not_known_to_the_next_coordinator() -> None:
    cluster = Groups()
    cluster.commit(1, 5)
    cluster.settle()
    lost = cluster.commit(1, 6)
    cluster.log.truncate_to_high_watermark()
    cluster.move(2)
    assert committed(lost) == NOT_COORDINATOR
    assert fetched(cluster.fetch(2)) == (0, 5)
    cluster.move(1)
    assert fetched(cluster.fetch(1)) == (0, 5)


def test_a_write_that_is_refused_changes_nothing() -> None:
    cluster = Groups()
    cluster.commit(1, 5)
    cluster.settle()
    partition = cluster.nodes[1].replicas.partitions[OFFSETS][cluster.index]
    partition.is_under_min_isr = True
    assert committed(cluster.commit(1, 6)) == NOT_AVAILABLE
    assert fetched(cluster.fetch(1)) == (0, 5)
    partition.is_under_min_isr = False
    assert committed(cluster.commit(1, 7)) is None
    cluster.replicate()
    assert fetched(cluster.fetch(1)) == (0, 7)


def test_a_leader_that_stays_keeps_its_groups_in_the_next_epoch() -> None:
    cluster = Groups()
    member_id, generation = cluster.stable()
    reads = cluster.log.reads
    cluster.move(1)
    beat = cluster.ask(1, BEAT, 3, group_id=GROUP, generation_id=generation, member_id=member_id)
    assert (beat.answer.error_code, cluster.log.reads) == (0, reads)


# -- loading -----------------------------------------------------------------------------------------------------------
def test_loading_goes_on_in_slices_between_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Groups()
    for offset in range(20):
        cluster.commit(1, offset)
    cluster.settle()
    monkeypatch.setattr(offsets_topic, "SLICE_BYTES", 1)
    monkeypatch.setattr(service, "SLICE_RECORDS", 1)
    cluster.lead(OFFSETS, cluster.index, 2)
    turns = 0
    while cluster.nodes[2].coordination.groups.is_loading:
        cluster.clock.advance_ms(1)
        cluster.nodes[2].timer.advance_to(cluster.clock.now_ms())
        turns += 1
        assert turns < 100
    assert turns > 20
    assert fetched(cluster.fetch(2)) == (0, 19)


def test_a_partition_that_is_lost_while_it_is_loaded_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Groups()
    for offset in range(20):
        cluster.commit(1, offset)
    cluster.settle()
    monkeypatch.setattr(offsets_topic, "SLICE_BYTES", 1)
    cluster.lead(OFFSETS, cluster.index, 2)
    cluster.lead(OFFSETS, cluster.index, 3)
    cluster.advance(400)
    assert cluster.nodes[2].groups.groups == {}
    assert fetched(cluster.fetch(3)) == (0, 19)
    assert fetched(cluster.fetch(2)) == (NOT_COORDINATOR, -1)


def test_a_partition_that_cannot_be_read_keeps_nobody_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Groups()
    cluster.commit(1, 5)
    cluster.settle()
    other = (cluster.index + 1) % 3
    cluster.logs[OFFSETS, other].log_end_offset = 1
    read = service.load_partition

    def load_partition(node: Any, groups: Any, partition: Any) -> Iterator[None]:
        if partition.index == other:
            raise ValueError("not a record")
        yield from read(node, groups, partition)

    monkeypatch.setattr(service, "load_partition", load_partition)
    cluster.lead(OFFSETS, other, 2)
    cluster.lead(OFFSETS, cluster.index, 2)
    cluster.advance(100)
    assert fetched(cluster.fetch(2)) == (0, 5)
    assert [str(failure) for failure in cluster.nodes[2].failures] == ["not a record"]
    with pytest.raises(NotCoordinator):
        cluster.nodes[2].coordination.groups.ensure_partition_active(other)


def test_the_high_watermark_of_the_next_leader_confirms_no_commit_that_was_lost() -> None:
    cluster = Groups()
    lost = cluster.commit(1, 5)
    cluster.log.truncate_to_high_watermark()
    cluster.lead(OFFSETS, cluster.index, 2)
    cluster.commit(2, 6)
    cluster.replicate()
    assert committed(lost) is None
    cluster.settle()
    assert committed(lost) == NOT_COORDINATOR


@pytest.mark.parametrize("interruption", range(1, 8))
def test_a_large_commit_leaves_no_offset_of_a_topic_that_is_deleted_meanwhile(interruption: int) -> None:
    cluster = Groups()
    cluster.move(2)
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == interruption:
            recreate(cluster)

    with pausing(pause):
        asked = cluster.commit(2, 5)
    assert pauses >= interruption
    cluster.settle()
    offset = cluster.nodes[2].groups.offsets.get(GROUP, ("t", 0))
    is_committed = offset is not None and offset.topic_id == cluster.image.topics["t"].topic_id
    assert (committed(asked), offset is None) in ((0, not is_committed), (NOT_AVAILABLE, True))


@pytest.mark.parametrize("interruption", range(1, 6))
def test_a_description_that_a_rebalance_interrupts_is_that_of_one_time(interruption: int) -> None:
    cluster = Groups(group_initial_rebalance_delay_ms="0")
    member_id, _ = cluster.stable()
    group: Any = cluster.nodes[1].groups.groups[GROUP]
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == interruption:
            both = [{"name": name, "metadata": name.encode()} for name in ("other", "range")]
            cluster.join(1, member_id, both)
            cluster.join(1, member_id, both[:1])
            assert group.protocol_name == "other"

    with pausing(pause):
        asked = cluster.ask(1, DESCRIBE, 5, groups=[GROUP])
    assert pauses >= interruption
    (described,) = asked.answer.groups
    (member,) = described.members
    state = (described.group_state, described.protocol_data, bytes(member.member_metadata))
    assert state in (("Stable", "range", b"subscription"), ("CompletingRebalance", "", b""))


def test_a_deleted_topic_takes_its_groups_along() -> None:
    cluster = Groups()
    cluster.stable()
    partition = cluster.nodes[1].replicas.partitions[OFFSETS][cluster.index]
    del cluster.image.topics[OFFSETS]
    partition.is_deleted, partition.is_leader = True, False
    cluster.nodes[1].coordination.on_resigned(partition)  # type: ignore[arg-type]
    cluster.advance(10)
    assert cluster.nodes[1].groups.groups == {}
    assert cluster.nodes[1].wanted_topics == [], "nothing makes it anew"


def test_offsets_of_a_topic_that_is_deleted_while_they_are_read_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Groups()
    cluster.commit(1, 5)
    cluster.settle()
    monkeypatch.setattr(offsets_topic, "SLICE_BYTES", 1)
    cluster.lead(OFFSETS, cluster.index, 2)
    node = cluster.nodes[2]
    recreate(cluster, is_gone=True)
    cluster.settle()
    assert fetched(cluster.fetch(2)) == (0, -1)
    assert node.failures == []


def recreate(cluster: Groups, *, is_gone: bool = False) -> uuid.UUID:
    """Delete the topic `t`, and create it again with another id unless `is_gone`. Gives that id."""
    topic = cluster.image.topics.pop("t")
    again = TopicState("t", uuid.uuid4(), dict(topic.partitions))
    delta = MetadataDelta(removed_topics={topic.topic_id: topic})
    if not is_gone:
        cluster.image.topics["t"] = cluster.image.topics_by_id[again.topic_id] = again
        delta.changed_topics[again.topic_id] = again
    node: Any = cluster.nodes[2]
    node.coordination.apply_delta(delta)
    return again.topic_id


@pytest.mark.parametrize("has_id", [True, False])
def test_offsets_of_a_topic_that_is_created_again_while_they_are_read_are_told_apart_by_its_id(
    has_id: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an id, as older coordinators and transactions commit, an offset may be that of the new topic."""
    cluster = Groups()
    topic_id = cluster.image.topics["t"].topic_id if has_id else None
    cluster.nodes[1].groups.commit(GROUP, [(("t", 0), CommittedOffset(5, topic_id=topic_id))])
    cluster.settle()
    monkeypatch.setattr(offsets_topic, "SLICE_BYTES", 1)
    cluster.lead(OFFSETS, cluster.index, 2)
    recreate(cluster)
    cluster.settle()
    assert fetched(cluster.fetch(2)) == (0, -1 if has_id else 5)


def test_an_offset_of_a_deleted_topic_is_not_that_of_the_topic_of_its_name() -> None:
    """Its coordinator could not write the tombstone."""
    cluster = Groups()
    cluster.commit(1, 5)
    cluster.settle()
    cluster.move(2)
    cluster.nodes[2].replicas.partitions[OFFSETS][cluster.index].is_under_min_isr = True
    first_id = cluster.image.topics["t"].topic_id
    second_id = recreate(cluster)
    topics = [{"topic_id": topic_id, "partition_indexes": [0]} for topic_id in (first_id, second_id)]
    asked = cluster.ask(2, FETCH, 10, groups=[{"group_id": GROUP, "topics": topics}], require_stable=False)
    rows = [topic.partitions[0] for topic in asked.answer.groups[0].topics]
    assert [(row.error_code, row.committed_offset) for row in rows] == [(0, 5), (0, -1)]
