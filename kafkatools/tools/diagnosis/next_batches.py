"""Fetch the batches at committed offsets: what a consumer of the group would read next.

Each partition has a request of its own, since only a request's first partition gets a batch beyond the limits (KIP-74).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.errors import KafkaError
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.batch import read_batches
from kafkatools.core.topic_partition import topic_fields
from kafkatools.tools.diagnosis.observations import NextBatch, TopicPartition

_OLDEST_FETCH = 4
_NEWEST_FETCH = 12
_BYTES = 64 << 10


def next_batches(
    admin: AdminClient, offsets: Mapping[TopicPartition, int], leaders: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, NextBatch | KafkaError]:
    """Return the batch at the offset of each partition, or the error of its leader. A partition of which no record was
    returned is left out, unless none follows. Raises KafkaError when the brokers cannot be listed."""
    admin.refresh_cluster(timeout_ms)
    requests = [_request(leaders[key], key, offset) for key, offset in offsets.items()]
    responses = admin.send_all(requests, admin.deadline_ms(timeout_ms))
    found: dict[TopicPartition, NextBatch | KafkaError] = {}
    for (key, offset), response in zip(offsets.items(), responses, strict=True):
        batch = response.error or _read(response, offset)
        if batch is not None:
            found[key] = batch
    return found


def _request(leader: int, key: TopicPartition, offset: int) -> BrokerRequest:
    part = {"partition": key[1], "fetch_offset": offset, "partition_max_bytes": _BYTES}
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": _BYTES}
    fields = {"replica_id": -1, **limits, "topics": topic_fields([(key, part)], "topic")}
    return BrokerRequest(leader, ApiKey.FETCH, fields, _OLDEST_FETCH, _NEWEST_FETCH)


def _read(response: BrokerResponse, offset: int) -> NextBatch | KafkaError | None:
    for topic in response.entity.responses:
        for part in topic.partitions:
            error = error_in(part)
            return error if error is not None else _next(part.records or b"", offset, part.high_watermark)
    return None


def _next(records: memoryview | bytes, offset: int, high_watermark: int) -> NextBatch | None:
    """Return the batch with the next record, an empty one if no record follows, None if that is unknown."""
    found = _first_batch(records, offset)
    if found is not None:
        return found
    end = max((batch.next_offset for batch in read_batches(records)), default=-1)
    return NextBatch(0, -1, -1) if end >= high_watermark else None


def _first_batch(records: memoryview | bytes, offset: int) -> NextBatch | None:
    """Return the first batch with a record at or after the offset, None without one. Markers are passed over."""
    try:
        for batch in read_batches(records):
            try:
                batch.ensure_valid()
                columns = batch.columns()
            except KafkaError as error:
                return NextBatch(batch.size_bytes, -1, -1, str(error), batch.next_offset)
            if batch.is_control or batch.next_offset <= offset:
                continue
            for found, timestamp in zip(columns.offsets, columns.timestamps, strict=True):
                if found >= offset:
                    return NextBatch(batch.size_bytes, found, timestamp, None, batch.next_offset)
    except KafkaError as error:
        return NextBatch(len(records), -1, -1, str(error))
    return None
