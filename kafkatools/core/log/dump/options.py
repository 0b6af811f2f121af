"""The options of dump-log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
