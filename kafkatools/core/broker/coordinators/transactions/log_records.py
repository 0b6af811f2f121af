"""The records of `__transaction_state` (Kafka's TransactionLog): values to bytes and back.

Version 1 of the value (flexible, with producer ids and the client's version as tags) is written when the cluster's
transaction.version is 1 or more, else version 0. Framed by hand: every transaction writes three of them. The last
producer epoch is not written, as in Kafka; so a producer's repeated InitProducerId is not recognised after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any

from kafkatools.core.broker.coordinators.transactions.states import TransactionState
from kafkatools.core.broker.coordinators.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    TransactionValue,
)
from kafkatools.core.protocol.varints import unsigned_varint

_KEY = Struct(">hh")
_HEAD = Struct(">hqhib")
_TIMES = Struct(">qq")
_COUNT = Struct(">i")
_LENGTH = Struct(">h")
_LONG_TAG = Struct(">BBq")
_SHORT_TAG = Struct(">BBh")
PREVIOUS_PRODUCER_ID, NEXT_PRODUCER_ID, CLIENT_VERSION = 0, 1, 2


def value_version(transaction_version: int) -> int:
    """The version of values that a cluster of this transaction.version writes."""
    return 1 if transaction_version >= 1 else 0


def key_bytes(transactional_id: str) -> bytes:
    """TransactionLogKey."""
    name = transactional_id.encode()
    return _KEY.pack(0, len(name)) + name


def value_bytes(value: TransactionValue, version: int) -> bytes:
    """TransactionLogValue of a version."""
    head = _HEAD.pack(version, value.producer_id, value.producer_epoch, value.timeout_ms, value.state)
    times = _TIMES.pack(value.last_update_ms, value.start_ms)
    topics = None if value.state is TransactionState.EMPTY else by_topic(value.partitions)
    if version == 0:
        return head + _plain_topics(topics) + times
    return head + _compact_topics(topics) + times + _tags(value)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Topic -> sorted partition numbers."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _plain_topics(topics: dict[str, list[int]] | None) -> bytes:
    if topics is None:
        return _COUNT.pack(-1)
    out = bytearray(_COUNT.pack(len(topics)))
    for topic, indexes in topics.items():
        name = topic.encode()
        out += _LENGTH.pack(len(name)) + name + _COUNT.pack(len(indexes))
        out += b"".join(map(_COUNT.pack, indexes))
    return bytes(out)


def _compact_topics(topics: dict[str, list[int]] | None) -> bytes:
    if topics is None:
        return b"\0"
    out = bytearray(unsigned_varint(len(topics) + 1))
    for topic, indexes in topics.items():
        name = topic.encode()
        out += unsigned_varint(len(name) + 1) + name + unsigned_varint(len(indexes) + 1)
        out += b"".join(map(_COUNT.pack, indexes)) + b"\0"
    return bytes(out)


def _tags(value: TransactionValue) -> bytes:
    tags = []
    if value.previous_producer_id != NO_PRODUCER_ID:
        tags.append(_LONG_TAG.pack(PREVIOUS_PRODUCER_ID, 8, value.previous_producer_id))
    if value.next_producer_id != NO_PRODUCER_ID:
        tags.append(_LONG_TAG.pack(NEXT_PRODUCER_ID, 8, value.next_producer_id))
    if value.client_version:
        tags.append(_SHORT_TAG.pack(CLIENT_VERSION, 2, value.client_version))
    return bytes([len(tags)]) + b"".join(tags)


def transaction_of(transactional_id: str, entity: Any) -> Transaction:
    """The transaction that a TransactionLogValue describes; ValueError for a state that there is not."""
    partitions = frozenset(
        (topic.topic, index) for topic in entity.transaction_partitions or () for index in topic.partition_ids
    )
    value = TransactionValue(
        entity.producer_id,
        getattr(entity, "previous_producer_id", NO_PRODUCER_ID),
        getattr(entity, "next_producer_id", NO_PRODUCER_ID),
        entity.producer_epoch,
        NO_PRODUCER_EPOCH,
        entity.transaction_timeout_ms,
        TransactionState(entity.transaction_status),
        partitions,
        entity.transaction_start_timestamp_ms,
        entity.transaction_last_update_timestamp_ms,
        getattr(entity, "client_transaction_version", 0),
    )
    return Transaction(transactional_id, value)
