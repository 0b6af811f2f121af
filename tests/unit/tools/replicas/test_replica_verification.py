"""Comparing replicas: what differs is found, what is only behind or cleaned is not; rounds against scripted brokers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.scripted_broker import ScriptedBroker
from support.unit_admin import fast_admin

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.replicas.verification import (
    CHECKSUM,
    CONTENT,
    DAMAGED,
    OFFSET,
    Difference,
    Fetched,
    ReplicaVerifier,
    Subject,
    compare,
)

KEY = ("orders", 0)
PLAIN = Subject("AAAAAAAAAAAAAAAAAAAAAQ", False)


def batch(*offsets: int, value: bytes = b"v") -> bytes:
    builder = BatchBuilder(1 << 14, base_offset=offsets[0])
    for offset in offsets:
        builder.append_with_offset(offset, 1, b"k", value)
    return bytes(builder.close())


LOG = batch(0, 1, 2) + batch(3) + batch(4, 5)


def poked(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_same_bytes_are_passed_up_to_the_lowest_high_watermark() -> None:
    found = compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, LOG, 5)])
    assert found == (4, [])


def test_replica_that_has_less_is_only_behind() -> None:
    assert compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, batch(0, 1, 2), 6)]) == (3, [])
    assert compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, b"", 0)]) == (0, [])
    cut = LOG[: len(LOG) - 1]
    assert compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, cut, 6)]) == (4, [])


def test_other_checksum_is_found_and_the_rest_is_compared() -> None:
    other = batch(0, 1, 2, value=b"w") + LOG[len(batch(0, 1, 2)) :]
    next_offset, (found,) = compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, other, 6)])
    assert (next_offset, found.kind, found.offset, found.replica, found.other) == (6, CHECKSUM, 2, 1, 2)
    assert found.value == int.from_bytes(LOG[17:21], "big")
    assert found.other_value == int.from_bytes(other[17:21], "big")


def test_other_bytes_with_the_same_checksum_are_found() -> None:
    other = poked(LOG, len(LOG) - 2)
    assert compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, other, 6), Fetched(3, LOG, 6)]) == (
        6,
        [Difference(CONTENT, "orders", 0, 5, 1, 2)],
    )


def test_other_offsets_end_the_comparison() -> None:
    other = batch(0, 1, 2) + batch(3, 4, 5)
    found = compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, other, 6)])
    assert found == (3, [Difference(OFFSET, "orders", 0, 3, 1, 2, 3, 5)])


def test_damage_is_found_with_the_replica_that_has_it() -> None:
    first = len(batch(0, 1, 2))
    other = LOG[:first] + poked(LOG[first:], 16 - 5)  # the length of the second batch
    other = other[: first + 8] + b"\0\0\0\1" + other[first + 12 :]
    next_offset, (found,) = compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, other, 6)])
    assert (next_offset, found.kind, found.offset, found.replica) == (3, DAMAGED, 3, 2)
    assert "Record size 1" in found.reason


def test_replicas_of_a_compacted_topic_may_be_cleaned_differently() -> None:
    cleaned = batch(2) + batch(3) + batch(4, 5)
    assert compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, cleaned, 6)], is_compacted=True) == (6, [])
    other = batch(2, value=b"w") + batch(5)
    found = compare(KEY, 0, [Fetched(1, LOG, 6), Fetched(2, other, 6)], is_compacted=True)
    assert found == (6, [Difference(CONTENT, "orders", 0, 2, 1, 2)])


# --- rounds


class Replica:
    """A broker that has a log of one partition and gives it from the offset that is asked for."""

    def __init__(self, log: bytes, high_watermark: int, start: int = 0) -> None:
        self.log, self.high_watermark, self.start = log, high_watermark, start
        self.broker = ScriptedBroker({ApiKey.FETCH: self._fetch, ApiKey.LIST_OFFSETS: self._list_offsets})

    def _fetch(self, header: Any, request: Any) -> dict[str, Any]:
        assert (request.replica_state.replica_id, request.session_epoch) == (-2, -1)
        (topic,) = request.topics
        (part,) = topic.partitions
        is_gone = part.fetch_offset < self.start
        answer = {
            "partition_index": 0,
            "error_code": 1 if is_gone else 0,
            "high_watermark": -1 if is_gone else self.high_watermark,
            "records": None if is_gone else self._from(part.fetch_offset),
        }
        return {"responses": [{"topic_id": topic.topic_id, "partitions": [answer]}]}

    def _from(self, offset: int) -> bytes:
        from kafkatools.core.records.batch import read_batches

        return b"".join(one.to_bytes() for one in read_batches(self.log) if one.last_offset >= offset)

    def _list_offsets(self, header: Any, request: Any) -> dict[str, Any]:
        assert request.replica_id == -2
        part = {"partition_index": 0, "error_code": 0, "offset": self.start, "timestamp": -1, "leader_epoch": 0}
        return {"topics": [{"name": "orders", "partitions": [part]}]}


class BrokenReplica(Replica):
    """A broker that fails as a whole."""

    def _fetch(self, header: Any, request: Any) -> dict[str, Any]:
        return {"error_code": 56, "responses": []}


def verify(
    first: Replica, second: Replica, rounds: int, patience_ms: int | None = None, **settings: str
) -> tuple[ReplicaVerifier, list[Any]]:
    nodes = {1: first.broker.port, 2: second.broker.port}
    first.broker.nodes = second.broker.nodes = nodes
    with first.broker.in_background(), second.broker.in_background(), fast_admin(first.broker, **settings) as admin:
        admin.refresh_cluster()
        places = ({KEY: (1, 2)}, {"orders": PLAIN}, {KEY: 0}, {KEY: 6})
        verifier = ReplicaVerifier(admin, *places, max_wait_ms=10, patience_ms=patience_ms)
        return verifier, [verifier.run_once() for _ in range(rounds)]


def test_rounds_go_on_to_the_end() -> None:
    verifier, (found,) = verify(Replica(LOG, 6), Replica(LOG, 6), 1)
    assert (found.differences, found.errors, found.has_progress) == ([], {}, True)
    assert (verifier.is_done(KEY), verifier.remaining(), verifier.max_lag()) == (True, [], ("orders", 0, 6, 0))


def test_where_a_replica_begins_later_the_others_are_compared_from_there() -> None:
    verifier, rounds = verify(Replica(LOG, 6), Replica(LOG, 6, start=4), 2)
    assert [(one.has_progress, one.differences) for one in rounds] == [(True, []), (True, [])]
    assert verifier.offsets[KEY] == 6


@pytest.mark.parametrize("high_watermark", [0, 3])
def test_replica_that_stays_behind_is_no_difference(high_watermark: int) -> None:
    verifier, rounds = verify(Replica(LOG, 6), Replica(LOG, high_watermark), 2)
    assert (verifier.offsets[KEY], rounds[1].has_progress) == (high_watermark, False)
    assert not rounds[0].differences and not rounds[1].differences
    assert verifier.max_lag() == ("orders", 0, high_watermark, 6 - high_watermark)


def test_partition_with_other_offsets_is_not_asked_for_again() -> None:
    verifier, (found,) = verify(Replica(LOG, 6), Replica(batch(0, 1, 2) + batch(3, 4, 5), 6), 1)
    assert [one.kind for one in found.differences] == [OFFSET]
    assert (verifier.remaining(), verifier.is_done(KEY)) == ([], False)


@pytest.mark.parametrize("patience_ms", [None, 60_000])
def test_replica_that_does_not_answer_holds_its_partition_up(patience_ms: int | None) -> None:
    verifier, rounds = verify(Replica(LOG, 6), BrokenReplica(LOG, 6), 2, patience_ms)
    assert [list(one.errors) for one in rounds] == [[(*KEY, 2)]] * 2
    assert (verifier.offsets[KEY], verifier.remaining(), verifier.left_out) == (0, [KEY], {})


def test_replica_that_has_not_answered_for_too_long_is_left_out_and_its_partition_is_not_done() -> None:
    verifier, (found,) = verify(Replica(LOG, 6), BrokenReplica(LOG, 6), 1, 0)
    assert (found.has_progress, list(found.errors)) == (True, [(*KEY, 2)])
    assert (verifier.offsets[KEY], verifier.remaining(), verifier.left_out) == (6, [], {KEY: [2]})
    assert not verifier.is_done(KEY)
    verifier, _ = verify(BrokenReplica(LOG, 6), BrokenReplica(LOG, 6), 1, 0)
    assert (verifier.offsets[KEY], verifier.remaining(), verifier.left_out) == (0, [], {KEY: [1, 2]})


class OddReplica(Replica):
    """A broker whose responses also have the partition a second time, and others that were not requested."""

    def _fetch(self, header: Any, request: Any) -> dict[str, Any]:
        (topic,) = super()._fetch(header, request)["responses"]
        other = {"partition_index": 1, "error_code": 1}
        unknown = {"topic_id": UUID(int=7), "partitions": [other]}
        return {"responses": [unknown, topic, {**topic, "partitions": [other, *topic["partitions"]]}]}

    def _list_offsets(self, header: Any, request: Any) -> dict[str, Any]:
        (topic,) = super()._list_offsets(header, request)["topics"]
        other = {"partition_index": 1, "error_code": 0, "offset": 9, "timestamp": -1, "leader_epoch": 0}
        return {"topics": [{**topic, "partitions": [other, *topic["partitions"]]}]}


def test_partition_that_a_response_has_twice_is_not_taken_for_two_replicas() -> None:
    verifier, (found,) = verify(OddReplica(LOG, 6), BrokenReplica(LOG, 6), 1)
    assert (list(found.errors), found.has_progress) == ([(*KEY, 2)], False)
    assert (verifier.remaining(), verifier.is_done(KEY)) == ([KEY], False)


def test_partitions_that_were_not_requested_are_left_out() -> None:
    verifier, rounds = verify(Replica(LOG, 6), OddReplica(LOG, 6, start=4), 2)
    assert [list(one.errors) for one in rounds] == [[(*KEY, 2)], []]
    assert (verifier.offsets, verifier.remaining()) == ({KEY: 6}, [])
