"""The fetcher with scripted answers: what is asked, what comes out, what each error does (FetcherTest of Kafka)."""

from __future__ import annotations

import uuid

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.errors import FetchFailed, FetchOffsetOutOfRange
from kafkatools.core.consumer.fetch_messages import CurrentLeader, FetchedPartition, FetchResponse
from kafkatools.core.consumer.fetcher import Fetcher, FetchSettings, NodeFetch, end_offset_of, stated_records
from kafkatools.core.consumer.subscription import (
    AutoOffsetResetStrategy,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    SubscriptionState,
    TopicPartition,
)
from kafkatools.core.errors import TopicAuthorizationFailed
from kafkatools.core.metrics.fetching import FetchMetrics
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import DEFAULT_WINDOW
from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.records.builder import BatchBuilder

ID = uuid.UUID(int=5)
P0, P1, P2 = (TopicPartition("t", index) for index in range(3))
ALL = 1 << 30


def batch(base_offset: int, count: int) -> bytes:
    builder = BatchBuilder(1 << 16, base_offset=base_offset)
    for index in range(count):
        builder.append(1_700_000_000_000, None, b"v%d" % (base_offset + index))
    return bytes(builder.close())


class Cluster:
    """Leaders as a test sets them."""

    def __init__(self) -> None:
        self.leaders = {P0: LeaderAndEpoch(1, 3), P1: LeaderAndEpoch(1, 3), P2: LeaderAndEpoch(2, 3)}
        self.nodes = {1, 2, 3}
        self.updates = 0
        self.moved: list[tuple[TopicPartition, CurrentLeader, tuple[NodeEndpoint, ...]]] = []

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        return self.leaders.get(partition)

    def topic_id(self, topic: str) -> uuid.UUID:
        return ID

    def has_replica(self, partition: TopicPartition, node: int) -> bool:
        return node in self.nodes

    def request_update(self) -> None:
        self.updates += 1

    def note_epoch(self, partition: TopicPartition, epoch: int) -> None:
        pass

    def update_leadership(
        self, partition: TopicPartition, leader: CurrentLeader, endpoints: tuple[NodeEndpoint, ...]
    ) -> bool:
        self.moved.append((partition, leader, endpoints))
        return True


class Script:
    """A fetcher and the brokers' side of it."""

    def __init__(self, *partitions: TopicPartition, reset: str = "latest", max_bytes: int = 52428800) -> None:
        self.cluster = Cluster()
        self.subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse(reset))
        self.subscriptions.assign(partitions)
        for part in partitions:
            self.subscriptions.seek(part, FetchPosition(0, -1, self.cluster.leaders[part]))
        self.fetcher = Fetcher(FetchSettings(fetch_max_bytes=max_bytes), self.subscriptions, self.cluster)
        self.session_ids = {1: 11, 2: 12, 3: 13}

    def prepare(self, now_ms: int = 0) -> list[NodeFetch]:
        return self.fetcher.prepare(now_ms, lambda node: True)

    def asked(self, now_ms: int = 0) -> dict[int, list[tuple[int, int]]]:
        """(partition, offset) by node of the requests that go out now."""
        return {
            item.node: [(part.partition, part.fetch_offset) for part in item.request.partitions]
            for item in self.prepare(now_ms)
        }

    def answer(self, node: int, *partitions: FetchedPartition, endpoints: tuple[NodeEndpoint, ...] = ()) -> None:
        response = FetchResponse(0, 0, self.session_ids[node])
        response.partitions = list(partitions)
        response.node_endpoints = endpoints
        self.fetcher.handle_response(node, response, 17)

    def collect(self, max_records: int = ALL) -> list[bytes | None]:
        return values(self.fetcher.collect(max_records))


def data(part: TopicPartition, records: bytes = b"", error: int = 0, preferred: int = -1) -> FetchedPartition:
    result = FetchedPartition("", ID, part.partition, error)
    result.records = memoryview(records)
    result.high_watermark = 1000 if not error else -1
    result.preferred_read_replica = preferred
    return result


def values(fetched: list[FetchedColumns]) -> list[bytes | None]:
    return [record.value for item in fetched for record in item.columns.records()]


