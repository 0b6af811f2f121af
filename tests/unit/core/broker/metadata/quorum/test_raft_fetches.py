"""What a leader gives, what a follower takes: the log, where two logs part, snapshots, what is committed."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from support.quorum_simulation import WALL_MS, as_request, as_response
from support.raft_member import CLUSTER, VOTERS, Member

from kafkatools.core.broker.metadata.batches import encode_batch, encode_control_batch
from kafkatools.core.broker.metadata.metadata_log import METADATA_LOG_CONFIG
from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.quorum_states import Follower, Leader, Prospective
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.snapshot import SnapshotId
from kafkatools.core.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    NotController,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.schemas.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    TopicRecord,
)
from kafkatools.core.protocol.schemas.snapshot import LeaderChangeMessage, decode_record, encode_record
from kafkatools.core.records.batch import read_batches


def _topics(*names: str) -> list[Any]:
    return [TopicRecord(name=name) for name in names]


def _batch(offset: int, epoch: int, *names: str) -> bytes:
    return encode_batch(_topics(*names), offset, epoch, WALL_MS)


def _leader_change(offset: int, epoch: int, leader_id: int = 2) -> bytes:
    message = LeaderChangeMessage(version=0, leader_id=leader_id)
    return encode_control_batch([encode_record(message)], offset, epoch, WALL_MS)


def _follower(epoch: int = 1, *batches: bytes, high_watermark: int = -1) -> Member:
    """A follower of node 2 that has taken over some batches."""
    member = Member()
    member.follow(2, epoch)
    if batches:
        _take(member, epoch, records=b"".join(batches), high_watermark=high_watermark)
    return member


def _take(member: Member, epoch: int, **partition: Any) -> None:
    """Answer the follower's fetch."""
    [sent] = member.take(wire.FETCH)
    member.answer(sent, member.fetched(2, epoch, **partition))


# -- the leader ----------------------------------------------------------------------------------------------------
def test_an_epoch_begins_with_a_leader_change_record() -> None:
    member = Member()
    member.be_elected()
    [batch] = read_batches(member.raft.log.read(0, 1 << 20))
    assert (batch.is_control, batch.base_offset, batch.partition_leader_epoch) == (True, 0, 1)
    [record] = batch.records()
    message = decode_record(2, record.value)
    assert (message.leader_id, [each.voter_id for each in message.voters]) == (1, [1, 2, 3])
    assert [each.voter_id for each in message.granting_voters] == [1, 2]


def test_what_a_majority_has_is_committed_and_told_in_order() -> None:
    member = Member()
    member.be_elected()
    assert member.leaders[-1] == (None, 1)  # not its own yet
    assert member.append("a") == 1
    assert member.append("b", "c") == 2
    assert member.raft.high_watermark == -1
    member.fetch(2, (2, 1))
    assert (member.raft.high_watermark, member.names, member.leaders[-1]) == (2, ["a"], (1, 1))
    member.fetch(3, (1, 1))
    assert member.raft.high_watermark == 2
    member.fetch(3, (4, 1))
    assert (member.raft.high_watermark, member.names) == (4, ["a", "b", "c"])
    assert member.commits == [(0, 2), (2, 4)]


def test_records_of_older_epochs_count_only_with_one_of_the_leaders_own() -> None:
    """Figure 8 of the Raft paper: a majority may have them, and a later leader may still not."""
    member = Member()
    member.be_elected()
    member.append("a")
    member.restart()
    member.be_elected()
    assert member.raft.epoch > 1
    assert member.raft.log.end == (3, member.raft.epoch)
    member.fetch(2, (2, 1))
    assert member.raft.high_watermark == -1
    member.fetch(2, (3, member.raft.epoch))
    assert member.raft.high_watermark == 3


def test_a_leader_counts_itself_when_it_is_on_the_disk() -> None:
    member = Member()
    member.be_elected()
    member.fetch(2, (1, 1))
    member.raft.append(_topics("a"), WALL_MS)
    state = member.raft.state
    assert isinstance(state, Leader)
    assert state.voters[1].end_offset == 1
    assert member.raft.next_deadline_ms <= member.now_ms
    member.tick()
    assert state.voters[1].end_offset == 2
    member.restart()
    assert member.raft.end_offset == 2


