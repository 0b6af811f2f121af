"""The acknowledgements that clients got, and the checks that a restarted broker keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.control import ControlRecordType, EndTransactionMarker

Place = tuple[str, int]


class Lost(AssertionError):
    """A promise that is broken."""


def hold(condition: object, what: str) -> None:
    """Raise Lost unless the condition holds."""
    if not condition:
        raise Lost(what)


@dataclass
class Sent:
    """One record that was handed to the broker."""

    order: int
    key: bytes | None
    value: bytes
    offset: int | None = None  # when it was acknowledged
    transaction: Transaction | None = None


@dataclass
class Transaction:
    """A transaction: what was asked of it, and whether that was acknowledged."""

    number: int
    outcome: str | None = None
    is_acknowledged: bool = False


@dataclass
class Register:
    """A value that is overwritten: attempts in order."""

    attempts: list[tuple[Any, Transaction | None]] = field(default_factory=list)
    acknowledged: int = -1

    def begin(self, value: Any, transaction: Transaction | None = None) -> None:
        """A write is sent."""
        self.attempts.append((value, transaction))

    def acknowledge(self) -> None:
        """The last write was acknowledged."""
        self.acknowledged = len(self.attempts) - 1

    def check(self, name: str, value: Any, *, may_be_lost: bool) -> None:
        """The newest acknowledged value, or one that was sent after it."""
        lowest = 0 if may_be_lost else max(self.acknowledged, 0)
        for number, (_, transaction) in enumerate(self.attempts):
            if not may_be_lost and _is_surely_committed(transaction):
                lowest = max(lowest, number)
        possible = [
            each
            for each, transaction in self.attempts[lowest:]
            if transaction is None or transaction.outcome == "commit"
        ]
        if may_be_lost or (self.acknowledged < 0 and not any(_is_surely_committed(each) for _, each in self.attempts)):
            possible.append(None)
        hold(value in possible, f"{name} is {value}, not one of {possible}")


def _is_surely_committed(transaction: Transaction | None) -> bool:
    return transaction is not None and transaction.outcome == "commit" and transaction.is_acknowledged


@dataclass
class Topic:
    """One life of a topic."""

    name: str
    partitions: int
    is_compacted: bool
    topic_id: UUID | None = None  # when it was acknowledged
    deletion: str | None = None  # "sent", "acknowledged"
    records: dict[int, list[Sent]] = field(default_factory=dict)
    start: dict[int, int] = field(default_factory=dict)  # the highest offset that the log may begin with
    retention: Register = field(default_factory=Register)


class Read(NamedTuple):
    """One record of a log."""

    offset: int
    key: bytes | None
    value: bytes | None
    is_visible: bool


@dataclass
class Facts:
    """All that was sent and acknowledged."""

    topics: list[Topic] = field(default_factory=list)
    offsets: dict[Place, Register] = field(default_factory=dict)
    producer_ids: set[int] = field(default_factory=set)
    transactions: list[Transaction] = field(default_factory=list)

    def of(self, name: str) -> list[Topic]:
        """The lives of a topic name."""
        return [topic for topic in self.topics if topic.name == name]


def read_log(log: PartitionLog, *, may_end_in_hole: bool = False) -> list[Read]:
    """All records of a log, in order, with whether a read_committed reader gets them. `may_end_in_hole`: the last
    offsets may be missing. Raises Lost."""
    found: list[tuple[Read, int]] = []
    decided: dict[int, bool] = {}
    open_since: dict[int, int] = {}
    for batch in batches_of(log, may_end_in_hole=may_end_in_hole):
        if batch.is_control:
            committed = EndTransactionMarker.of_batch(batch).type is ControlRecordType.COMMIT
            if batch.producer_id in open_since:
                decided[open_since.pop(batch.producer_id)] = committed
            continue
        group = -1
        if batch.is_transactional:
            group = open_since.setdefault(batch.producer_id, batch.base_offset)
        found += [(Read(record.offset, record.key, record.value, True), group) for record in batch.records()]
    return [read._replace(is_visible=group < 0 or decided.get(group, False)) for read, group in found]


def batches_of(log: PartitionLog, *, may_end_in_hole: bool = False) -> Iterator[RecordBatch]:
    """The batches of a log; each is whole, and offsets rise. `may_end_in_hole`: see read_log. Raises Lost."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, max_offset=log.log_end_offset).read()
        if not data and may_end_in_hole:
            return
        hold(data, f"{log.topic_partition} has nothing at {offset} below its end {log.log_end_offset}")
        for batch in read_batches(data):
            assert isinstance(batch, RecordBatch)
            hold(batch.is_valid(), f"{log.topic_partition} has a damaged batch at {batch.base_offset}")
            hold(batch.last_offset >= offset, f"{log.topic_partition} repeats offset {batch.last_offset}")
            if batch.base_offset >= offset or offset == log.log_start_offset:
                yield batch
            offset = batch.last_offset + 1
