"""What every error code does to a transactional producer, as recorded from Apache Kafka 4.3.1
(tests/golden/transactions)."""

from __future__ import annotations

import json
import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.errors import (
    CommitFailed,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
    error_for_code,
    known_codes,
)
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.producer_batch import Payload, ProducerBatch
from kafkatools.core.producer.transaction_driver import TransactionDriver
from kafkatools.core.producer.transaction_manager import LEGAL_SOURCES, ProduceOutcome, State
from kafkatools.core.producer.transaction_requests import EndTxn, TransactionalResult, TxnOffsetCommit, TxnRequest
from kafkatools.core.producer.transactions import TransactionalManager
from kafkatools.core.records.builder import BatchBuilder

RECORDED = json.loads((pathlib.Path(__file__).parents[3] / "golden" / "transactions" / "reactions.json").read_text())
CODES = {error.name: code for code, error in known_codes().items()}
PLACE = TopicPartition("t", 0)
GROUP = ConsumerGroupMetadata("g", 5, "member")
OFFSETS = {PLACE: OffsetAndMetadata(9)}
CLASSES: dict[str, type[KafkaError]] = {
    "ProducerFencedException": ProducerFenced,
    "KafkaException": KafkaError,
    "TransactionAbortableException": TransactionAbortable,
    "CommitFailedException": CommitFailed,
}


def manager_of(version: int) -> TransactionalManager:
    manager = TransactionalManager("tid", 1000, 100)
    manager.note_coordinator(version >= 1, 1, version)
    return manager


def taken(manager: TransactionalManager) -> TxnRequest:
    request = manager.next_request(lambda: True)
    assert request is not None
    return request


def begun(version: int) -> TransactionalManager:
    manager = manager_of(version)
    result = manager.initialize_transactions()
    taken(manager).handle(SimpleNamespace(error_code=0, producer_id=7, producer_epoch=3), 0)
    result.wait(0)
    manager.begin_transaction()
    return manager


def added(code: int) -> SimpleNamespace:
    result = SimpleNamespace(partition_index=0, partition_error_code=code)
    return SimpleNamespace(results_by_topic_v3_and_below=[SimpleNamespace(name="t", results_by_partition=[result])])


def asked(manager: TransactionalManager, response: Any) -> TransactionalResult:
    """Lets the next request be answered by a coordinator that is known."""
    request = taken(manager)
    manager.lookup(request).endpoint = SimpleNamespace(id=1)  # type: ignore[assignment]
    request.handle(response, 0)
    return request.result


def answered(handler: str, version: int, code: int) -> tuple[TransactionalManager, TransactionalResult]:
    """The producer after one request of a kind was answered with an error."""
    if handler == "InitProducerId":
        manager = manager_of(version)
        manager.initialize_transactions()
        return manager, asked(manager, SimpleNamespace(error_code=code))
    manager = begun(version)
    response: Any = SimpleNamespace(error_code=code)
    if handler == "AddPartitionsToTxn":
        manager.add_partition(PLACE)
        response = added(code)
    elif handler == "AddOffsetsToTxn":
        manager.send_offsets(OFFSETS, GROUP)
    elif handler == "TxnOffsetCommit":
        manager.send_offsets(OFFSETS, GROUP)
        if version < 2:
            taken(manager).handle(SimpleNamespace(error_code=0), 0)
        part = SimpleNamespace(partition_index=0, error_code=code)
        response = SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[part])])
    else:
        manager.transaction_started = True
        (manager.begin_commit if handler == "EndTxn(commit)" else manager.begin_abort)()
    return manager, asked(manager, response)


class OneNode:
    """A network client that keeps what is sent."""

    def __init__(self) -> None:
        self.requests: list[ClientRequest] = []

    def least_loaded_node(self, now_ms: int) -> int:
        return 1

    def ready(self, node: int, now_ms: int) -> bool:
        return True

    def send(self, request: ClientRequest, now_ms: int) -> None:
        self.requests.append(request)


def looked_up(is_group: bool, version: int, code: int) -> tuple[TransactionalManager, TransactionalResult]:
    """The producer after FindCoordinator was answered with an error."""
    manager = begun(version)
    request: TxnRequest = TxnOffsetCommit(manager, OFFSETS, GROUP, True) if is_group else EndTxn(manager, True, True)
    manager.transaction_started = True
    manager.enqueue(request)
    client = OneNode()
    driver = TransactionDriver(manager, client, None, None, ManualClock(), 1000)  # type: ignore[arg-type]
    driver.step(0, lambda: True)
    question = client.requests[0]
    coordinator = SimpleNamespace(key="g" if is_group else "tid", error_code=code, error_message=None)
    assert question.callback is not None
    body = SimpleNamespace(coordinators=[coordinator])
    question.callback(ClientResponse(question, 4, body, None, None, False, 1))
    return manager, request.result


def names_of(error: BaseException | None, own: type[KafkaError]) -> set[str]:
    """What the recording may call an error: several names may fit, "its own" is the error of the code itself."""
    if error is None:
        return {"None"}
    names = {name for name, kind in CLASSES.items() if type(error) is kind}
    return names | ({"its own"} if type(error) is own else set())