def test_who_does_not_lead_writes_nothing() -> None:
    with pytest.raises(NotController):
        Member().raft.append(_topics("a"), WALL_MS)


def test_a_fetch_waits_for_records_a_commit_or_its_time() -> None:
    member = Member()
    member.be_elected()
    parked = member.fetch(2, (1, 1), max_wait_ms=500, high_watermark=1)
    assert parked == []
    member.append("a")
    assert parked[0].records
    assert parked[0].high_watermark == 1
    parked = member.fetch(2, (2, 1), max_wait_ms=500, high_watermark=1)
    assert parked[0].high_watermark == 2  # its own fetch commits, and it hears so at once
    parked = member.fetch(2, (2, 1), max_wait_ms=500, high_watermark=2)
    member.tick(499)
    assert parked == []
    member.tick(1)
    assert (parked[0].error_code, parked[0].records) == (0, b"")


def test_who_knows_of_no_high_watermark_waits_for_records() -> None:
    """Before version 18 a commit is no news."""
    member = Member()
    member.be_elected()
    parked = member.fetch(2, (1, 1), max_wait_ms=500, high_watermark=wire.LONG_MAX)
    member.fetch(3, (1, 1), high_watermark=wire.LONG_MAX)
    assert member.raft.high_watermark == 1
    assert parked == []


def test_who_waits_hears_when_the_leader_resigns() -> None:
    member = Member()
    member.be_elected()
    parked = member.fetch(2, (1, 1), max_wait_ms=500, high_watermark=1)
    member.raft.resign(member.now_ms)
    member.tick()
    assert parked[0].error_code == NotLeaderOrFollower.code
    assert parked[0].current_leader.leader_epoch == 1


def test_a_fetch_of_another_epoch_or_from_a_follower_is_refused() -> None:
    member = Member()
    member.be_elected()
    for epoch, error in ((0, FencedLeaderEpoch), (2, UnknownLeaderEpoch)):
        [answer] = member.fetch(2, (0, 0), epoch=epoch)
        assert answer.error_code == error.code
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)
    [answer] = _follower(3).fetch(3, (0, 0))
    assert answer.error_code == NotLeaderOrFollower.code
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 3)


def test_a_fetch_that_cannot_be_is_refused() -> None:
    member = Member()
    member.be_elected()
    for end in ((-1, 0), (0, -1), (0, 2)):
        assert member.fetch(2, end)[0].error_code == InvalidRequest.code
    assert member.fetch(1, (0, 0))[0].error_code == InvalidRequest.code  # two nodes with one id
    [answer] = member.fetch(2, (0, 0), cluster_id="cluster-b")
    assert answer.error_code == InconsistentClusterId.code


def test_a_log_that_parted_is_told_where() -> None:
    member = Member()
    member.be_elected()
    member.append("a", "b")  # 1, 2 in epoch 1
    member.restart()
    member.be_elected()
    epoch = member.raft.epoch
    assert epoch == 3  # its second epoch went by without a leader
    member.append("c")  # behind the leader change of offset 3
    [answer] = member.fetch(2, (7, 1))  # has more of epoch 1 than there was
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 3)
    [answer] = member.fetch(2, (4, 2))  # an epoch that wrote nothing here
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (1, 3)
    [answer] = member.fetch(2, (9, 3))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (3, 5)
    assert answer.records == b""
    state = member.raft.state
    assert isinstance(state, Leader)
    assert state.voters[2].end_offset == -1  # a log that parted says nothing about what it has
    assert member.fetch(2, (3, 1))[0].records


