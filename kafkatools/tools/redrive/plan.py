"""Decide for each dead-letter record where it goes, or why it stays."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kafkatools.core.producer.producer import Producer
from kafkatools.core.records.columns import RecordColumns, RowColumns
from kafkatools.tools.redrive.dead_letters import DeadLetter, headers_to_send, read_dead_letter
from kafkatools.tools.redrive.targets import (
    NO_ORIGIN,
    NO_PARTITION,
    TOO_MANY_ATTEMPTS,
    UNREADABLE_ATTEMPTS,
    Reason,
    Target,
    record_body,
)


class RedriveRules(NamedTuple):
    """What the options of kt redrive say about a record. `to`: the topic of all records. `default_topic`: the topic of
    records without an origin. `keeps_original_time`: send the original timestamp if a header has it."""

    to: str | None = None
    origin_header: bytes | None = None
    default_topic: str | None = None
    keep_headers: bool = False
    same_partition: bool = False
    keeps_original_time: bool = True
    max_attempts: int | None = None


class PlannedRecord(NamedTuple):
    """A record to send: its row, target and headers. `partition` None: by its key."""

    row: int
    target: str
    partition: int | None
    timestamp_ms: int
    headers: bytes
    letter: DeadLetter


class LeftRecord(NamedTuple):
    """A record that stays: its row, the topic that it came from (None: unknown), and why."""

    row: int
    target: str | None
    reason: Reason


class KnownTargets(Protocol):
    """The part of `Targets` that a Planner needs."""

    def __getitem__(self, name: str) -> Target:
        """Return a topic."""


class Planner:
    """Applies the rules to records. `codec`: that of the batches to send."""

    def __init__(self, rules: RedriveRules, targets: KnownTargets, codec: int, now_ms: int) -> None:
        self._rules = rules
        self._targets = targets
        self._codec = codec
        self._now_ms = now_ms

    def plan(self, columns: RecordColumns, row: int) -> PlannedRecord | LeftRecord:
        """Return the record to send, or why the record of this row stays."""
        rules = self._rules
        headers = columns.raw_headers(row)
        letter = read_dead_letter(headers, rules.origin_header)
        name = rules.to or letter.topic or rules.default_topic
        if name is None:
            return LeftRecord(row, None, NO_ORIGIN)
        target = self._targets[name]
        reason = target.problem or self._too_often(letter) or self._no_partition(letter, target)
        if reason is not None:
            return LeftRecord(row, name, reason)
        timestamp = columns.timestamps[row]
        if rules.keeps_original_time and letter.timestamp_ms is not None:
            timestamp = letter.timestamp_ms
        sent = headers_to_send(headers, (letter.attempts or 0) + 1, keep_headers=rules.keep_headers)
        record = record_body(columns.key(row), columns.value(row), sent)
        reason = target.refusal(record, columns.key_lengths[row], timestamp, self._now_ms, self._codec)
        if reason is not None:
            return LeftRecord(row, name, reason)
        return PlannedRecord(row, name, letter.partition if rules.same_partition else None, timestamp, sent, letter)

    def _too_often(self, letter: DeadLetter) -> Reason | None:
        limit = self._rules.max_attempts
        if limit is None:
            return None
        if letter.attempts is None:
            return UNREADABLE_ATTEMPTS
        return TOO_MANY_ATTEMPTS if letter.attempts >= limit else None

    def _no_partition(self, letter: DeadLetter, target: Target) -> Reason | None:
        if not self._rules.same_partition:
            return None
        if letter.partition is None:
            return NO_PARTITION
        if letter.partition < target.partition_count:
            return None
        text = f"{target.name} has {target.partition_count} partitions, and the original one is {letter.partition}"
        return Reason("missing_partition", text)


def send_planned(producer: Producer, columns: RecordColumns, planned: Sequence[PlannedRecord]) -> None:
    """Send records of one fetch, in their order for each target."""
    groups: dict[tuple[str, int | None], list[PlannedRecord]] = {}
    for item in planned:
        groups.setdefault((item.target, item.partition), []).append(item)
    for (target, partition), items in groups.items():
        producer.send_columns(target, _rows_of(columns, items), partition)


def _rows_of(columns: RecordColumns, items: list[PlannedRecord]) -> RowColumns:
    taken = columns.take(array("i", [item.row for item in items]))
    return RowColumns(
        taken.buffer,
        taken.value_positions,
        taken.value_lengths,
        taken.key_positions,
        taken.key_lengths,
        array("q", [item.timestamp_ms for item in items]),
        [item.headers for item in items],
    )
