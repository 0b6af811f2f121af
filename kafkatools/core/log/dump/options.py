"""What a dump is asked to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkatools.core.log.dump.decoders import Decoder

ALL_BYTES = 2147483647
DEFAULT_MESSAGE_SIZE = 5 * 1024 * 1024


@dataclass(frozen=True)
class DumpOptions:
    """The options of the real tool, and two of our own.

    `decoder` makes the decoder of keys and values when the first log is dumped; it raises Damage when there is none of
    that name. `is_plain_text`: it shows both as text. `stop_at_damage` ends where Kafka's tool would; `salvage` also
    shows batches behind what Kafka takes for the end of the log. `judges_by_neighbours` also compares a segment with
    the other files of its directory.
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