def test_the_leader_describes_who_has_what() -> None:
    member = Member()
    member.be_elected()
    member.append("a")
    member.tick(100)
    member.fetch(2, (2, 1))
    fetched_ms = WALL_MS + member.now_ms
    member.tick(50)
    member.append("b")
    member.fetch(2, (2, 1))
    member.fetch(9, (0, 0))
    member.tick(30)
    found = member.raft.describe(member.now_ms)
    now_ms = WALL_MS + member.now_ms
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (1, 1, 2)
    assert found.voters == (
        (1, 3, now_ms, now_ms, None),
        (2, 2, now_ms - 30, fetched_ms, None),
        (3, -1, -1, -1, None),
    )
    assert found.observers == ((9, 0, now_ms - 30, -1, None),)
    for _ in range(301):
        member.tick(1000)
        member.fetch(2, (3, 1))
    assert member.raft.describe(member.now_ms).observers == ()
    with pytest.raises(NotController):
        Member().raft.describe(0)


def test_observers_differ_by_directory_and_static_voters_do_not() -> None:
    member = Member()
    member.be_elected()
    first, second = sorted((uuid.uuid4(), uuid.uuid4()), key=str)
    for directory_id in (first, second):
        member.fetch(9, (0, 0), directory_id=directory_id)
        member.fetch(2, (1, 1), directory_id=directory_id)
    found = member.raft.describe(member.now_ms)
    assert sorted(str(each.replica_directory_id) for each in found.observers) == [str(first), str(second)]
    assert [(each.replica_id, each.replica_directory_id) for each in found.voters] == [(1, None), (2, None), (3, None)]


def test_a_follower_sends_its_directory_id() -> None:
    directory_id = uuid.uuid4()
    member = Member(settings=RaftSettings(CLUSTER, directory_id=directory_id))
    member.tick(5000)
    votes = [as_request(wire.VOTE, sent.fields) for sent in member.take(wire.VOTE)]
    assert {vote.topics[0].partitions[0].replica_directory_id for vote in votes} == {directory_id}
    member.follow(2, 5)
    (sent,) = member.take(wire.FETCH)
    assert as_request(wire.FETCH, sent.fields).topics[0].partitions[0].replica_directory_id == directory_id


# -- the follower --------------------------------------------------------------------------------------------------
def test_a_follower_takes_over_what_comes_and_asks_for_more() -> None:
    member = Member()
    member.follow(2, 1)
    [sent] = member.take(wire.FETCH)
    wanted = sent.fields["topics"][0]["partitions"][0]
    assert (sent.node_id, wanted["current_leader_epoch"], wanted["fetch_offset"], wanted["last_fetched_epoch"]) == (
        2,
        1,
        0,
        0,
    )
    data = _leader_change(0, 1) + _batch(1, 1, "a", "b")
    member.answer(sent, member.fetched(2, 1, records=data, high_watermark=1))
    assert member.raft.log.read(0, 1 << 20) == data
    assert (member.raft.high_watermark, member.names) == (1, [])
    [sent] = member.take(wire.FETCH)
    wanted = sent.fields["topics"][0]["partitions"][0]
    assert (wanted["fetch_offset"], wanted["last_fetched_epoch"], wanted["high_watermark"]) == (3, 1, 1)
    member.answer(sent, member.fetched(2, 1, high_watermark=99))
    assert (member.raft.high_watermark, member.names) == (3, ["a", "b"])
    member.restart()
    assert member.raft.end_offset == 3  # it was on the disk when the leader heard of it


def test_a_batch_that_was_cut_is_fetched_again() -> None:
    data = _leader_change(0, 1) + _batch(1, 1, "a")
    member = _follower(1, data + _batch(2, 1, "b")[:-3])
    assert member.raft.end_offset == 2


def test_more_than_a_segment_takes_is_taken_over_batch_by_batch() -> None:
    member = Member(log_config=replace(METADATA_LOG_CONFIG, segment_bytes=300))
    member.follow(2, 1)
    data = _leader_change(0, 1) + b"".join(_batch(offset, 1, f"name-{offset}") for offset in range(1, 9))
    assert len(data) > 600
    _take(member, 1, records=data, high_watermark=9)
    assert (member.raft.log.end, len(member.names)) == ((9, 1), 8)
    assert len(member.raft.log.log.segments) > 2


