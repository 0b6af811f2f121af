"""What holds of prepared transactions, told to a broker: the embedded one, or Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.kt import run_kt

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.features import update_features
from kafkatools.core.admin.prepared_transactions import end_transactions
from kafkatools.core.admin.transactions import TransactionDescription, describe_transactions
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.errors import IllegalState
from kafkatools.core.group.metadata import ConsumerGroupMetadata
from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.core.producer.producer import Producer

_SAFE_DOWNGRADE = 2
_PATIENCE_S = 20


class Steps:
    """A broker in a transaction version."""

    def __init__(self, bootstrap: str, version: int) -> None:
        self.bootstrap = bootstrap
        self.version = version

    def lower_version(self) -> None:
        """Takes the cluster to transaction version 1."""
        with self.admin() as admin:
            errors = update_features(admin, {"transaction.version": 1}, _SAFE_DOWNGRADE)
        assert errors == {"transaction.version": None}

    def admin(self) -> AdminClient:
        return AdminClient(self.bootstrap, None, SystemClock())

    def producer(self, transactional_id: str) -> Producer:
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id, "linger.ms": "500"}
        return Producer(Config(PRODUCER, settings))

    def prepare(self, name: str, *values: str) -> PreparedTransaction:
        """By a producer that is closed afterwards; topic and transactional id have the same name."""
        with self.producer(name) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for value in values:
                producer.send(name, value.encode())
            return producer.prepare_transaction()

    def end(self, prepared: PreparedTransaction, *, commit: bool) -> str:
        """The name of the error, or nothing."""
        with self.admin() as admin:
            errors = end_transactions(admin, [prepared], commit=commit, timeout_ms=10_000)
        return ", ".join(error.name for error in errors.values())

    def state(self, transactional_id: str) -> str:
        """The state at the coordinator, once it has written its markers."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            found = self.description(transactional_id)
            if not found.state.startswith("Prepare") or time.monotonic() > deadline:
                return found.state

    def description(self, transactional_id: str) -> TransactionDescription:
        """What the coordinator says of a transactional id."""
        with self.admin() as admin:
            found = describe_transactions(admin, [transactional_id])[transactional_id]
        assert isinstance(found, TransactionDescription), found
        return found

    def read(self, topic: str, level: str = "read_committed") -> list[str]:
        options = ["--topic", topic, "--from-beginning", "--exit-at-end", "--isolation-level", level]
        ran = run_kt("console-consumer", "--bootstrap-server", self.bootstrap, *options)
        assert ran.status == 0, ran.err
        return sorted(ran.out.split())


STEPS: dict[str, Callable[[Steps, str], None]] = {}


def step(run: Callable[[Steps, str], None]) -> Callable[[Steps, str], None]:
    STEPS[run.__name__] = run
    return run


@step
def its_producer_may_be_closed_and_anybody_commits(steps: Steps, name: str) -> None:
    prepared = steps.prepare(name, "a", "b", "c")
    assert (prepared.transactional_id, prepared.transaction_version) == (name, steps.version)
    assert not prepared.is_empty
    assert steps.state(name) == "Ongoing"
    assert steps.read(name) == []
    assert steps.read(name, "read_uncommitted") == ["a", "b", "c"]
    assert steps.end(prepared, commit=True) == ""
    assert steps.end(prepared, commit=True) == ""
    assert steps.state(name) == "CompleteCommit"
    assert steps.end(prepared, commit=True) == ""
    assert steps.end(prepared, commit=False) == "INVALID_TXN_STATE"
    assert steps.read(name) == ["a", "b", "c"]


@step
def anybody_aborts(steps: Steps, name: str) -> None:
    prepared = steps.prepare(name, "a")
    assert steps.end(prepared, commit=False) == ""
    assert steps.state(name) == "CompleteAbort"
    assert steps.end(prepared, commit=False) == ""
    assert steps.end(prepared, commit=True) == "INVALID_TXN_STATE"
    assert steps.read(name) == []


@step
def a_later_transaction_of_the_id_is_not_hit(steps: Steps, name: str) -> None:
    first = steps.prepare(name, "aborted")
    second = steps.prepare(name, "kept")
    assert steps.end(first, commit=True) == "PRODUCER_FENCED"
    assert steps.end(first, commit=False) == "PRODUCER_FENCED"
    assert steps.state(name) == "Ongoing"
    assert steps.end(second, commit=True) == ""
    assert steps.state(name) == "CompleteCommit"
    assert steps.read(name) == ["kept"]


@step
def its_own_producer_may_end_it_but_adds_nothing(steps: Steps, name: str) -> None:
    with steps.producer(name) as producer:
        producer.init_transactions()
        for number, commit in enumerate((True, False)):
            producer.begin_transaction()
            producer.send(name, b"%d" % number)
            prepared = producer.prepare_transaction()
            for refused in (lambda: producer.send(name, b"late"), producer.prepare_transaction):
                with pytest.raises(IllegalState, match="PREPARED_TRANSACTION"):
                    refused()
            assert steps.state(name) == "Ongoing"
            producer.commit_transaction() if commit else producer.abort_transaction()
            assert steps.end(prepared, commit=commit) == ""
    assert steps.state(name) == "CompleteAbort"
    assert steps.read(name) == ["0"]


@step
def offsets_are_prepared_too(steps: Steps, name: str) -> None:
    with steps.producer(name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b"a").get(20_000)
        producer.send_offsets_to_transaction({(name, 0): 7}, ConsumerGroupMetadata(name))
        prepared = producer.prepare_transaction()
    assert _offsets(steps, name) == {}
    assert steps.end(prepared, commit=True) == ""
    assert steps.state(name) == "CompleteCommit"
    assert _offsets(steps, name) == {(name, 0): 7}


def _offsets(steps: Steps, group: str) -> dict[tuple[str, int], int]:
    from kafkatools.core.admin.group_offsets import fetch_offsets

    with steps.admin() as admin:
        found = fetch_offsets(admin, [group])[group]
    return {place: committed.offset for place, committed in found.offsets.items()}


@step
def an_empty_one_needs_no_end(steps: Steps, name: str) -> None:
    prepared = steps.prepare(name)
    assert prepared.is_empty
    assert steps.state(name) == "Empty"
    assert steps.end(prepared, commit=True) == ""
