"""Share groups (KIP-932) on a manual clock, in a cluster whose share coordinators answer when the test lets them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support.manual_groups import ManualGroups

from kafkatools.core.broker.coordinators.groups.requests import Client
from kafkatools.core.broker.coordinators.groups.share.changes import GroupEpochChange, StatePartitions
from kafkatools.core.broker.coordinators.groups.share.groups import ShareHeartbeat, ShareSurroundings
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
    NotEnoughReplicas,
    RequestTimedOut,
    UnknownMemberId,
)

T, U = uuid.UUID(int=100), uuid.UUID(int=200)
NO_DELAYS = {"group.share.assignment.interval.ms": 0}


class Persister:
    """The requests to initialize share states, each with the callback of its answer."""

    def __init__(self) -> None:
        self.waiting: list[tuple[list[int], Callable[[KafkaError | None], None]]] = []

    def initialize_all(
        self, offsets: Mapping[ShareKey, int], _epoch: int, finish: Callable[[KafkaError | None], None]
    ) -> None:
        self.waiting.append((sorted(key.partition for key in offsets), finish))

    def answer(self, error: KafkaError | None = None) -> list[int]:
        """Answer the oldest request. Returns its partitions."""
        partitions, finish = self.waiting.pop(0)
        finish(error)
        return partitions


class Shares(ManualGroups):
    """Drives a share group without sockets."""

    def __init__(self, harness: Any, settings: Mapping[str, object] = NO_DELAYS) -> None:
        self.persister = Persister()
        super().__init__(harness, settings, share_around=ShareSurroundings(persister=lambda: self.persister))
        self.add_topic("t", T, 2)
        self.open()

    def add_topic(self, name: str, topic_id: uuid.UUID, partitions: int) -> None:
        super().add_topic(name, topic_id, partitions)
        if hasattr(self.harness.groups, "share"):
            self.harness.groups.consumer.note_topics({name}, has_new=True)
            self.harness.groups.share.note_topics({name})

    def beat(self, member_id: str, epoch: int, *names: str, rack_id: str | None = None) -> dict[str, Any]:
        subscribed = frozenset(names) if names else None
        client = Client("client", "/127.0.0.1")
        request = ShareHeartbeat("g", member_id, epoch, client, rack_id, subscribed_topic_names=subscribed)
        fields: dict[str, Any] = self.harness.groups.share_heartbeat(request)
        return fields


@pytest.fixture
def shares(harness: Any) -> Shares:
    """No time lies between assignments."""
    return Shares(harness)


def partitions_of(fields: dict[str, Any]) -> list[int]:
    return [partition for topic in fields["assignment"]["topic_partitions"] for partition in topic["partitions"]]


def states(shares: Shares) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """The partitions being initialized and the initialized ones, by topic."""
    present: StatePartitions = shares.group.states
    both = (present.initializing, present.initialized)
    initializing, initialized = ({name: sorted(p) for name, p in topics.values()} for topics in both)
    return initializing, initialized


# -- states ------------------------------------------------------------------------------------------------------------
def test_members_get_partitions_once_their_states_are_initialized(shares: Shares) -> None:
    assert partitions_of(shares.beat("a", 0, "t")) == []
    assert states(shares) == ({"t": [0, 1]}, {})
    shares.beat("a", 1)
    assert len(shares.persister.waiting) == 1, "asked for only once"
    epoch = shares.group.group_epoch
    assert shares.persister.answer() == [0, 1]
    assert (states(shares), shares.group.group_epoch) == (({}, {"t": [0, 1]}), epoch + 1)
    told = shares.beat("a", 1)
    assert (told["member_epoch"], partitions_of(told)) == (epoch + 1, [0, 1])


def test_altered_offsets_leave_the_epochs_of_a_group(shares: Shares) -> None:
    """As kafka-share-groups.sh --reset-offsets of Apache Kafka 4.3.1: a new group has the epochs 1 and 1."""

    def alter() -> tuple[int, int]:
        shares.harness.groups.share_offsets.alter("g", {"t": {0: 5, 1: 5}}, errors.append)
        assert shares.persister.answer() == [0, 1]
        return shares.group.group_epoch, shares.group.assignment_epoch

    errors: list[KafkaError | None] = []
    assert [alter(), alter()] == [(1, 1), (1, 1)]
    shares.beat("a", 0, "t")
    shares.beat("a", -1)
    assert [alter(), alter()] == [(3, 2), (3, 2)]
    shares.open()
    assert (shares.group.group_epoch, shares.group.assignment_epoch) == (3, 2)
    assert errors == [None] * 4


def test_states_that_could_not_be_initialized_are_asked_for_again(shares: Shares) -> None:
    shares.beat("a", 0, "t")
    shares.persister.answer(RequestTimedOut())
    assert [type(error) for error in shares.harness.store.noted] == [RequestTimedOut]
    assert states(shares) == ({"t": [0, 1]}, {})
    shares.beat("a", 1)
    assert shares.persister.answer() == [0, 1]
    assert states(shares) == ({}, {"t": [0, 1]})


def test_partitions_that_a_topic_got_meanwhile_are_still_being_initialized(shares: Shares) -> None:
    """GroupMetadataManager.initializeShareGroupState removes only the partitions of the request."""
    shares.beat("a", 0, "t")
    shares.add_topic("t", T, 3)
    shares.beat("a", 1)
    assert shares.persister.answer() == [0, 1]
    assert states(shares) == ({"t": [2]}, {"t": [0, 1]})
    shares.open()
    assert states(shares) == ({"t": [2]}, {"t": [0, 1]})


def test_an_answer_for_a_group_that_another_broker_coordinates_changes_nothing(shares: Shares) -> None:
    shares.beat("a", 0, "t")
    group = shares.group
    shares.harness.groups.release(lambda group_id: True)
    written = len(shares.harness.store.batches)
    shares.persister.answer()
    assert len(shares.harness.store.batches) == written
    assert group.states.initialized == {}


def test_deleted_topics_leave_the_states_of_all_groups(shares: Shares) -> None:
    shares.add_topic("u", U, 1)
    shares.beat("a", 0, "t", "u")
    shares.persister.answer()
    forget = shares.harness.groups.share.forget_topics
    written = len(shares.harness.store.batches)
    forget([uuid.UUID(int=300)])
    assert len(shares.harness.store.batches) == written, "nothing to write"
    shares.harness.store.failure = NotEnoughReplicas()
    forget([T])
    assert [type(error) for error in shares.harness.store.noted] == [NotEnoughReplicas]
    shares.harness.store.failure = None
    forget([T])
    assert states(shares) == ({}, {"u": [0]})
    shares.open()
    assert states(shares) == ({}, {"u": [0]})


def test_a_deleted_topic_is_no_longer_being_initialized(shares: Shares) -> None:
    shares.beat("a", 0, "t")
    shares.harness.groups.share.forget_topics([T])
    assert states(shares) == ({}, {})


# -- members -----------------------------------------------------------------------------------------------------------
def test_the_target_is_computed_once_an_interval(harness: Any) -> None:
    shares = Shares(harness, {"group.share.assignment.interval.ms": 1_000})
    shares.beat("a", 0, "t")
    harness.advance(1_000)
    shares.persister.answer()
    assert partitions_of(shares.beat("a", 1)) == [0, 1]
    assert shares.beat("b", 0, "t")["member_epoch"] == 2, "the target of epoch 3 has to wait"
    harness.advance(999)
    assert shares.beat("b", 2)["member_epoch"] == 2
    harness.advance(1)
    assert len(partitions_of(shares.beat("b", 2))) == 1


def test_a_member_that_is_silent_for_its_session_is_out(shares: Shares) -> None:
    shares.beat("a", 0, "t")
    shares.harness.advance(44_999)
    shares.beat("a", 1)
    shares.harness.advance(44_999)
    assert set(shares.group.members) == {"a"}
    epoch = shares.group.group_epoch
    shares.harness.advance(1)
    assert (shares.group.members, shares.group.group_epoch) == ({}, epoch + 1)
    with pytest.raises(UnknownMemberId):
        shares.beat("a", 1)


def test_sessions_go_on_after_a_restart(shares: Shares) -> None:
    shares.beat("a", 0, "t")
    shares.open()
    shares.harness.advance(44_999)
    assert set(shares.group.members) == {"a"}
    shares.harness.advance(1)
    assert shares.group.members == {}


def test_a_full_group_takes_nobody_but_its_members(harness: Any) -> None:
    shares = Shares(harness, {**NO_DELAYS, "group.share.max.size": 1})
    shares.beat("a", 0, "t")
    shares.beat("a", 0, "t")
    with pytest.raises(GroupMaxSizeReached, match="maximum capacity of 1 members"):
        shares.beat("b", 0, "t")


def test_a_member_may_be_one_epoch_behind(shares: Shares) -> None:
    shares.beat("a", 0, "t")
    shares.persister.answer()
    assert shares.beat("a", 1)["member_epoch"] == 2
    assert shares.beat("a", 1)["member_epoch"] == 2, "the response may have been lost"
    shares.beat("b", 0, "t")
    assert shares.beat("a", 2)["member_epoch"] == 3
    for epoch in (1, 4):
        with pytest.raises(FencedMemberEpoch):
            shares.beat("a", epoch)


@pytest.mark.parametrize(
    ("member_id", "epoch", "names", "rack_id", "message"),
    [
        ("", 1, (), None, "malformed by the client library"),
        ("a", 1, (), " ", "RackId can't be empty"),
        ("a", 0, (), None, "SubscribedTopicNames must be set in first request"),
        ("a", -2, (), None, "MemberEpoch is invalid"),
    ],
)
def test_requests_that_no_group_accepts(
    shares: Shares, member_id: str, epoch: int, names: tuple[str, ...], rack_id: str | None, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        shares.beat(member_id, epoch, *names, rack_id=rack_id)


def test_a_group_of_another_type_stays(shares: Shares) -> None:
    for epoch, message in ((1, "Share group g not found"), (-1, "Group g not found")):
        with pytest.raises(GroupIdNotFound, match=message):
            shares.beat("a", epoch)
    shares.harness.stable()
    for epoch in (0, 1, -1):
        with pytest.raises(GroupIdNotFound, match="Group g is not a share group"):
            shares.beat("a", epoch, "t")


def test_a_refresh_that_could_not_be_written_is_made_up_for(shares: Shares) -> None:
    shares.beat("a", 0, "t")
    shares.persister.answer()
    shares.beat("a", 1)
    shares.add_topic("t", T, 3)
    shares.harness.store.failure = NotEnoughReplicas()
    with pytest.raises(NotEnoughReplicas):
        shares.beat("a", 2)
    shares.harness.store.failure = None
    shares.beat("a", 2)
    assert states(shares) == ({"t": [2]}, {"t": [0, 1]})
    assert shares.group.group_epoch == 3
    assert GroupEpochChange(3, shares.group.metadata_hash).record("g") in shares.harness.store.batches[-1]