def test_one_request_for_each_node_with_its_partitions() -> None:
    script = Script(P0, P1, P2)
    assert script.asked() == {1: [(0, 0), (1, 0)], 2: [(2, 0)]}
    assert script.asked() == {}, "one in flight for each node"


def test_request_carries_leader_epoch_topic_id_and_limits() -> None:
    request = Script(P0).prepare()[0].request
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 52428800)
    part = request.partitions[0]
    assert (part.topic_id, part.current_leader_epoch, part.max_bytes) == (ID, 3, 1048576)


def test_next_fetch_starts_behind_what_is_buffered() -> None:
    script = Script(P0)
    script.asked()
    script.answer(1, data(P0, batch(0, 10) + batch(10, 5)))
    assert script.asked() == {1: [(0, 15)]}
    script.answer(1, data(P0, batch(15, 5)))
    assert script.asked() == {}, "two answers wait: no third"
    assert script.collect() == [b"v%d" % index for index in range(20)]
    assert script.asked() == {1: [(0, 20)]}


def test_max_records_slices_and_the_position_follows() -> None:
    script = Script(P0)
    script.asked()
    script.answer(1, data(P0, batch(0, 4) + batch(4, 4)))
    assert script.collect(3) == [b"v0", b"v1", b"v2"]
    position = script.subscriptions.position(P0)
    assert position is not None
    assert position.offset == 3
    assert script.collect(3) == [b"v3", b"v4", b"v5"]
    assert script.collect(3) == [b"v6", b"v7"]
    assert script.collect(3) == []


def test_buffered_bytes_bound_what_is_asked_for() -> None:
    script = Script(P0, P2, max_bytes=100)
    script.asked()
    script.answer(1, data(P0, batch(0, 10)))
    assert script.asked() == {}
    script.collect()
    script.answer(2, data(P2, b""))
    assert script.asked() == {1: [(0, 10)], 2: []}


def test_paused_partition_with_a_full_buffer_does_not_stop_the_others() -> None:
    script = Script(P0, P2, max_bytes=100)
    script.asked()
    script.answer(1, data(P0, batch(0, 10)))
    script.subscriptions.pause(P0)
    script.answer(2, data(P2, b""))
    assert script.asked() == {2: []}
    script.answer(2, data(P2, batch(0, 3)))
    assert script.collect() == [b"v0", b"v1", b"v2"]
    script.subscriptions.resume(P0)
    assert script.collect() == [b"v%d" % number for number in range(10)]


def test_paused_responses_stay_in_order_when_another_partition_fills_a_poll() -> None:
    script = Script(P0, P2)
    script.asked()
    script.answer(1, data(P0, batch(0, 3)))
    script.answer(2, data(P2, batch(0, 3)))
    script.asked()
    script.answer(1, data(P0, batch(3, 3)))
    script.subscriptions.pause(P0)
    assert script.collect(2) == [b"v0", b"v1"]
    script.subscriptions.resume(P0)
    assert sorted(script.collect()) == sorted([b"v2", *(b"v%d" % number for number in range(6))])


def test_the_end_of_a_partition_that_is_assigned_again_is_reported_again() -> None:
    script = Script(P0)
    for _ in range(2):
        assert script.asked() == {1: [(0, 0)]}
        script.answer(1, data(P0))
        assert script.subscriptions.state(P0).high_watermark == 1000
        script.subscriptions.assign(())
        script.subscriptions.assign((P0,))
        script.subscriptions.seek(P0, FetchPosition(0, -1, script.cluster.leaders[P0]))


def test_seek_makes_what_is_buffered_stale() -> None:
    script = Script(P0)
    script.asked()
    script.answer(1, data(P0, batch(0, 10)))
    script.asked()
    script.subscriptions.seek(P0, FetchPosition(500, -1, LeaderAndEpoch(1, 3)))
    assert script.collect() == []
    script.answer(1, data(P0, batch(10, 10)))
    assert script.collect() == []
    assert script.asked() == {1: [(0, 500)]}


def test_pause_keeps_what_is_buffered() -> None:
    script = Script(P0, P1)
    script.asked()
    script.answer(1, data(P0, batch(0, 2)), data(P1, batch(0, 1)))
    script.subscriptions.pause(P0)
    assert script.collect() == [b"v0"]
    assert not script.fetcher.has_completed()
    script.subscriptions.resume(P0)
    assert script.collect() == [b"v0", b"v1"]


