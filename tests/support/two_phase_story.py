"""Two-phase commit of transactions (KIP-939), told request by request to a broker that offers unstable API versions."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from support.prepared_transactions import Steps
from support.transaction_teller import Teller

import kafkatools
from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.errors import IllegalState, InvalidTxnState, KafkaError
from kafkatools.core.producer.producer import Producer
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import encode_fields
from kafkatools.core.protocol.schemas.transaction_log import TransactionLogKey, TransactionLogValue

TWO_PHASE_COMMIT = "transaction.two.phase.commit.enable"
SETTINGS = {"unstable.api.versions.enable": "true", TWO_PHASE_COMMIT: "true"}
GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "broker" / "two-phase-commit.json"
TOPIC = "__transaction_state"
_WITHOUT = {
    "transaction_last_update_timestamp_ms": 0,
    "transaction_start_timestamp_ms": 0,
    "producer_id": 0,
    "previous_producer_id": 0,
}


def golden(*, is_enabled: bool) -> list[Any]:
    """What Apache Kafka 4.3.1 answered and wrote, with transaction.two.phase.commit.enable or without it."""
    answers: dict[str, list[Any]] = json.loads(GOLDEN.read_text())
    return answers[str(is_enabled).lower()]


def announced(bootstrap: str) -> tuple[int, int]:
    """The versions of InitProducerId that a broker announces."""
    teller = Teller(bootstrap, "announced")
    with teller.client:
        found = teller.client.call(ApiKey.API_VERSIONS, 0, {})
    return next(
        (each.min_version, each.max_version) for each in found.api_keys if each.api_key == ApiKey.INIT_PRODUCER_ID
    )


def tell_of_two_phases(bootstrap: str, *, is_enabled: bool) -> list[Any]:
    """The answers of a broker, and with two-phase commit enabled the records that it wrote."""
    name = f"two_phases_{is_enabled}".lower()
    s = Teller(bootstrap, name)
    x, never = f"{name}.x", 0x7FFFFFFF
    s.find_coordinator(x)
    with s.client:
        t = s.topic()
        p = s.init(x, version=6)
        s.describe(x)
        s.init(x, version=6, enable2_pc=True)
        s.init(x, version=6, enable2_pc=True, keep_prepared_txn=True)
        s.init(x, version=6, keep_prepared_txn=True)
        s.init(x, version=6, keep_prepared_txn=True, timeout_ms=never)
        s.init(x, version=6, timeout_ms=never)
        s.init("", version=6, enable2_pc=True)
        s.describe(x)
        p = s.init(x, version=6, enable2_pc=True, timeout_ms=0)
        if is_enabled:
            s.describe(x)
            s.produce(x, p, (t, 0), 0, version=12, values=[b"a"])
            s.describe(x)
            p = s.end(x, p, commit=True, version=5)
            s.describe(x)
            s.produce(x, p, (t, 0), 0, version=12, values=[b"b"])
            s.init(x, version=6, enable2_pc=True, expected=p)  # aborts what is prepared
            s.settle(x)
            s.init(x, version=5)
            s.describe(x)
            s.read((t, 0))
    if is_enabled:
        s.answers += records_of(bootstrap, x)
    answers: list[Any] = json.loads(json.dumps(s.answers))
    for answer in answers:
        if answer[0] == "read":
            for batch in answer[5]:
                batch[5] = [_without_epoch(value) if batch[1] == "control" else value for value in batch[5]]
    return answers


def _without_epoch(marker: str) -> str:
    """The value of a marker with 0 for the coordinator's epoch, which grows with each restart of the broker."""
    return marker[:4] + "0" * len(marker[4:])


def records_of(bootstrap: str, transactional_id: str) -> list[str]:
    """The bytes of an id's values in `__transaction_state`, with 0 for times and for ids of producers."""
    values = []
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        consumer.assign((TOPIC, index) for index in consumer.partitions_for(TOPIC))
        consumer.seek_to_beginning()
        for record in consumer.read_to_end():
            if TransactionLogKey.read(0, record.key, 2)[0].transactional_id != transactional_id:
                continue
            version = int.from_bytes(record.value[:2], "big")
            value, _ = TransactionLogValue.read(version, record.value, 2)
            kind = TransactionLogValue.entity(version)
            fields = {name: getattr(value, name) for name in value.__layout__.names}
            assert encode_fields(kind, fields) == record.value[2:]
            values.append(encode_fields(kind, {**fields, **_WITHOUT}).hex())
    return values


def prepare_and_complete(bootstrap: str) -> None:
    """A producer with two-phase commit: what it prepares has no time-out and ends as the external coordinator says."""
    steps, name = Steps(bootstrap, 2), "two_phases_producer"
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name, TWO_PHASE_COMMIT: "true"}
    with Producer(Config(PRODUCER, settings)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b"committed")
        decided = producer.prepare_transaction()
        assert steps.description(name).timeout_ms == 0x7FFFFFFF
        assert producer.complete_transaction(decided)
        producer.begin_transaction()
        with pytest.raises(IllegalState, match="call prepare_transaction first"):
            producer.complete_transaction(decided)
        producer.send(name, b"aborted")
        producer.prepare_transaction()
        assert not producer.complete_transaction(decided)  # the coordinator decided on the one before
        producer.begin_transaction()
        producer.send(name, b"left to another process")
        decided = producer.prepare_transaction()
    assert steps.read(name) == ["committed"]
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        admin.end_transaction(decided, commit=True)
        with pytest.raises(InvalidTxnState):
            admin.end_transaction(decided, commit=False)
    steps.state(name)
    assert steps.read(name) == ["another", "committed", "left", "process", "to"]


def refused_producer(bootstrap: str) -> str:
    """The error of a producer with two-phase commit."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "refused", TWO_PHASE_COMMIT: "true"}
    with Producer(Config(PRODUCER, settings)) as producer, pytest.raises(KafkaError) as refused:
        producer.init_transactions()
    return str(refused.value)
