"""Share sessions, acknowledgements and responses without a broker: lost sessions, changed leaders, retries, damage."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from support.log_batches import make_batch

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.fetch_messages import CurrentLeader
from kafkatools.core.consumer.share.acknowledgements import GAP, AcknowledgedRange, Acknowledgements, AcknowledgeType
from kafkatools.core.consumer.share.messages import PendingAcknowledgement, ShareRequest, ShareSettings
from kafkatools.core.consumer.share.requests import ShareRequests
from kafkatools.core.consumer.share.session import PartitionId
from kafkatools.core.consumer.subscription import LeaderAndEpoch
from kafkatools.core.errors import (
    Disconnected,
    NotLeaderOrFollower,
    ShareSessionNotFound,
    Timeout,
    known_codes,
)
from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import build, response_type
from kafkatools.core.topic_partition import TopicPartition

CODES = {error.name: code for code, error in known_codes().items()}
TOPIC = uuid.UUID(int=7)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
PLACES = {PartitionId(TOPIC, number): TopicPartition("t", number) for number in range(3)}
NOW = 1000


class Cluster:
    """Leaders of the partitions: partition 0 on node 1, others on node 2."""

    def __init__(self) -> None:
        self.leaders = {0: 1, 1: 2, 2: 2}
        self.updates = 0

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        return LeaderAndEpoch(self.leaders[partition.partition], 1)

    def request_update(self) -> int:
        self.updates += 1
        return self.updates

    def update_leadership(
        self, partition: TopicPartition, leader: CurrentLeader, endpoints: tuple[NodeEndpoint, ...]
    ) -> bool:
        self.leaders[partition.partition] = leader.leader_id
        return True


def requests_of(cluster: Cluster, **settings: Any) -> ShareRequests:
    config = Config(CONSUMER, {"bootstrap.servers": "b:1", "group.id": "g", **settings})
    return ShareRequests(ShareSettings.of(config, "member"), cluster)


def fetch(requests: ShareRequests, now_ms: int = NOW, **kwargs: Any) -> list[ShareRequest]:
    return requests.prepare(now_ms, PLACES, lambda node: True, wants_records=True, **kwargs)


def acknowledge(requests: ShareRequests, now_ms: int = NOW) -> list[ShareRequest]:
    return requests.prepare(now_ms, {}, lambda node: True, wants_records=False)


def pending(number: int, node: int, kind: int = ACCEPT, deadline_ms: int = 5000) -> PendingAcknowledgement:
    place = PartitionId(TOPIC, number), TopicPartition("t", number)
    return PendingAcknowledgement(node, place, Acknowledgements([AcknowledgedRange(4, 6, kind)]), deadline_ms)


def answer(request: ShareRequest, error: str = "", partitions: Mapping[int, Mapping[str, object]] | None = None) -> Any:
    responses = [
        {"partition_index": number, "current_leader": {"leader_id": 0, "leader_epoch": 0}, **fields}
        for number, fields in (partitions or {}).items()
    ]
    fields = {
        "error_code": CODES[error] if error else 0,
        "acquisition_lock_timeout": 30_000,
        "responses": [{"topic_id": TOPIC, "partitions": responses}] if responses else [],
    }
    return build(response_type(request.api_key, 2), fields)


def epochs(requests: list[ShareRequest]) -> dict[int, object]:
    return {request.node: request.fields(2)["share_session_epoch"] for request in requests}


def test_a_session_opens_with_all_partitions_and_goes_on_with_changes() -> None:
    requests = requests_of(Cluster())
    first = fetch(requests)
    assert epochs(first) == {1: 0, 2: 0}
    assert [len(t["partitions"]) for t in first[1].fields(2)["topics"]] == [2]  # type: ignore[attr-defined]
    assert fetch(requests) == []  # one request to a node at a time
    for request in first:
        requests.handle_response(request, answer(request), NOW)
    assert requests.lock_ms == 30_000
    second = requests.prepare(NOW, dict([*PLACES.items()][:2]), lambda node: True, wants_records=True)
    assert epochs(second) == {1: 1, 2: 1}
    assert second[1].fields(2)["topics"] == []
    assert second[1].fields(2)["forgotten_topics_data"] == [{"topic_id": TOPIC, "partitions": [2]}]
    assert "share_acquire_mode" not in second[1].fields(1)


def test_acknowledgements_of_one_partition_are_sent_in_order_and_all_get_their_result() -> None:
    requests = requests_of(Cluster())
    for request in fetch(requests):
        requests.handle_response(request, answer(request), NOW)
    place = PartitionId(TOPIC, 0), TopicPartition("t", 0)
    items = [
        PendingAcknowledgement(1, place, Acknowledgements([AcknowledgedRange(offset, offset, kind)]), 5000)
        for offset, kind in ((6, ACCEPT), (2, RENEW), (5, ACCEPT))
    ]
    requests.queue(items)
    [request] = acknowledge(requests)
    [topic] = request.fields(2)["topics"]  # type: ignore[misc]
    [partition] = topic["partitions"]
    assert [(batch["first_offset"], batch["last_offset"]) for batch in partition["acknowledgement_batches"]] == [
        (2, 2),
        (5, 6),
    ]
    requests.handle_response(request, answer(request, partitions={0: {"error_code": 0}}), NOW)
    assert all(item.is_done and item.error is None for item in items)
    assert requests.completed == items


def test_acknowledgements_ride_on_the_fetch_and_renewals_go_alone() -> None:
    requests = requests_of(Cluster())
    for request in fetch(requests):
        requests.handle_response(request, answer(request), NOW)
    rides, renewal = pending(0, 1), pending(1, 2, RENEW)
    requests.queue([rides, renewal])
    fetching, renewing = fetch(requests)
    assert fetching.is_fetch and fetching.carried == [rides]
    assert renewing.api_key == ApiKey.SHARE_ACKNOWLEDGE and renewing.min_version == 2
    assert renewing.fields(2)["is_renew_ack"] is True
    requests.handle_response(fetching, answer(fetching, partitions={0: {"acknowledge_error_code": 121}}), NOW)
    assert rides.is_done and type(rides.error).__name__ == "InvalidRecordState"
    requests.handle_response(renewing, answer(renewing, partitions={1: {}}), NOW)
    assert renewal.is_done and renewal.error is None
    assert requests.completed == [rides, renewal]


def test_a_lost_session_fails_its_acknowledgements_and_opens_anew() -> None:
    requests = requests_of(Cluster())
    first, second = fetch(requests)
    requests.handle_response(first, answer(first), NOW)
    requests.handle_failure(second, Disconnected(), NOW)
    item = pending(1, 2)
    requests.queue([item])
    assert [request.node for request in fetch(requests)] == [1]  # node 2 backs off
    assert isinstance(item.error, ShareSessionNotFound)
    (again,) = fetch(requests, NOW + 100)
    assert epochs([again]) == {2: 0} and again.carried == []
    requests.handle_response(again, answer(again, "INVALID_SHARE_SESSION_EPOCH"), NOW)
    assert epochs(fetch(requests, NOW + 200)) == {2: 0}


def test_a_changed_leader_fails_acknowledgements_and_is_taken_from_the_response() -> None:
    cluster = Cluster()
    requests = requests_of(cluster)
    first, second = fetch(requests)
    moved = {"error_code": CODES["NOT_LEADER_OR_FOLLOWER"], "current_leader": {"leader_id": 2, "leader_epoch": 5}}
    requests.handle_response(first, answer(first, partitions={0: moved}), NOW)
    requests.handle_response(second, answer(second), NOW)
    item = pending(0, 1)
    requests.queue([item])
    (after,) = fetch(requests)
    assert isinstance(item.error, NotLeaderOrFollower)
    assert after.node == 2 and [t["partitions"][0]["partition_index"] for t in after.fields(2)["topics"]] == [0]  # type: ignore[attr-defined]


def test_a_retriable_error_of_a_commit_is_retried_until_its_deadline() -> None:
    requests = requests_of(Cluster())
    for request in fetch(requests):
        requests.handle_response(request, answer(request), NOW)
    item = pending(0, 1, deadline_ms=NOW + 250)
    requests.queue([item])
    for now_ms in (NOW, NOW + 100):
        (request,) = acknowledge(requests, now_ms)
        busy = {0: {"error_code": CODES["COORDINATOR_LOAD_IN_PROGRESS"]}}
        requests.handle_response(request, answer(request, partitions=busy), now_ms)
        assert not item.is_done and acknowledge(requests, now_ms) == []
    assert acknowledge(requests, NOW + 250) == []
    assert isinstance(item.error, Timeout)


def test_record_limit_asks_one_node_at_a_time_in_turns() -> None:
    requests = requests_of(Cluster(), **{"share.acquire.mode": "record_limit"})
    asked = []
    for _ in range(4):
        (request,) = fetch(requests)
        assert fetch(requests) == []
        requests.handle_response(request, answer(request), NOW)
        asked.append(request.node)
    assert asked == [1, 2, 1, 2]


def test_closing_sends_the_final_epoch_with_waiting_acknowledgements() -> None:
    requests = requests_of(Cluster())
    first, second = fetch(requests)
    requests.handle_response(first, answer(first), NOW)
    item = pending(0, 1)
    requests.queue([item])
    (closing,) = requests.close_requests(NOW, lambda node: True)
    assert epochs([closing]) == {1: -1} and closing.carried == [item]
    requests.handle_response(closing, answer(closing, partitions={0: {}}), NOW)
    assert item.is_done and not requests.is_idle  # the fetch of node 2 is in flight
    requests.handle_response(second, answer(second), NOW)
    assert requests.close_requests(NOW, lambda node: False) == [] and requests.is_idle


def test_acquired_records_are_cut_out_and_damage_is_rejected_after_sound_records() -> None:
    requests = requests_of(Cluster())
    first, _ = fetch(requests)
    sound = make_batch([b"v"] * 4)
    damaged = bytearray(make_batch([b"v"] * 3, base_offset=4))
    damaged[-1] ^= 1
    acquired = [
        {"first_offset": 1, "last_offset": 2, "delivery_count": 3},
        {"first_offset": 3, "last_offset": 8, "delivery_count": 1},
    ]
    data = {"records": bytes(sound + damaged), "acquired_records": acquired}
    requests.handle_response(first, answer(first, partitions={0: data}), NOW)
    (taken,) = requests.take_buffered()
    assert [(list(item.columns.offsets), item.delivery_count) for item in taken.columns] == [([1, 2], 3), ([3], 1)]
    assert taken.settled == [AcknowledgedRange(4, 6, REJECT), AcknowledgedRange(7, 8, GAP)]
    assert taken.error is not None and taken.error.first_offset == 4


def test_ranges_of_one_type_are_joined() -> None:
    ranges = [(5, 6, ACCEPT), (1, 2, ACCEPT), (3, 3, ACCEPT), (4, 4, RELEASE)]
    content = Acknowledgements(AcknowledgedRange(*part) for part in ranges)
    assert [(b["first_offset"], b["last_offset"], b["acknowledge_types"]) for b in content.batches()] == [
        (1, 3, [1]), (4, 4, [2]), (5, 6, [1]),
    ]  # fmt: skip
    assert content.offsets() == {1, 2, 3, 4, 5, 6} and not content.has_renewals