def test_unassigned_partition_is_dropped() -> None:
    script = Script(P0, P1)
    script.asked()
    script.answer(1, data(P0, batch(0, 2)), data(P1))
    script.subscriptions.assign([P1])
    assert script.collect() == []


@pytest.mark.parametrize("code", [3, 6, 9, 56, 74, 78, 100, 103])
def test_errors_of_stale_metadata_ask_for_fresh_and_try_again(code: int) -> None:
    script = Script(P0)
    script.asked()
    script.answer(1, data(P0, error=code))
    assert script.collect() == []
    assert script.cluster.updates == 1
    position = script.subscriptions.position(P0)
    assert position is not None
    assert position.offset == 0
    assert script.asked(now_ms=99) == {}, "not before retry.backoff.ms"
    # The session remembers the partition, so it need not be named again.
    assert script.asked(now_ms=100) == {1: []}


@pytest.mark.parametrize("code", [75, -1])
def test_errors_that_pass_are_only_tried_again(code: int) -> None:
    script = Script(P0)
    script.asked()
    script.answer(1, data(P0, error=code))
    assert script.collect() == []
    assert script.cluster.updates == 0
    assert script.asked(now_ms=99) == {}
    assert script.asked(now_ms=100) == {1: []}


def test_new_leader_in_the_answer_is_taken_over() -> None:
    script = Script(P0)
    script.asked()
    moved = data(P0, error=6)
    moved.current_leader = CurrentLeader(2, 9)
    endpoints = (NodeEndpoint(2, "b2", 9092, None),)
    script.answer(1, moved, endpoints=endpoints)
    assert script.cluster.moved == [(P0, CurrentLeader(2, 9), endpoints)]
    script.cluster.leaders[P0] = LeaderAndEpoch(2, 9)
    assert script.collect() == []
    assert script.asked() == {2: [(0, 0)]}, "the new leader is asked at once"


def test_offset_out_of_range_resets_by_policy() -> None:
    script = Script(P0, reset="earliest")
    script.asked()
    script.answer(1, data(P0, error=1))
    assert script.collect() == []
    assert script.subscriptions.state(P0).state is FetchState.AWAIT_RESET


def test_offset_out_of_range_without_policy_is_an_error() -> None:
    script = Script(P0, reset="none")
    script.asked()
    script.answer(1, data(P0, error=1))
    with pytest.raises(FetchOffsetOutOfRange, match=r"\{t-0=0\} is out of range, and no reset policy is configured"):
        script.collect()
    assert script.collect() == []


def test_out_of_range_of_an_older_position_is_ignored() -> None:
    script = Script(P0, reset="none")
    script.asked()
    script.subscriptions.seek(P0, FetchPosition(7, -1, LeaderAndEpoch(1, 3)))
    script.answer(1, data(P0, error=1))
    assert script.collect() == []
    assert script.subscriptions.state(P0).state is FetchState.FETCHING


def test_authorization_and_corruption_on_the_broker_are_raised() -> None:
    for code, error in ((29, TopicAuthorizationFailed), (2, FetchFailed), (87, FetchFailed)):
        script = Script(P0)
        script.asked()
        script.answer(1, data(P0, error=code))
        with pytest.raises(error):
            script.collect()


def test_error_behind_records_comes_with_the_next_call() -> None:
    script = Script(P0, P1)
    script.asked()
    script.answer(1, data(P0, batch(0, 2)), data(P1, error=29))
    assert script.collect() == [b"v0", b"v1"]
    with pytest.raises(TopicAuthorizationFailed):
        script.collect()


def test_preferred_read_replica_is_read_until_out_of_range() -> None:
    script = Script(P0)
    script.asked()
    script.answer(1, data(P0, preferred=3))
    assert script.collect() == []
    assert script.asked() == {3: [(0, 0)]}
    script.answer(3, data(P0, error=1))
    assert script.collect() == []
    assert script.subscriptions.state(P0).state is FetchState.FETCHING
    assert script.cluster.updates == 1
    assert script.asked() == {1: []}, "back to the leader, whose session knows the partition"


