"""The records of `__transaction_state`, encoded and decoded (Kafka's TransactionLog).

Version 1 of the value (flexible, with producer ids and the client's version as tags) is written when the cluster's
transaction.version is 1 or more, else version 0. As in Kafka the last producer epoch is not written. A retried
InitProducerId is therefore not recognised after a restart.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.coordinators.transactions.states import TransactionState
from kafkatools.core.broker.coordinators.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionValue,
)
from kafkatools.core.protocol.messages import encode_fields
from kafkatools.core.protocol.schemas.transaction_log import TransactionLogKey, TransactionLogValue, encode_record
from kafkatools.core.topic_partition import topic_fields


def value_version(transaction_version: int) -> int:
    """The version of TransactionLogValue that a cluster with this transaction.version writes."""
    return 1 if transaction_version >= 1 else 0


def key_bytes(transactional_id: str) -> bytes:
    """The encoded TransactionLogKey of a transactional id."""
    return encode_record(TransactionLogKey(transactional_id=transactional_id), None)[0]


def value_bytes(value: TransactionValue, version: int) -> bytes:
    """Encode a transaction's value as a TransactionLogValue: two bytes with the version, then the fields. In state
    Empty the partitions are null."""
    topics = None
    if value.state is not TransactionState.EMPTY:
        topics = topic_fields(((place, place[1]) for place in sorted(value.partitions)), "topic", "partition_ids")
    fields = {
        "producer_id": value.producer_id,
        "previous_producer_id": value.previous_producer_id,
        "next_producer_id": value.next_producer_id,
        "producer_epoch": value.producer_epoch,
        "transaction_timeout_ms": value.timeout_ms,
        "transaction_status": value.state,
        "transaction_partitions": topics,
        "transaction_last_update_timestamp_ms": value.last_update_ms,
        "transaction_start_timestamp_ms": value.start_ms,
        "client_transaction_version": value.client_version,
    }
    return version.to_bytes(2, "big") + encode_fields(TransactionLogValue.entity(version), fields)


def transaction_of(transactional_id: str, entity: Any) -> Transaction:
    """The transaction that a TransactionLogValue entity holds. Raises ValueError for an unknown state."""
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
