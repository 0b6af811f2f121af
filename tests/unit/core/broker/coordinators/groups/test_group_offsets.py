"""Committed offsets: who may commit, how long they are kept, how they are read back, and Kafka's bytes."""

from __future__ import annotations

import pathlib
import shutil
import uuid
from typing import Any

import pytest
from support import recorded_segments
from support.file_batches import read_file_batches
from support.last_values import last_values

from kafkatools.core.broker.coordinators.groups import keyed_timer, offset_records
from kafkatools.core.broker.coordinators.groups.classic import group_records
from kafkatools.core.broker.coordinators.groups.classic.rebalance import assignments_of
from kafkatools.core.broker.coordinators.groups.loading import group_of
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.offsets_topic import decoded
from kafkatools.core.broker.coordinators.groups.requests import MemberIdentity
from kafkatools.core.broker.coordinators.internal_topic import partition_for
from kafkatools.core.broker.metadata.image import TopicState
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    KafkaError,
    MessageTooLarge,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from kafkatools.core.java.hashes import signed, string_hash
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.protocol.schemas.consumer_protocol import ConsumerProtocolSubscription
from kafkatools.core.protocol.schemas.offsets import decode_record, encode_record
from kafkatools.core.protocol.schemas.schema import write_entity

DAY_MS = 86_400_000
NOBODY = MemberIdentity("")
PLACE = ("basket", 0)


def commit(harness: Any, group_id: str = "g", offset: int = 5, place: tuple[str, int] = PLACE, **fields: Any) -> None:
    committed = CommittedOffset(offset, commit_ms=harness.clock.wall_ms(), **fields)
    harness.groups.commit(group_id, [(place, committed)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(1 << 31)), ("\U0001f600", 1772899)],
)
def test_hashes_are_javas(text: str, expected: int) -> None:
    """The last two: Integer.MIN_VALUE, and a character of two UTF-16 units."""
    assert signed(string_hash(text)) == expected


def test_the_least_hash_is_partition_0() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("a", 50) == 47


def test_members_commit_in_their_generation_only(harness: Any) -> None:
    (joined,) = harness.stable()
    may = harness.groups.ensure_may_commit
    member = MemberIdentity(joined["member_id"])
    may("g", member, 1, 9)
    refused: list[tuple[MemberIdentity, int, type[KafkaError]]] = [
        (member, 2, IllegalGeneration),
        (MemberIdentity("nobody"), 1, UnknownMemberId),
        (MemberIdentity(joined["member_id"], "one"), 1, UnknownMemberId),
        (NOBODY, -1, UnknownMemberId),
    ]
    for identity, generation, error in refused:
        with pytest.raises(error):
            may("g", identity, generation, 9)
    harness.advance(9999)
    may("g", member, 1, 9)
    harness.advance(9999)
    assert harness.beat(joined) == 0, "a commit counts as a heartbeat"


def test_static_members_that_were_replaced_are_fenced(harness: Any) -> None:
    first = harness.join(instance_id="one")
    harness.advance(3000)
    harness.sync(first[0])
    harness.join(instance_id="one")
    with pytest.raises(FencedInstanceId):
        harness.groups.ensure_may_commit("g", MemberIdentity(first[0]["member_id"], "one"), 1, 9)


def test_nobody_commits_between_join_and_sync(harness: Any) -> None:
    joined = harness.join()
    harness.advance(3000)
    with pytest.raises(RebalanceInProgress):
        harness.groups.ensure_may_commit("g", MemberIdentity(joined[0]["member_id"]), 1, 9)


def test_a_group_nobody_joined_takes_commits_without_a_generation(harness: Any) -> None:
    may = harness.groups.ensure_may_commit
    may("g", NOBODY, -1, 9)
    with pytest.raises(IllegalGeneration):
        may("g", NOBODY, 0, 8)
    with pytest.raises(GroupIdNotFound):
        may("g", NOBODY, 0, 9)
    commit(harness)
    may("g", NOBODY, -1, 9)
    assert harness.groups.groups["g"].protocol_type is None


def test_a_commit_that_is_too_large_is_not_remembered(harness: Any) -> None:
    harness.store.failure = MessageTooLarge()
    with pytest.raises(InvalidCommitOffsetSize):
        commit(harness)
    assert harness.groups.offsets.get("g", PLACE) is None
    assert harness.groups.groups == {}


def test_commits_are_read_back(harness: Any) -> None:
    topic_id = uuid.uuid4()
    commit(harness, offset=7, metadata="note", leader_epoch=3, topic_id=topic_id)
    commit(harness, offset=9, place=("basket", 1), expire_ms=harness.clock.wall_ms() + 1000)
    before = dict(harness.groups.offsets.of_group("g"))
    harness.restart()
    assert dict(harness.groups.offsets.of_group("g")) == before
    harness.groups.delete_offsets("g", [PLACE, ("basket", 9)])
    harness.restart()
    assert set(harness.groups.offsets.of_group("g")) == {("basket", 1)}


