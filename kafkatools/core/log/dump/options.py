"""The options of dump-log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkatools.core.log.dump.decoders import Decoder


ALL_BYTES = 2147483647
DEFAULT_MESSAGE_SIZE = 5 * 1024 * 1024


@dataclass(frozen=True)
class DumpOptions:
    """The options of DumpLogSegments, and a few of kafkatools' own.

    - `max_bytes` of each log are dumped; `max_message_size` limits the bytes read to check an offset index entry.
    - `decoder` creates the decoder of keys and values when the first log is dumped. It raises Damage for an unknown
      name.
    - `is_plain_text`: the decoder shows keys and values as text.
    - `stop_at_damage` ends the dump where Kafka's tool would end.
    - `salvage` also shows batches after Kafka's end of the log.
    - `judges_by_neighbours` also compares a segment with the other files of its directory.
    """

    print_contents: bool = False
    deep: bool = False
    skip_metadata: bool = False
    verify_index_only: bool = False
    sanity_check_only: bool = False
    max_bytes: int = ALL_BYTES
    max_message_size: int = DEFAULT_MESSAGE_SIZE
    decoder: Callable[[], Decoder] | None = None
    is_plain_text: bool = False
    stop_at_damage: bool = False
    salvage: bool = False
    judges_by_neighbours: bool = False


class RecordRange(NamedTuple):
    """The records to show: offsets from `start` to before `end`, and timestamps in ms from `since_ms` to before
    `until_ms`; None for no bound."""

    start: int
    end: int
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def has_times(self) -> bool:
        """Whether records are selected by their timestamps too."""
        return self.since_ms is not None or self.until_ms is not None

    def has(self, offset: int, timestamp: int) -> bool:
        """Return whether a record is to be shown."""
        return (
            self.start <= offset < self.end
            and (self.since_ms is None or timestamp >= self.since_ms)
            and (self.until_ms is None or timestamp < self.until_ms)
        )

    def has_all(self, first: int, last: int) -> bool:
        """Return whether all records of a batch with these offsets are to be shown."""
        return self.start <= first and last < self.end and not self.has_times


class FileSlice(NamedTuple):
    """The batches of a segment that have records of a slice: the byte positions of the first one and after the last
    one. Between `whole_from` and `whole_to` all records are to be shown."""

    start: int
    end: int
    whole_from: int
    whole_to: int
    records: RecordRange