def expanded(kind: str) -> list[tuple[dict[str, Any], str]]:
    named: dict[tuple[str, int], set[str]] = {}
    for case in RECORDED["cases"]:
        if case["errors"] != "others":
            named.setdefault((case["handler"], case["transaction_version"]), set()).update(case["errors"])
    found = []
    for case in RECORDED["cases"]:
        if (case["handler"] == "Produce") != (kind == "produce"):
            continue
        errors = case["errors"]
        if errors == "others":
            known = named.get((case["handler"], case["transaction_version"]), set())
            errors = [name for name in RECORDED["errors"] if name not in known]
        found += [(case, name) for name in errors]
    return found


def test_every_error_of_kafka_is_among_the_recorded_ones() -> None:
    assert set(RECORDED["errors"]) == set(CODES)


def test_the_transitions_are_kafkas() -> None:
    ours = {target.name: sorted(source.name for source in sources) for target, sources in LEGAL_SOURCES.items()}
    assert ours == RECORDED["states"]


DIFFERENCES = {
    # Kafka's producer stays in ABORTING_TRANSACTION for ever.
    ("EndTxn(abort)", "UNKNOWN_PRODUCER_ID"): "FATAL_ERROR",
    ("EndTxn(abort)", "TRANSACTION_ABORTABLE"): "FATAL_ERROR",
    # Kafka's sender does the second step, from ABORTABLE_ERROR, in its next turn.
    ("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"): "UNINITIALIZED",
    ("InitProducerId", "CLUSTER_AUTHORIZATION_FAILED"): "UNINITIALIZED",
}
"""Where we go another way on purpose, and which state comes of it."""


@pytest.mark.parametrize("handler", sorted({case["handler"] for case, _ in expanded("request")}))
def test_an_error_of_a_request_does_what_it_does_in_kafka(handler: str) -> None:
    wrong = []
    for case, name in expanded("request"):
        if case["handler"] != handler:
            continue
        version, code = case["transaction_version"], CODES[name]
        if handler.startswith("Find"):
            manager, result = looked_up(handler == "FindGroupCoordinator", version, code)
        else:
            manager, result = answered(handler, version, code)
        wanted_state = DIFFERENCES.get((handler, name))
        if wanted_state is not None:
            if manager.state.name != wanted_state or not result.is_completed:
                wrong.append((version, name, manager.state.name))
            continue
        own = error_for_code(code)
        is_retried = any(part != "FindCoordinatorHandler" for part in case["pending"])
        has_lookup = "FindCoordinatorHandler" in case["pending"]
        found = [
            manager.state.name == case["state"],
            str(case["last_error"]) in names_of(manager.last_error, own),
            manager._epoch_bump_required == case["epoch_bump"],
        ]
        if handler.startswith("Find"):
            found.append(result.is_completed == case["completed"])
        else:
            found += [
                result.is_completed == case["completed"],
                str(case["result_error"]) in names_of(result.error, own),
                manager.has_pending_requests == is_retried,
            ]
            if is_retried:
                found.append(manager.lookup(manager._queue[0][2]).is_known != has_lookup)
        if not all(found):
            wrong.append((version, name, manager.state.name, found))
    assert wrong == []


def test_an_error_of_a_batch_does_what_it_does_in_kafka() -> None:
    wrong = []
    for case, name in expanded("produce"):
        version, own = case["transaction_version"], error_for_code(CODES[name])
        manager = begun(version)
        manager.add_partition(PLACE)
        if version < 2:
            taken(manager).handle(added(0), 0)
        batch = ProducerBatch(PLACE, BatchBuilder(512), 0)
        assert batch.try_append(Payload(0, None, b"v", ()), None, 0)
        manager.maybe_update_identity(PLACE)
        assert not manager.should_stop_drain(batch)
        manager.assign_sequence(batch)
        batch.close()
        is_retried = manager.can_retry(ProduceOutcome(own, log_start_offset=0), batch)
        if not is_retried:
            manager.handle_failed_batch(batch, own(), adjust_sequences=True)
        found = (
            is_retried == case["retried"],
            manager.state.name == case["state"],
            str(case["last_error"]) in names_of(manager.last_error, own),
            manager._epoch_bump_required == case["epoch_bump"],
            manager._entry(PLACE).next_sequence == case["next_sequence"],
        )
        if not all(found):
            wrong.append((version, name, manager.state.name, found))
    assert wrong == []


def test_an_illegal_transition_of_the_sender_ends_the_producer() -> None:
    manager = begun(2)
    with pytest.raises(KafkaError, match="from state IN_TRANSACTION to state READY"):
        manager.transition_to(State.READY)
    assert manager.has_fatal_error


def test_an_illegal_call_of_the_application_changes_nothing() -> None:
    manager = begun(2)
    with pytest.raises(KafkaError, match="from state IN_TRANSACTION to state IN_TRANSACTION"):
        manager.begin_transaction()
    assert manager.state is State.IN_TRANSACTION