def test_only_empty_groups_are_deleted_with_all_they_have(harness: Any) -> None:
    with pytest.raises(GroupIdNotFound):
        harness.groups.delete_group("g")
    (joined,) = harness.stable()
    commit(harness)
    with pytest.raises(NonEmptyGroup):
        harness.groups.delete_group("g")
    harness.groups.leave("g", [MemberIdentity(joined["member_id"])])
    harness.groups.delete_group("g")
    assert harness.store.values == {}
    assert harness.groups.groups == {}


def test_offsets_of_a_group_without_members_are_kept_since_it_became_empty(harness: Any) -> None:
    (joined,) = harness.stable()
    commit(harness)
    harness.clock.advance_ms(DAY_MS)
    harness.groups.leave("g", [MemberIdentity(joined["member_id"])])
    harness.clock.advance_ms(DAY_MS - 1)
    harness.groups.expiry.start(DAY_MS)
    assert harness.groups.offsets.get("g", PLACE) is not None
    harness.clock.advance_ms(1)
    harness.groups.expiry.start(DAY_MS)
    assert harness.groups.groups == {}
    assert harness.store.values == {}, "offset and group have tombstones"


def test_offsets_of_a_group_that_only_commits_are_kept_since_the_commit(harness: Any) -> None:
    commit(harness)
    commit(harness, place=("trio", 1), expire_ms=harness.clock.wall_ms() + 10)
    harness.clock.advance_ms(10)
    harness.groups.expiry.start(DAY_MS)
    assert set(harness.groups.offsets.of_group("g")) == {PLACE}
    harness.clock.advance_ms(DAY_MS)
    harness.groups.expiry.start(DAY_MS)
    assert harness.groups.groups == {}


def test_a_living_group_keeps_the_offsets_of_what_it_reads(harness: Any) -> None:
    subscription = b"\0\0" + write_entity(ConsumerProtocolSubscription(version=0, topics=("basket",)))
    harness.stable(protocols=(("range", subscription),))
    commit(harness)
    commit(harness, place=("trio", 0))
    harness.clock.advance_ms(DAY_MS)
    harness.groups.expiry.start(DAY_MS)
    assert set(harness.groups.offsets.of_group("g")) == {PLACE}
    group = harness.groups.groups["g"]
    assert (group.is_subscribed_to("basket"), group.is_subscribed_to("trio")) == (True, False)


def test_offsets_go_with_their_topic(harness: Any) -> None:
    commit(harness)
    commit(harness, group_id="other", place=("trio", 0))
    harness.groups.forget_topics([TopicState("basket", uuid.uuid4())])
    harness.restart()
    assert harness.groups.offsets.of_group("g") == {}
    assert set(harness.groups.offsets.of_group("other")) == {("trio", 0)}


