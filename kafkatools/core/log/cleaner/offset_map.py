"""Key -> newest offset, in bounded memory: what the cleaner knows of the dirty part of a log (OffsetMap).

Keys are kept as 128-bit hashes (SipHash with a secret of each map, see `records/_clean_kernel.py`), 24 bytes a key as
in Kafka's SkimpyOffsetMap. The memory is given out by the system when it is first written, so a small log costs little
whatever log.cleaner.dedupe.buffer.size says.
"""

import os
from array import array

from kafkatools.core.log.files import Buffer
from kafkatools.core.records import _clean_kernel as kernel

BYTES_PER_ENTRY = 8 * kernel.SLOT_WORDS
DEFAULT_LOAD_FACTOR = 0.9
MAX_MEMORY_BYTES = 2**31 - 1


class OffsetMap:
    """A map that forgets nothing and refuses what does not fit."""

    def __init__(
        self, memory_bytes: int, load_factor: float = DEFAULT_LOAD_FACTOR, secret: bytes | None = None
    ) -> None:
        """`memory_bytes` is for all slots; raises ValueError when it does not hold a single key."""
        self.slots = _prime_at_most(min(memory_bytes, MAX_MEMORY_BYTES) // BYTES_PER_ENTRY)
        self.max_entries = int(self.slots * load_factor)
        if self.max_entries < 1:
            raise ValueError(
                "offset map is too small to fit in even a single message, so log cleaning will never make progress. "
                "You can increase log.cleaner.dedupe.buffer.size or decrease log.cleaner.threads"
            )
        self.state = array("q", bytes(8 * kernel.MAP_STATE_SIZE))
        self.state[kernel.MAP_LIMIT] = self.max_entries
        self.state[kernel.MAP_LATEST] = -1
        self.state[kernel.MAP_SECRET :] = array("q", os.urandom(16) if secret is None else secret)
        self.table = memoryview(bytearray(self.slots * BYTES_PER_ENTRY)).cast("Q")

    @property
    def entry_count(self) -> int:
        """Keys in the map."""
        return self.state[kernel.MAP_ENTRIES]

    @property
    def latest_offset(self) -> int:
        """Everything up to this offset is in the map."""
        return self.state[kernel.MAP_LATEST]

    def update_latest_offset(self, offset: int) -> None:
        """Everything up to this offset has been looked at."""
        self.state[kernel.MAP_LATEST] = offset

    def begin_at(self, offset: int) -> None:
        """`put_records` leaves out what lies below this offset."""
        self.state[kernel.MAP_START] = offset

    def put(self, key: bytes, offset: int) -> bool:
        """Note a key's newest offset; False when the map is full."""
        return kernel.put_key(key, offset, self.table, self.state)

    def get(self, key: bytes) -> int:
        """The newest offset of a key, -1 for one that is not here."""
        return kernel.newest_offset(key, self.table, self.state)

    def put_records(self, data: Buffer, position: int, count: int, base_offset: int) -> int:
        """Put the keys of a v2 batch's plain records; how many records were done. Fewer than `count` means that the
        map is full, or that the record there is damaged: `is_full` tells."""
        return kernel.put_keys(data, position, count, base_offset, self.table, self.state)

    @property
    def is_full(self) -> bool:
        """Whether the last `put_records` stopped for want of room."""
        return self.state[kernel.MAP_IS_FULL] == 1


def _prime_at_most(number: int) -> int:
    """The largest prime up to a number, 0 when there is none."""
    while number > 1:
        if number in (2, 3) or (number % 2 and all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))):
            return number
        number -= 1
    return 0
