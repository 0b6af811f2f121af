"""`replay`: write records of a topic or of log files again, to one topic or to the topics they came from.

The framework that wrote a dead-letter record named its original topic in a header (ORIGIN_HEADERS). The header
REPLAYS_HEADER counts replays, so that a record that keeps failing is not replayed endlessly. Topics that are read are
not written to unless allowed. Shared by both engines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

ORIGIN_HEADERS = ("kafka_dlt-original-topic", "__connect.errors.topic")
"""The headers of Spring for Apache Kafka and of Kafka Connect."""

REPLAYS_HEADER = "kt-replays"
DEFAULT_MAX_REPLAYS = 3

SEND, NO_ORIGIN, TOO_OFTEN, LOOP = "send", "no-origin", "too-often", "loop"
_MAX_BATCH = 1000


@dataclass(frozen=True)
class ReplayPlan:
    """Settings of a replay. `to_topic` None sends each record to the topic in the first of `origin_headers` that it
    has. `where` is an SQL filter; `allows_loop` permits writing to `read_topics`. Records that were replayed
    `max_replays` times are not sent. `keeps_timestamps` False: the producer sets new timestamps."""

    read_topics: Collection[str]
    to_topic: str | None = None
    origin_headers: Sequence[str] = ORIGIN_HEADERS
    where: str | None = None
    max_replays: int = DEFAULT_MAX_REPLAYS
    allows_loop: bool = False
    keeps_timestamps: bool = False

    def ensure_no_loop(self) -> None:
        """Raise PipelineError if `to_topic` is read and loops are not allowed."""
        if self.to_topic in self.read_topics and not self.allows_loop:
            raise PipelineError(f"{self.to_topic} would be both read and written; --allow-loop permits that")


class Throttle:
    """A `mapInArrow` function that delays rows to a rate, in slices of at most 1000 rows or one second's rows, at least
    one row."""

    def __init__(self, records_a_second: float) -> None:
        self._rate = records_a_second

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock = SystemClock()
        start_ms, count = clock.now_ms(), 0
        step = max(1, min(_MAX_BATCH, int(self._rate)))
        for batch in batches:
            for first in range(0, batch.num_rows, step):
                part = batch.slice(first, step)
                due_ms = start_ms + int(1000 * count / self._rate)
                wait_ms = due_ms - clock.now_ms()
                if wait_ms > 0:
                    clock.sleep_ms(wait_ms)
                yield part
                count += part.num_rows
