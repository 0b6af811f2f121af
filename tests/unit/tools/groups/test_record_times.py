"""Timestamps of records by offset, from brokers whose Fetch responses do not help."""

from __future__ import annotations

from typing import Any

import pytest
from support.manual_clock import ManualClock
from support.scripted_broker import ScriptedBroker, partition
from support.unit_admin import fast_admin

from kafkatools.core.errors import Timeout
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.groups.record_times import RecordTime, record_times


def batch(offset: int, timestamp: int) -> bytes:
    builder = BatchBuilder(1 << 10, base_offset=offset)
    builder.append_with_offset(offset, timestamp, b"k", b"v")
    return bytes(builder.close())


def broker_with(records: bytes) -> ScriptedBroker:
    """A broker that returns the same records of orders-0 from any offset."""

    def fetch(header: Any, request: Any) -> dict[str, Any]:
        part = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": records}
        return {"responses": [{"topic": "orders", "partitions": [part]}]}

    broker = ScriptedBroker({ApiKey.FETCH: fetch})
    broker.topics = [{"name": "orders", "partitions": [partition(0)]}]
    return broker


def times_at(broker: ScriptedBroker, *offsets: int) -> dict[Any, Any]:
    """The search's result; only its back-offs take time, so that it makes the same fetches on any machine."""
    with broker.in_background(), fast_admin(broker, ManualClock(), default_api_timeout_ms="300") as admin:
        return record_times(admin, [("orders", 0, offset) for offset in offsets])


@pytest.mark.slow
@pytest.mark.parametrize("records", [b"", batch(3, 100)[:-1], batch(3, 100)], ids=["none", "cut", "earlier"])
def test_search_ends_when_no_batch_after_the_position_comes(records: bytes) -> None:
    broker = broker_with(records)
    found = times_at(broker, 5)[("orders", 0, 5)]
    assert isinstance(found, Timeout)
    assert str(found) == "orders-0: no records came from offset 5 on"
    assert broker.count(ApiKey.FETCH) > 2


def test_times_found_before_the_search_ended_are_kept() -> None:
    times = times_at(broker_with(batch(3, 100) + batch(4, 200)), 4, 7)
    assert times[("orders", 0, 4)] == RecordTime(4, 200)
    assert isinstance(times[("orders", 0, 7)], Timeout)
