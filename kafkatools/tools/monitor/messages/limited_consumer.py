"""A consumer that stops reading after some seconds or bytes, however often it is polled."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.completed_fetch import FetchedColumns, SkipCorrupt
from kafkatools.core.consumer.consumer import Consumer

_LEAST_LOOKUP_MS = 1000
_MOST_LOOKUP_MS = 8000


class ReadLimit(Exception):
    """A limit ended a read; the text is the reason as a sentence."""


class LimitedConsumer(Consumer):
    """Reads for up to `seconds` and up to `most_bytes` of keys and values. Creates no topics, joins no group."""

    def __init__(
        self, settings: Mapping[str, str], clock: Clock, skip: SkipCorrupt, *, seconds: int, most_bytes: int
    ) -> None:
        lookup_ms = max(_LEAST_LOOKUP_MS, min(_MOST_LOOKUP_MS, seconds * 1000))
        forced = {
            "allow.auto.create.topics": "false",
            "auto.offset.reset": "earliest",
            "default.api.timeout.ms": str(lookup_ms),
            "fetch.max.bytes": str(16 << 20),
            "fetch.max.wait.ms": "50",
            "max.partition.fetch.bytes": str(1 << 20),
            "receive.buffer.bytes": "-1",
        }
        values = {name: value for name, value in settings.items() if not name.startswith("group.")}
        super().__init__({"client.id": "kt-monitor", **values, **forced}, clock, skip)
        self._seconds = seconds
        self._deadline_ms = clock.now_ms() + 1000 * seconds
        self._most_bytes = most_bytes
        self.read_bytes = 0

    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return the next records. Raises ReadLimit if a limit was reached before."""
        left_ms = self._deadline_ms - self.clock.now_ms()
        if left_ms <= 0:
            raise ReadLimit(f"Stopped after {self._seconds} s")
        if self.read_bytes >= self._most_bytes:
            raise ReadLimit(f"Stopped after {self._most_bytes >> 20} MiB")
        fetched = super().poll_columns(min(timeout_ms, left_ms))
        for item in fetched:
            columns = item.columns
            self.read_bytes += sum(columns.key_lengths) + sum(columns.value_lengths) + 2 * columns.count
        return fetched