def test_records_of_an_epoch_to_come_are_not_taken_over() -> None:
    member = _follower(1, _leader_change(0, 1) + _batch(1, 2, "a"))
    assert member.raft.end_offset == 1
    member.tick()
    _take(member, 1, records=_batch(1, 2, "a"))
    assert member.raft.end_offset == 1
    assert len(member.faults) == 1


def test_damaged_records_are_not_taken_over() -> None:
    data = bytearray(_leader_change(0, 1) + _batch(1, 1, "a"))
    data[-2] ^= 0xFF
    member = _follower(1, bytes(data))
    assert member.raft.end_offset == 0
    assert len(member.faults) == 1
    assert member.take(wire.FETCH) == []
    member.tick(member.settings.retry_backoff_ms)
    assert len(member.take(wire.FETCH)) == 1


def test_a_follower_cuts_what_the_leader_does_not_have() -> None:
    member = _follower(1, _leader_change(0, 1), _batch(1, 1, "a", "b"), _batch(3, 1, "c"), high_watermark=1)
    member.take(wire.FETCH)
    member.follow(3, 4)
    [sent] = member.take(wire.FETCH)
    diverging = {"epoch": 1, "end_offset": 3}
    member.answer(sent, member.fetched(3, 4, diverging_epoch=diverging, high_watermark=1))
    assert member.raft.log.end == (3, 1)
    [sent] = member.take(wire.FETCH)
    assert sent.partition["fetch_offset"] == 3
    member.answer(sent, member.fetched(3, 4, records=_leader_change(3, 4, 3), high_watermark=1))
    assert member.raft.log.end == (4, 4)


def test_a_follower_with_an_epoch_the_leader_never_saw_cuts_all_of_it() -> None:
    """KIP-279: the leader's answer names an epoch that is not here either."""
    member = _follower(3, _leader_change(0, 1), _batch(1, 1, "a"), _leader_change(2, 3), _batch(3, 3, "b"))
    member.take(wire.FETCH)
    member.follow(3, 6)
    [sent] = member.take(wire.FETCH)
    member.answer(sent, member.fetched(3, 6, diverging_epoch={"epoch": 2, "end_offset": 9}))
    assert member.raft.log.end == (2, 1)


def test_what_is_committed_is_never_cut() -> None:
    member = _follower(1, _leader_change(0, 1), _batch(1, 1, "a", "b"), high_watermark=3)
    _take(member, 1, diverging_epoch={"epoch": 1, "end_offset": 2})
    assert member.raft.end_offset == 3
    assert "below the current high watermark 3" in str(member.faults[0])


def test_a_follower_that_hears_nothing_wants_an_election() -> None:
    member = Member()
    member.follow(2, 1)
    member.tick(1999)
    _take(member, 1)
    member.tick(1999)
    assert member.raft.leader_id == 2
    member.tick(1)
    assert isinstance(member.raft.state, Prospective)


def test_a_follower_that_cannot_reach_its_leader_does_not_wait_for_the_time_out() -> None:
    member = Member()
    member.follow(2, 1)
    for wait_ms in (20, 40):
        [sent] = member.take(wire.FETCH)
        member.answer(sent, None)
        assert member.raft.leader_id == 2
        member.tick(wait_ms)
    [sent] = member.take(wire.FETCH)
    member.answer(sent, None)
    assert isinstance(member.raft.state, Prospective)
    for sent in member.take(wire.VOTE):
        member.answer(sent, wire.election_response(member.position(1, 2), VOTERS, 0, {"vote_granted": False}))
    assert isinstance(member.raft.state, Follower)  # the others hear it


def test_a_new_member_finds_the_leader_through_anyone() -> None:
    member = Member()
    member.tick()
    [sent] = member.take(wire.FETCH)
    refusal = wire.fetch_response(wire.Position(6, 3), VOTERS, {"error_code": FencedLeaderEpoch.code})
    member.answer(sent, refusal)
    assert (member.raft.epoch, member.raft.leader_id) == (6, 3)
    assert [each.node_id for each in member.take(wire.FETCH)] == [3]