@pytest.mark.parametrize("reason", ["expiry", "topic", "group"])
def test_more_offsets_than_a_batch_may_hold_are_deleted(
    reason: str, harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = 0
    append = harness.store.append

    def note_size(group_id: str, records: Any, *more: Any) -> Any:
        nonlocal largest
        largest = max(largest, len(records))
        return append(group_id, records, *more)

    places = [(topic, index) for topic in ("basket", "trio") for index in range(1250)]
    harness.groups.commit("g", [(place, CommittedOffset(1, commit_ms=0)) for place in places])
    monkeypatch.setattr(harness.store, "append", note_size)
    if reason == "expiry":
        harness.groups.expiry.start(0)
        for _ in places:
            harness.advance(1)
    elif reason == "topic":
        harness.groups.forget_topics([TopicState(topic, uuid.uuid4()) for topic in ("basket", "trio")])
    else:
        harness.groups.delete_group("g")
    assert 0 < largest <= 1001
    harness.restart()
    assert harness.groups.offsets.of_group("g") == {}


def test_requests_are_handled_between_two_turns_of_expiry(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_timer, "SLICE_NS", -1)
    expired = CommittedOffset(1, commit_ms=harness.clock.wall_ms() - DAY_MS)
    harness.groups.commit("g", [(("basket", index), expired) for index in range(2500)])
    harness.groups.commit("deleted", [(PLACE, expired)])
    harness.groups.commit("last", [(PLACE, expired)])
    harness.groups.expiry.start(DAY_MS)
    assert len(harness.groups.offsets.of_group("g")) == 1500, "one turn"
    commit(harness, place=("basket", 2000))
    harness.groups.delete_group("deleted")
    commit(harness, group_id="deleted")
    for _ in range(10):
        harness.advance(1)
    assert set(harness.groups.groups) == {"g", "deleted"}
    assert set(harness.groups.offsets.of_group("g")) == {("basket", 2000)}
    harness.restart()
    assert set(harness.groups.groups) == {"g", "deleted"}


def test_groups_end_with_their_topic(harness: Any) -> None:
    waiting = harness.join()
    harness.groups.unload()
    assert waiting.last_code == UnknownMemberId.code
    assert harness.groups.groups == {}
    harness.advance(600_000)


def test_records_are_apache_kafkas_to_the_byte() -> None:
    """Recorded from Apache Kafka 4.3.1: each record is read, and written again from what the coordinator keeps."""
    written = set()
    for file in sorted(recorded_segments.log_directory("consumer-offsets").glob("*.log")):
        for batch in read_file_batches(file.read_bytes()):
            for record in batch.records():
                if batch.is_control or record.value is None or record.key is None:
                    continue
                for key, value in decoded({record.key: record.value}):
                    again = rewritten(key, value)
                    if again is not None:
                        assert again == (record.key, record.value)
                        written.add(type(key).__schema__.name)
    assert written == {"GroupMetadataKey", "OffsetCommitKey"}


@pytest.mark.parametrize("metadata", ["", "note", "\u00fc" * 200])
@pytest.mark.parametrize("expire_ms", [None, 1_700_000_001_000])
@pytest.mark.parametrize("topic_id", [None, uuid.UUID(int=7)])
def test_records_framed_by_hand_are_what_the_schemas_say(
    metadata: str, expire_ms: int | None, topic_id: uuid.UUID | None
) -> None:
    committed = CommittedOffset(1 << 40, 3, metadata, 1_700_000_000_000, expire_ms, topic_id)
    key, value = offset_records.committed_offset("gr\u00fcn", "basket", 70_000, committed)
    assert value is not None
    key_entity, value_entity = decode_record(key, value)
    assert (key_entity.group, key_entity.topic, key_entity.partition) == ("gr\u00fcn", "basket", 70_000)
    assert encode_record(key_entity, value_entity) == (key, value)
    assert value_entity.__version__ == (4 if expire_ms is None else 1)
    found = (value_entity.offset, value_entity.metadata, value_entity.commit_timestamp)
    assert found == (1 << 40, metadata, 1_700_000_000_000)
    if expire_ms is None:
        assert (value_entity.leader_epoch, value_entity.topic_id) == (3, topic_id)
    else:
        assert value_entity.expire_timestamp == expire_ms


def rewritten(key: Any, value: Any) -> tuple[bytes, bytes | None] | None:
    """The record as the coordinator would write it; None for other kinds of groups."""
    kind = type(key).__schema__.name
    if kind == "OffsetCommitKey":
        committed = CommittedOffset(
            value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, None, value.topic_id
        )
        return offset_records.committed_offset(key.group, key.topic, key.partition, committed)
    if kind == "GroupMetadataKey":
        group = group_of(key.group, value)
        return group_records.group_metadata(group, assignments_of(group))
    return None


def test_a_log_that_apache_kafka_wrote_is_read_back(tmp_path: pathlib.Path) -> None:
    """Recorded from Apache Kafka 4.3.1. The last record of each key counts; kinds of groups not known here are passed
    over."""
    directory = tmp_path / "__consumer_offsets-0"
    shutil.copytree(recorded_segments.log_directory("consumer-offsets"), directory)
    log = PartitionLog.open(str(directory), LogConfig(), RealFileSystem(), 0)
    problems: list[Exception] = []
    values = last_values(Partition("__consumer_offsets", uuid.uuid4(), 0, 0, log), problems.append)
    expected: dict[bytes, bytes | None] = {}
    pending: dict[int, dict[bytes, bytes | None]] = {}
    for file in sorted(recorded_segments.log_directory("consumer-offsets").glob("*.log")):
        for batch in read_file_batches(file.read_bytes()):
            records = {r.key: r.value for r in batch.records() if r.key is not None}
            if batch.is_control:
                marker = next(iter(records))
                expected.update(pending.pop(batch.producer_id) if marker[3] == 1 else {})
            elif batch.is_transactional:
                pending.setdefault(batch.producer_id, {}).update(records)
            else:
                expected.update(records)
    log.close()
    assert problems == []
    assert values == {key: value for key, value in expected.items() if value is not None}
    groups = {key.group for key, _ in decoded(values) if type(key).__schema__.name == "OffsetCommitKey"}
    assert "cedar-classic" in groups
