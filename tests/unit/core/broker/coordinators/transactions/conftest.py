"""A transaction coordinator on a manual clock, over a log in memory; what it waits for becomes durable when the test
says so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.broker.coordinators.transactions.coordinator import (
    NOBODY,
    EndRequest,
    InitRequest,
    ProducerIdentity,
    TransactionCoordinator,
)
from kafkatools.core.broker.coordinators.transactions.log_records import transaction_of
from kafkatools.core.broker.coordinators.transactions.markers import Marker
from kafkatools.core.broker.coordinators.transactions.transaction import Transaction
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.config import BROKER, Config
from kafkatools.core.errors import CoordinatorLoadInProgress, KafkaError, KafkaStorageError
from kafkatools.core.protocol.schemas.transaction_log import decode_record

FIRST_PRODUCER_ID = 1000
Place = tuple[str, int]


class MemoryLog:
    """Keeps the records in order; fails when told."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.failure: KafkaError | None = None
        self.epoch = 3

    def coordinator_epoch(self, transactional_id: str) -> int:
        assert transactional_id
        return self.epoch

    def append(self, _transactional_id: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        if self.failure is not None:
            raise self.failure
        self.records.extend(records)

    def states(self) -> list[str]:
        """What was written, as states."""
        return [
            "tombstone" if value is None else transaction_of("", decode_record(key, value)[1]).state.label
            for key, value in self.records
        ]

    def last_values(self) -> Iterator[Transaction]:
        """What a start reads back."""
        for key, value in dict(self.records).items():
            if value is not None:
                name, entity = decode_record(key, value)
                yield transaction_of(name.transactional_id, entity)


class Partitions:
    """Notes the markers written; partitions in `broken` cannot be written to. On a slow disk each waits for a sync."""

    def __init__(self, disk: Disk) -> None:
        self.markers: list[tuple[Place, Marker]] = []
        self.broken: set[Place] = set()
        self.refusal: KafkaError | None = None
        self.noted: list[Exception] = []
        self._disk = disk

    def send(self, places: Collection[Place], marker: Marker, note: Callable[[Place, int], None]) -> None:
        for place in sorted(places):
            if self.refusal is not None:
                note(place, self.refusal.code)
            elif place in self.broken:
                note(place, KafkaStorageError.code)
            else:
                self.markers.append((place, marker))
                self._disk.when_durable((), partial(note, place))

    def note_failure(self, error: Exception) -> None:
        self.noted.append(error)


class Disk:
    """What was appended is durable at once, or with `is_slow` when `sync` is called."""

    def __init__(self) -> None:
        self.is_slow = False
        self.waiting: list[Callable[[int], None]] = []

    def when_durable(self, _statuses: object, done: Callable[[int], None]) -> None:
        if self.is_slow:
            self.waiting.append(done)
        else:
            done(0)

    def sync(self, code: int = 0) -> None:
        """The oldest append is durable, or never will be."""
        self.waiting.pop(0)(code)


class Harness:
    """Drives a coordinator."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.clock.set_wall_ms(1_000_000)
        self.timer = Timer(self.clock.now_ms())
        self.log, self.disk = MemoryLog(), Disk()
        self.partitions = Partitions(self.disk)
        self.version = 2
        self._next_producer_id = FIRST_PRODUCER_ID - 1
        self.lacks_producer_ids = False
        self.answers: list[tuple[int, int, int]] = []
        self.coordinator = self._make()

    def _make(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            Config(BROKER),
            self.log,
            self.partitions,
            self.disk,
            self.timer,
            self.clock,
            self.new_producer_id,
            lambda: self.version,
        )

    def new_producer_id(self) -> int:
        if self.lacks_producer_ids:
            raise CoordinatorLoadInProgress()
        self._next_producer_id += 1
        return self._next_producer_id

    def restart(self) -> None:
        """Another coordinator that reads what this one wrote."""
        self.coordinator = self._make()
        self.coordinator.load(list(self.log.last_values()))

    def advance(self, duration_ms: int) -> None:
        self.clock.advance_ms(duration_ms)
        self.timer.advance_to(self.clock.now_ms())

    def _answer(self, code: int, identity: ProducerIdentity = NOBODY) -> None:
        self.answers.append((code, *identity))

    @property
    def answer(self) -> tuple[int, int, int]:
        """The last answer: error code, producer id, epoch."""
        return self.answers[-1]

    @property
    def identity(self) -> ProducerIdentity:
        """The identity in the last answer."""
        return ProducerIdentity(*self.answer[1:])

    def init(self, expected: ProducerIdentity | None = None, timeout_ms: int = 60_000) -> tuple[int, int, int]:
        self.coordinator.init_producer_id("x", InitRequest(timeout_ms, expected), self._answer)
        return self.answer

    def add(self, producer: tuple[int, int], *places: Place, version: int = 2) -> int:
        self.coordinator.add_partitions("x", ProducerIdentity(*producer), places, version, self._answer)
        return self.answer[0]

    def end(self, producer: tuple[int, int], *, commit: bool, version: int = 2) -> tuple[int, int, int]:
        self.coordinator.end_transaction("x", EndRequest(*producer, commit, version), self._answer)
        return self.answer

    @property
    def transaction(self) -> Transaction:
        return self.coordinator.transactions["x"]

    @property
    def state(self) -> str:
        return self.transaction.state.label

    def set_epoch(self, epoch: int) -> None:
        """As after so many InitProducerIds."""
        from dataclasses import replace

        self.transaction.value = replace(self.transaction.value, producer_epoch=epoch)


@pytest.fixture
def harness() -> Harness:
    return Harness()
