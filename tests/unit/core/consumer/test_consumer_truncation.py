"""Followers, leader epochs and truncated logs (KIP-320, KIP-392): what sends a consumer where, and back."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.errors import LogTruncation
from kafkatools.core.consumer.fetch_messages import CurrentLeader, FetchedPartition, FetchResponse
from kafkatools.core.consumer.fetcher import Fetcher, FetchSettings
from kafkatools.core.consumer.network import MetadataLeaders
from kafkatools.core.consumer.offset_fetcher import NodeRequest, OffsetFetcher
from kafkatools.core.consumer.subscription import (
    AutoOffsetResetStrategy,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    SubscriptionState,
    TopicPartition,
)
from kafkatools.core.errors import TopicAuthorizationFailed
from kafkatools.core.net.metadata import ClusterView, Node, NodeEndpoint, PartitionView, TopicView

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))
BACKOFF_MS = 100
REQUEST_TIMEOUT_MS = 30_000
MAX_AGE_MS = 5_000


class Cluster:
    def __init__(self) -> None:
        self.leaders = dict.fromkeys((P0, P1, P2), LeaderAndEpoch(1, 3))
        self.replicas = {1, 2}
        self.updates = 0
        self.epochs: list[tuple[TopicPartition, int]] = []

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        return self.leaders.get(partition)

    def topic_id(self, topic: str) -> uuid.UUID:
        return uuid.UUID(int=1)

    def has_replica(self, partition: TopicPartition, node: int) -> bool:
        return node in self.replicas

    def request_update(self) -> None:
        self.updates += 1

    def note_epoch(self, partition: TopicPartition, epoch: int) -> None:
        self.epochs.append((partition, epoch))

    def update_leadership(
        self, partition: TopicPartition, leader: CurrentLeader, endpoints: tuple[NodeEndpoint, ...]
    ) -> bool:
        return False


class Situation:
    """Partitions read at offset 50, whose last record was of epoch 3."""

    def __init__(self, reset: str = "latest") -> None:
        self.cluster = Cluster()
        self.subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse(reset))
        self.subscriptions.assign((P0, P1, P2))
        for part in (P0, P1, P2):
            self.subscriptions.seek(part, FetchPosition(50, -1, self.cluster.leaders[part]))
            self.subscriptions.state(part).position = FetchPosition(50, 3, self.cluster.leaders[part])
        self.offsets = OffsetFetcher(self.subscriptions, self.cluster, 0, BACKOFF_MS, REQUEST_TIMEOUT_MS)
        settings = FetchSettings(client_rack="east", metadata_max_age_ms=MAX_AGE_MS)
        self.fetcher = Fetcher(settings, self.subscriptions, self.cluster)

    def elect(self, node: int, epoch: int) -> NodeRequest:
        for part in (P0, P1, P2):
            self.cluster.leaders[part] = LeaderAndEpoch(node, epoch)
        self.offsets.note_leaders()
        [request] = self.offsets.validation_requests(0)
        return request

    def fetched(self, node: int, now_ms: int = 0, error: int = 0, preferred: int = -1) -> None:
        """One round with a node: this answer for P0, nothing for the others it was asked for."""
        [item] = self.fetcher.prepare(now_ms, lambda asked: asked == node)
        data = FetchedPartition("", uuid.UUID(int=1), 0)
        data.error_code, data.preferred_read_replica = error, preferred
        response = FetchResponse(0, 0, 10 + node)
        others = [FetchedPartition("", uuid.UUID(int=1), part.partition) for part in item.request.partitions]
        response.partitions = [data, *(part for part in others if part.partition != P0.partition)]
        self.fetcher.handle_response(item.node, response, 17)
        self.fetcher.note_time(now_ms)
        self.fetcher.collect(100)

    def nodes_asked(self, now_ms: int) -> set[int]:
        return {item.node for item in self.fetcher.prepare(now_ms, lambda _: True)}


def answer(*ends: tuple[TopicPartition, int, int, int]) -> Any:
    """An OffsetForLeaderEpoch answer: partition, error, epoch, end offset."""
    items = [
        SimpleNamespace(partition=part.partition, error_code=error, leader_epoch=epoch, end_offset=end)
        for part, error, epoch, end in ends
    ]
    return SimpleNamespace(topics=[SimpleNamespace(topic="t", partitions=items)])


def test_new_leader_is_asked_where_the_epoch_of_the_last_record_ends() -> None:
    request = Situation().elect(2, 4)
    assert request.node == 2
    [topic] = request.fields["topics"]
    assert topic["partitions"][0] == {"partition": 0, "current_leader_epoch": 4, "leader_epoch": 3}


def test_one_truncated_partition_does_not_hide_the_answers_for_the_others() -> None:
    situation = Situation("none")
    request = situation.elect(2, 4)
    with pytest.raises(LogTruncation, match="t-0 at position 50: the logs diverge at offset 40"):
        situation.offsets.handle_validation_response(request, answer((P0, 0, 3, 40), (P1, 0, 3, 60)), 1000)
    states = [situation.subscriptions.state(part) for part in (P0, P1, P2)]
    assert [state.state for state in states] == [
        FetchState.AWAIT_VALIDATION,
        FetchState.FETCHING,
        FetchState.AWAIT_VALIDATION,
    ]
    assert states[2].next_retry_ms == 1000 + BACKOFF_MS, "the partition that was not answered is asked again soon"


def test_with_a_policy_reading_goes_on_where_the_logs_diverge() -> None:
    situation = Situation()
    request = situation.elect(2, 4)
    ends = answer((P0, 0, 3, 40), (P1, 0, 2, 50), (P2, 0, -1, -1))
    situation.offsets.handle_validation_response(request, ends, 1000)
    assert situation.subscriptions.position(P0) == FetchPosition(40, 3, LeaderAndEpoch(2, 4))
    assert situation.subscriptions.position(P1) == FetchPosition(50, 3, LeaderAndEpoch(2, 4))
    assert situation.subscriptions.state(P2).state is FetchState.AWAIT_RESET


def test_epoch_of_a_reset_is_told_to_metadata() -> None:
    situation = Situation()
    situation.subscriptions.request_offset_reset(P0)
    [request] = situation.offsets.reset_requests(0, 0)
    data = SimpleNamespace(partition_index=0, error_code=0, offset=70, timestamp=-1, leader_epoch=9)
    answer = SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[data])])
    situation.offsets.handle_reset_response(request, answer, 0)
    assert situation.cluster.epochs == [(P0, 9)], "a leader of epoch 9 is newer than the one we know"
    assert situation.subscriptions.position(P0) == FetchPosition(70, -1, LeaderAndEpoch(1, 3))


def listed(offset: int) -> Any:
    """A ListOffsets answer for the first partition."""
    data = SimpleNamespace(partition_index=0, error_code=0, offset=offset, timestamp=-1, leader_epoch=3)
    return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[data])])


def test_late_answer_to_a_reset_does_not_take_the_place_of_the_next_one() -> None:
    situation = Situation()
    requests = []
    for policy in ("earliest", "latest"):
        situation.subscriptions.request_offset_reset(P0, AutoOffsetResetStrategy.parse(policy))
        requests += situation.offsets.reset_requests(0, 0)
    situation.offsets.handle_reset_response(requests[0], listed(0), 0)
    assert situation.subscriptions.position(P0) is None
    situation.offsets.handle_reset_response(requests[1], listed(70), 0)
    assert situation.subscriptions.position(P0) == FetchPosition(70, -1, LeaderAndEpoch(1, 3))


def test_late_answer_to_a_validation_does_not_judge_another_position() -> None:
    situation = Situation("none")
    late = situation.elect(2, 4)
    sought = FetchPosition(90, 4, LeaderAndEpoch(2, 4))
    situation.subscriptions.seek(P0, sought)
    [request] = situation.offsets.validation_requests(0)
    situation.offsets.handle_validation_response(late, answer((P0, 0, 3, 60)), 0)
    assert situation.subscriptions.state(P0).state is FetchState.AWAIT_VALIDATION
    situation.offsets.handle_validation_response(request, answer((P0, 0, 4, 100)), 0)
    assert situation.subscriptions.position(P0) == sought
    assert situation.subscriptions.state(P0).state is FetchState.FETCHING


@pytest.mark.parametrize("code", [3, 5, 6, 9, 56, 74, 76, 78])
def test_errors_of_the_validation_are_asked_again_with_fresh_metadata(code: int) -> None:
    situation = Situation()
    request = situation.elect(2, 4)
    situation.offsets.handle_validation_response(request, answer((P0, code, -1, -1), (P1, 0, 3, 60)), 1000)
    assert situation.cluster.updates == 1
    state = situation.subscriptions.state(P0)
    assert (state.state, state.next_retry_ms) == (FetchState.AWAIT_VALIDATION, 1000 + BACKOFF_MS)
    assert situation.subscriptions.state(P1).state is FetchState.FETCHING


def test_missing_permission_is_raised_after_the_other_answers() -> None:
    situation = Situation()
    request = situation.elect(2, 4)
    with pytest.raises(TopicAuthorizationFailed, match=r"\[t\]"):
        situation.offsets.handle_validation_response(request, answer((P0, 29, -1, -1), (P1, 0, 3, 60)), 1000)
    assert situation.subscriptions.state(P1).state is FetchState.FETCHING


@pytest.mark.parametrize("code", [3, 6, 9, 56, 74, 78, 100, 103])
def test_error_of_a_follower_sends_us_back_to_the_leader(code: int) -> None:
    situation = Situation()
    situation.fetched(1, preferred=2)
    assert situation.subscriptions.preferred_read_replica(P0, 0) == 2
    situation.fetched(2, error=code)
    assert situation.subscriptions.preferred_read_replica(P0, 0) is None
    assert situation.cluster.updates == 1


def test_preference_expires_with_the_age_of_metadata() -> None:
    situation = Situation()
    situation.fetched(1, now_ms=1000, preferred=2)
    assert situation.nodes_asked(1000 + MAX_AGE_MS - 1) == {1, 2}
    assert situation.subscriptions.preferred_read_replica(P0, 1000 + MAX_AGE_MS) is None


def test_new_leader_ends_the_preference_of_the_old_one() -> None:
    situation = Situation()
    situation.fetched(1, preferred=2)
    situation.elect(1, 4)
    assert situation.subscriptions.preferred_read_replica(P0, 0) is None


def test_unchanged_leader_keeps_the_preference() -> None:
    situation = Situation()
    situation.fetched(1, preferred=2)
    situation.offsets.note_leaders()
    assert situation.subscriptions.preferred_read_replica(P0, 0) == 2


def test_rack_of_the_client_is_in_every_fetch() -> None:
    [item] = Situation().fetcher.prepare(0, lambda _: True)
    assert item.request.rack_id == "east"
    assert Config(CONSUMER, {"client.rack": "east"}).client_rack == "east"


@pytest.mark.parametrize(
    ("nodes", "replicas", "offline", "expected"),
    [((1, 2), (1, 2), (), True), ((1,), (1, 2), (), False), ((1, 2), (1,), (), False), ((1, 2), (1, 2), (2,), False)],
    ids=["online", "left-the-cluster", "holds-it-no-more", "offline"],
)
def test_follower_is_read_only_while_it_is_an_online_replica(
    nodes: tuple[int, ...], replicas: tuple[int, ...], offline: tuple[int, ...], expected: bool
) -> None:
    view = PartitionView("t", 0, 1, 3, replicas, replicas, offline)
    cluster = ClusterView(
        {node: Node(node, "h", 9092) for node in nodes}, {"t": TopicView("t", None, False, {0: view})}
    )
    leaders = MetadataLeaders(SimpleNamespace(cluster=cluster))  # type: ignore[arg-type]
    assert leaders.has_replica(P0, 2) is expected
    assert not leaders.has_replica(TopicPartition("other", 0), 2)
