"""`replay` in this process; `jobs/replay_plan.py` explains what is sent where.

The records are read twice, in the same offset ranges: first to decide and count, so that nothing is sent if a target
topic is also a source, then to send. A run that ends early has sent some of the records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.in_process.conditions import Condition, with_replacements
from kafkatools.pipeline.jobs.in_process.tables import LocalSource
from kafkatools.pipeline.jobs.offsets import Ranges
from kafkatools.pipeline.jobs.replay_plan import (
    LOOP,
    NO_ORIGIN,
    REPLAYS_HEADER,
    SEND,
    TOO_OFTEN,
    ReplayPlan,
    Throttle,
)
from kafkatools.pipeline.sinks.options import KAFKA_PREFIX, read_options
from kafkatools.pipeline.sinks.producers import closing_producer
from kafkatools.pipeline.sinks.rows import RowSender
from kafkatools.pipeline.sources.schema import HEADER_COLUMNS, arrow_schema_of
from kafkatools.pipeline.uris import Cluster

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_HEADERS = arrow_schema_of(HEADER_COLUMNS).field(0).type
_WHOLE_NUMBER = re.compile(r"\s*([+-]?[0-9]+)\s*", re.ASCII)
_LARGEST_INT = (1 << 31) - 1


class ReplayCount(NamedTuple):
    """A number of records of a topic with the same target topic and decision."""

    topic: str
    target: str | None
    decision: str
    records: int


class _RowDecisions(NamedTuple):
    """The target, the number of previous replays and the decision of each record of a batch."""

    targets: list[str | None]
    replays: list[int]
    decisions: list[str]


class Replay:
    """A replay of the records that a source has now."""

    def __init__(self, source: LocalSource, plan: ReplayPlan) -> None:
        """Check the plan; reads nothing. Raises SqlError for a wrong condition, PipelineError for a loop."""
        plan.ensure_no_loop()
        self._source = source
        self._plan = plan
        self._condition = None if plan.where is None else Condition(plan.where)
        self._ranges: Ranges = {}

    def close(self) -> None:
        """Close the connection to DuckDB."""
        if self._condition is not None:
            self._condition.close()

    def count(self, advance: Callable[[int], object] = lambda records: None) -> list[ReplayCount]:
        """Decide for each record, and return the numbers sorted by topic, target and decision. Raises PipelineError,
        also if timestamps that are kept are before 1970."""
        counts: Counter[tuple[str, str | None, str]] = Counter()
        self._ranges = self._source.ranges()
        for batch in self._batches(advance):
            planned = self._row_decisions(batch)
            counts.update(zip(batch.column("topic").to_pylist(), planned.targets, planned.decisions, strict=True))
            if self._plan.keeps_timestamps and pc.min(batch.column("timestamp").cast(pa.int64())).as_py() < 0:
                raise PipelineError("A record has a timestamp before 1970, which cannot be kept; nothing was sent")
        rows = [ReplayCount(*place, records) for place, records in counts.items()]
        return sorted(rows, key=lambda row: (row.topic, row.target is not None, row.target or "", row.decision))

    def send(
        self, cluster: Cluster, rate: float | None, advance: Callable[[int], object] = lambda records: None
    ) -> int:
        """Send the records that `count` has counted, at most `rate` a second, wait until all are acknowledged and
        return their number. Raises PipelineError for the first record that is not written."""
        batches = self._rows_to_send(advance)
        options = read_options({f"{KAFKA_PREFIX}{name}": value for name, value in cluster.settings.items()}
                               | {f"{KAFKA_PREFIX}bootstrap.servers": cluster.bootstrap})  # fmt: skip
        with closing_producer(options.producer) as producer:
            sender = RowSender(producer, options)
            for rows in batches if rate is None else Throttle(rate)(batches):
                sender.send(rows)
            sender.flush()
            return sum(sender.records.values())

    def _rows_to_send(self, advance: Callable[[int], object]) -> Iterator[pa.RecordBatch]:
        for batch in self._batches(advance):
            planned = self._row_decisions(batch)
            chosen = [row for row, decision in enumerate(planned.decisions) if decision == SEND]
            if not chosen:
                continue
            batch = batch.take(pa.array(chosen, pa.int32()))
            arrays = {
                "key": batch.column("key"),
                "value": batch.column("value"),
                "topic": pa.array([planned.targets[row] for row in chosen], pa.string()),
                "headers": _with_count(batch.column("headers"), [planned.replays[row] + 1 for row in chosen]),
            }
            if self._plan.keeps_timestamps:
                arrays["timestamp"] = batch.column("timestamp")
            yield pa.RecordBatch.from_pydict(arrays)

    def _batches(self, advance: Callable[[int], object]) -> Iterator[pa.RecordBatch]:
        if not self._ranges:
            return
        with self._source.in_order(_COLUMNS, self._ranges) as batches:
            for batch in batches:
                advance(batch.num_rows)
                chosen = batch if self._condition is None else self._condition.selected(batch)
                if chosen.num_rows:
                    yield chosen

    def _row_decisions(self, batch: pa.RecordBatch) -> _RowDecisions:
        plan, rows = self._plan, batch.num_rows
        names = () if plan.to_topic is not None else tuple(plan.origin_headers)
        headers = _last_headers(batch.column("headers"), {*names, REPLAYS_HEADER})
        targets: list[str | None] = [plan.to_topic] * rows
        for name in reversed(names):
            for row, text in headers[name].items():
                targets[row] = targets[row] if text is None else text
        replays = [0] * rows
        for row, text in headers[REPLAYS_HEADER].items():
            replays[row] = _number(text)
        return _RowDecisions(targets, replays, [self._decide(*place) for place in zip(targets, replays, strict=True)])

    def _decide(self, target: str | None, replays: int) -> str:
        if target is None:
            return NO_ORIGIN
        if target in self._plan.read_topics and not self._plan.allows_loop:
            return LOOP
        return TOO_OFTEN if replays >= self._plan.max_replays else SEND


def _last_headers(headers: pa.Array, names: set[str]) -> dict[str, dict[int, str | None]]:
    """Return for each name the text of the last header with this name of each row that has one."""
    found: dict[str, dict[int, str | None]] = {name: {} for name in names}
    entries = headers.flatten()
    chosen = pc.is_in(entries.field("key"), value_set=pa.array(sorted(names), pa.string()))
    rows = pc.list_parent_indices(headers).filter(chosen).to_pylist()
    keys = entries.field("key").filter(chosen).to_pylist()
    values = with_replacements(entries.field("value").filter(chosen)).to_pylist()
    for row, key, value in zip(rows, keys, values, strict=True):
        found[key][row] = value
    return found


def _number(text: str | None) -> int:
    """Return the value of the header of replays, 0 if it is not an integer of 32 bits."""
    match = None if text is None else _WHOLE_NUMBER.fullmatch(text)
    number = 0 if match is None else int(match[1])
    return number if -_LARGEST_INT - 1 <= number <= _LARGEST_INT else 0


def _with_count(headers: pa.Array, counts: list[int]) -> pa.Array:
    """Return headers with the number of replays in place of an earlier one."""
    rows = [
        [header for header in row or () if header["key"] != REPLAYS_HEADER]
        + [{"key": REPLAYS_HEADER, "value": str(count).encode()}]
        for row, count in zip(headers.to_pylist(), counts, strict=True)
    ]
    return pa.array(rows, _HEADERS)