def test_two_that_know_nothing_do_not_ask_each_other_all_the_time() -> None:
    member = Member()
    member.tick()
    [sent] = member.take(wire.FETCH)
    member.answer(sent, wire.fetch_response(wire.Position(0, None), VOTERS, {"error_code": NotLeaderOrFollower.code}))
    [other] = member.take(wire.FETCH)
    assert other.node_id != sent.node_id
    member.answer(other, wire.fetch_response(wire.Position(0, None), VOTERS, {"error_code": NotLeaderOrFollower.code}))
    assert member.take(wire.FETCH) == []


def test_an_observer_asks_another_when_the_leader_is_gone() -> None:
    member = Member(9)
    member.tick()
    [sent] = member.take(wire.FETCH)
    member.answer(sent, wire.fetch_response(wire.Position(6, 3), VOTERS, {"error_code": FencedLeaderEpoch.code}))
    [sent] = member.take(wire.FETCH)
    assert sent.node_id == 3
    member.answer(sent, None)
    asked = [each.node_id for each in member.take(wire.FETCH)]
    assert len(asked) == 1
    assert asked[0] in (1, 2)
    member.tick(100_000)
    assert member.take(wire.VOTE) == []
    assert member.raft.epoch == 6


# -- transactions and snapshots ------------------------------------------------------------------------------------
def test_records_of_a_transaction_come_together() -> None:
    member = Member(voters={1: VOTERS[1]})
    member.tick()
    member.raft.append([BeginTransactionRecord(name="x"), *_topics("a")], WALL_MS)
    member.tick()
    assert (member.names, member.raft.log.applied) == ([], (1, 1))
    member.raft.append(_topics("b"), WALL_MS)
    member.raft.append([EndTransactionRecord(), *_topics("c")], WALL_MS)
    member.tick()
    assert (member.names, member.raft.log.applied) == (["a", "b", "c"], (6, 1))
    member.raft.append([BeginTransactionRecord(name="y"), *_topics("d"), AbortTransactionRecord(reason="no")], WALL_MS)
    member.tick()
    assert member.names == ["a", "b", "c"]


def _leader_with_snapshot() -> Member:
    """A leader whose log begins behind a snapshot at offset 4."""
    member = Member(settings=RaftSettings(CLUSTER, fetch_snapshot_max_bytes=100))
    member.be_elected()
    member.append("a", "b", "c")
    member.fetch(2, (4, 1))
    assert member.raft.log.take_snapshot(_topics(*member.names), member.now_ms) == SnapshotId(4, 1)
    member.raft.log.metadata_log.clean(WALL_MS)
    member.append("d")
    assert member.raft.log.start_offset == 4
    return member


def _fetch_snapshot(member: Member, snapshot_id: SnapshotId, position: int, *, name: str = wire.METADATA_TOPIC) -> Any:
    wanted = {
        "current_leader_epoch": member.raft.epoch,
        "snapshot_id": {"end_offset": snapshot_id.offset, "epoch": snapshot_id.epoch},
        "position": position,
    }
    fields = wire.snapshot_request(CLUSTER, 3, 1 << 20, wanted)
    fields["topics"][0]["name"] = name
    response = member.raft.handle_fetch_snapshot(as_request(wire.FETCH_SNAPSHOT, fields), member.now_ms)
    member.tick()
    return as_response(wire.FETCH_SNAPSHOT, response).topics[0].partitions[0]


def test_who_is_too_far_behind_is_sent_to_the_snapshot() -> None:
    member = _leader_with_snapshot()
    for end in ((0, 0), (3, 1)):
        [answer] = member.fetch(3, end)
        assert (answer.snapshot_id.end_offset, answer.snapshot_id.epoch) == (4, 1)
        assert answer.records == b""
    [answer] = member.fetch(3, (4, 1))
    assert answer.snapshot_id.end_offset == -1
    assert answer.records