def test_replica_that_left_the_cluster_is_not_asked() -> None:
    script = Script(P0)
    script.asked()
    script.answer(1, data(P0, preferred=3))
    script.collect()
    script.cluster.nodes.discard(3)
    assert script.asked() == {1: []}
    assert script.cluster.updates == 1


def test_partition_without_leader_asks_for_metadata() -> None:
    script = Script(P0)
    del script.cluster.leaders[P0]
    assert script.asked() == {}
    assert script.cluster.updates == 1


def test_lost_request_is_sent_in_full_again() -> None:
    script = Script(P0)
    script.asked()
    script.fetcher.handle_failure(1)
    assert script.asked() == {1: [(0, 0)]}


def test_answer_without_records_notes_the_offsets() -> None:
    script = Script(P0)
    script.asked()
    script.answer(1, data(P0))
    assert script.subscriptions.state(P0).high_watermark == 1000
    assert not script.fetcher.has_completed()


def test_epochs_of_the_position_come_from_the_batches() -> None:
    script = Script(P0)
    script.asked()
    records = bytearray(batch(0, 3))
    records[12:16] = (8).to_bytes(4, "big")
    script.answer(1, data(P0, bytes(records)))
    script.collect()
    assert script.subscriptions.position(P0) == FetchPosition(3, 8, LeaderAndEpoch(1, 3))


def test_closing_ends_the_sessions() -> None:
    script = Script(P0, P2)
    script.asked()
    script.answer(1, data(P0))
    script.answer(2, data(P2))
    ends = {
        item.node: (item.request.session_id, item.request.session_epoch) for item in script.fetcher.close_requests()
    }
    assert ends == {1: (11, -1), 2: (12, -1)}


def test_end_offset_needs_whole_batches() -> None:
    first, second = batch(0, 3), batch(3, 4)
    assert end_offset_of(data(P0, first + second)) == 7
    assert end_offset_of(data(P0, first + second[:-1])) == 3
    assert end_offset_of(data(P0, first[:20])) is None
    assert end_offset_of(data(P0, error=6)) is None


def test_records_of_batches_are_counted_as_their_headers_state() -> None:
    first, second = batch(0, 3), batch(3, 4)
    assert stated_records(memoryview(first + second)) == 7
    assert stated_records(memoryview(first + second[:-1])) == 3
    absurd = second[:57] + (-5).to_bytes(4, "big", signed=True) + second[61:]
    assert stated_records(memoryview(first + absurd)) == 3
    old = second[:16] + b"\x01" + second[17:]
    assert stated_records(memoryview(first + old)) == 4


def test_undecoded_batches_are_measured_as_records_are() -> None:
    script, registry = Script(P0, P1), MetricsRegistry("c", DEFAULT_WINDOW, ManualClock())
    script.fetcher = Fetcher(FetchSettings(), script.subscriptions, script.cluster, FetchMetrics(registry))
    script.fetcher.note_time(registry.clock.now_ms())
    script.asked()
    whole, other = batch(0, 10), batch(0, 5)
    script.answer(1, data(P0, whole), data(P1, other))
    assert [bytes(item.records) for item in script.fetcher.collect_batches()] == [whole, other]
    values = registry.values()
    assert values["bytes-consumed-total"] == values["fetch-size-max"] == len(whole) + len(other)
    assert values["records-consumed-total"] == values["records-per-request-avg"] == 15
    assert values["records-lag-max"] == 1000 - 5
    lag = {name.tag("partition"): value for name, value in values.items() if name.name == "records-lag"}
    assert lag == {"0": 990, "1": 995}


def test_batches_that_were_dropped_unread_end_the_measurement_of_their_response() -> None:
    script, registry = Script(P0, P1), MetricsRegistry("c", DEFAULT_WINDOW, ManualClock())
    script.fetcher = Fetcher(FetchSettings(), script.subscriptions, script.cluster, FetchMetrics(registry))
    script.fetcher.note_time(registry.clock.now_ms())
    script.asked()
    script.answer(1, data(P0, batch(0, 10)), data(P1, batch(0, 5)))
    script.subscriptions.seek(P0, FetchPosition(7, -1, script.cluster.leaders[P0]))
    assert [item.partition for item in script.fetcher.collect_batches()] == [P1]
    assert registry.values()["records-consumed-total"] == 5
