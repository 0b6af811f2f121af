"""The table of states, and the records of `__transaction_state`."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace

import pytest

from kafkatools.core.broker.coordinators.transactions.log_records import (
    key_bytes,
    transaction_of,
    value_bytes,
    value_version,
)
from kafkatools.core.broker.coordinators.transactions.states import TransactionState
from kafkatools.core.broker.coordinators.transactions.transaction import Transaction
from kafkatools.core.errors import IllegalState
from kafkatools.core.protocol.schemas.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    decode_record,
    encode_record,
)

RECORDS = pathlib.Path(__file__).parents[5] / "golden" / "broker" / "transaction-log-records.json"
AT_REST = {"Empty", "CompleteCommit", "CompleteAbort"}
# As org.apache.kafka.coordinator.transaction.TransactionState of Apache Kafka 4.3.1 prints them.
PREVIOUS = {
    "Empty": AT_REST,
    "Ongoing": AT_REST | {"Ongoing"},
    "PrepareCommit": {"Ongoing"},
    "PrepareAbort": AT_REST | {"Ongoing", "PrepareEpochFence"},
    "CompleteCommit": {"PrepareCommit"},
    "CompleteAbort": {"PrepareAbort"},
    "Dead": AT_REST,
    "PrepareEpochFence": {"Ongoing"},
}


def test_states_follow_each_other_as_in_apache_kafka() -> None:
    found = {
        state.label: {previous.label for previous in TransactionState if state.may_follow(previous)}
        for state in TransactionState
    }
    assert found == PREVIOUS
    assert [state.label for state in sorted(TransactionState)] == list(PREVIOUS)


@pytest.mark.parametrize("record", json.loads(RECORDS.read_text()), ids=lambda record: record["state"])
def test_records_of_apache_kafka_are_read_and_written_to_the_byte(record: dict[str, str]) -> None:
    key, value = bytes.fromhex(record["key"]), bytes.fromhex(record["value"])
    name, entity = decode_record(key, value)
    transaction = transaction_of(name.transactional_id, entity)
    assert transaction.state.label == record["state"]
    assert key_bytes(name.transactional_id) == key
    assert value_bytes(transaction.value, value_version(2)) == value


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.ONGOING])
def test_values_framed_by_hand_are_those_of_the_schema(version: int, state: TransactionState) -> None:
    partitions = {("a", 0), ("a", 300), ("ü", 7)} if state is TransactionState.ONGOING else set()
    value = replace(
        Transaction.new("x", 5, 60_000, 1234).value,
        state=state,
        producer_epoch=32_000,
        partitions=frozenset(partitions),
        start_ms=99,
        **({"previous_producer_id": 4, "next_producer_id": 6, "client_version": 2} if version else {}),
    )
    tags = {"previous_producer_id": 4, "next_producer_id": 6, "client_transaction_version": 2} if version else {}
    topics = [{"topic": "a", "partition_ids": (0, 300)}, {"topic": "ü", "partition_ids": (7,)}]
    entity = TransactionLogValue(
        version=version,
        producer_id=5,
        producer_epoch=32_000,
        transaction_timeout_ms=60_000,
        transaction_status=int(state),
        transaction_partitions=topics if partitions else None,
        transaction_last_update_timestamp_ms=1234,
        transaction_start_timestamp_ms=99,
        **tags,
    )
    key = TransactionLogKey(transactional_id="ünique")
    assert (key_bytes("ünique"), value_bytes(value, version)) == encode_record(key, entity)
    assert transaction_of("x", decode_record(*encode_record(key, entity))[1]).value == value


def test_no_second_change_while_one_is_pending_and_none_that_is_not_legal() -> None:
    transaction = Transaction.new("x", 5, 60_000, 0)
    with pytest.raises(IllegalState):
        transaction.prepare_complete(1)
    prepared = transaction.prepare_next_epoch(60_000, None, 1)
    with pytest.raises(IllegalState):
        transaction.prepare_next_epoch(60_000, None, 1)
    with pytest.raises(IllegalState):
        transaction.complete(replace(prepared, state=TransactionState.ONGOING))
    transaction.complete(prepared)
    assert (transaction.pending, transaction.value.producer_epoch) == (None, 0)