def test_a_snapshot_comes_in_parts() -> None:
    member = _leader_with_snapshot()
    path = f"/node/__cluster_metadata-0/{SnapshotId(4, 1).file_name}"
    whole = member.files.read_bytes(path)
    got = b""
    while len(got) < len(whole):
        answer = _fetch_snapshot(member, SnapshotId(4, 1), len(got))
        assert (answer.size, answer.position, len(answer.unaligned_records) <= 100) == (len(whole), len(got), True)
        got += answer.unaligned_records
    assert got == whole
    assert _fetch_snapshot(member, SnapshotId(4, 1), len(whole)).error_code == PositionOutOfRange.code
    assert _fetch_snapshot(member, SnapshotId(4, 1), -1).error_code == PositionOutOfRange.code
    assert _fetch_snapshot(member, SnapshotId(3, 1), 0).error_code == SnapshotNotFound.code
    assert _fetch_snapshot(member, SnapshotId(4, 1), 0, name="other").error_code == UnknownTopicOrPartition.code


def test_who_fetches_a_snapshot_is_heard() -> None:
    member = _leader_with_snapshot()
    for _ in range(10):
        member.tick(1000)
        _fetch_snapshot(member, SnapshotId(4, 1), 0)
    assert member.raft.is_leader


def _download(leader: Member, *, damage: bool = False) -> Member:
    """A follower that is sent to the leader's snapshot and has fetched all of it."""
    member = Member()
    member.follow(2, 1)
    _take(member, 1, snapshot_id={"end_offset": 4, "epoch": 1})
    data = bytearray(leader.files.read_bytes(f"/node/__cluster_metadata-0/{SnapshotId(4, 1).file_name}"))
    if damage:
        data[-3] ^= 0xFF
    for start in range(0, len(data), 100):
        [sent] = member.take(wire.FETCH_SNAPSHOT)
        assert sent.partition["position"] == start
        part = {
            "snapshot_id": {"end_offset": 4, "epoch": 1},
            "size": len(data),
            "position": start,
            "unaligned_records": bytes(data[start : start + 100]),
        }
        member.answer(sent, wire.snapshot_response(wire.Position(1, 2), VOTERS, part))
    return member


def test_a_follower_begins_anew_with_a_snapshot() -> None:
    member = _download(_leader_with_snapshot())
    assert (member.raft.log.start_offset, member.raft.log.end, member.raft.high_watermark) == (4, (4, 1), 4)
    assert member.names == ["a", "b", "c"]
    assert len(member.snapshots) == 1
    _take(member, 1, records=_batch(4, 1, "d"), high_watermark=5)
    assert member.names == ["a", "b", "c", "d"]
    member.restart()
    assert (member.raft.log.start_offset, member.raft.log.end) == (4, (5, 1))
    assert member.names == ["a", "b", "c"]


def test_a_damaged_snapshot_is_not_believed() -> None:
    member = _download(_leader_with_snapshot(), damage=True)
    assert len(member.faults) == 1
    assert member.snapshots == []
    assert member.raft.log.end == (0, 0)
    names = [entry.name for entry in member.files.list_directory("/node/__cluster_metadata-0")]
    assert not any("checkpoint.part" in name or name.endswith(".checkpoint") for name in names)
    member.tick(member.settings.retry_backoff_ms)
    assert len(member.take(wire.FETCH)) == 1


def test_a_snapshot_that_the_leader_has_no_longer_is_given_up() -> None:
    member = Member()
    member.follow(2, 1)
    _take(member, 1, snapshot_id={"end_offset": 4, "epoch": 1})
    [sent] = member.take(wire.FETCH_SNAPSHOT)
    refusal = {"error_code": SnapshotNotFound.code}
    member.answer(sent, wire.snapshot_response(wire.Position(1, 2), VOTERS, refusal))
    assert len(member.take(wire.FETCH)) == 1


def test_a_crash_between_the_snapshot_and_the_log_is_made_good() -> None:
    leader = _leader_with_snapshot()
    name = SnapshotId(4, 1).file_name
    member = _follower(1, _leader_change(0, 1), _batch(1, 1, "x"))
    directory = "/node/__cluster_metadata-0"
    member.files.write_bytes(f"{directory}/{name}", leader.files.read_bytes(f"{directory}/{name}"), sync=True)
    member.files.fsync_directory(directory)
    member.restart()
    assert (member.raft.log.start_offset, member.raft.log.end) == (4, (4, 1))
    assert member.names == ["a", "b", "c"]
