"""A map from key to newest offset in bounded memory, for log compaction (Kafka's OffsetMap).

A key takes 24 bytes, as in Kafka's SkimpyOffsetMap: a 128-bit hash (SipHash with a random secret per map, see
`records/_clean_kernel.py`) and the offset. The system provides memory only when a slot is first written, so a small log
costs little whatever log.cleaner.dedupe.buffer.size says.
"""

import os
from array import array

from kafkatools.core.log.files import Buffer
from kafkatools.core.records import _clean_kernel as kernel

BYTES_PER_ENTRY = 8 * kernel.SLOT_WORDS
DEFAULT_LOAD_FACTOR = 0.9
MAX_MEMORY_BYTES = 2**31 - 1


class OffsetMap:
    """A hash table of key hashes and offsets. A full map refuses further keys and never evicts one."""

    def __init__(
        self, memory_bytes: int, load_factor: float = DEFAULT_LOAD_FACTOR, secret: bytes | None = None
    ) -> None:
        """Allocate `memory_bytes` (at most 2 GiB) for the slots. `secret` (16 bytes, default random) seeds the hash.
        Raises ValueError when the memory cannot hold a single key."""
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
        """The number of keys in the map."""
        return self.state[kernel.MAP_ENTRIES]

    @property
    def latest_offset(self) -> int:
        """The offset up to which the log has been read into the map, -1 before the first record."""
        return self.state[kernel.MAP_LATEST]

    def update_latest_offset(self, offset: int) -> None:
        """Set the offset up to which the log has been read into the map."""
        self.state[kernel.MAP_LATEST] = offset

    def begin_at(self, offset: int) -> None:
        """Make `put_records` ignore records below this offset."""
        self.state[kernel.MAP_START] = offset

    def put(self, key: bytes, offset: int) -> bool:
        """Store a key's offset, in place of an earlier one. Return False when the map is full, even if it has the
        key."""
        return kernel.put_key(key, offset, self.table, self.state)

    def get(self, key: bytes) -> int:
        """Return the newest offset of a key, -1 when the key is not in the map."""
        return kernel.newest_offset(key, self.table, self.state)

    def put_records(self, data: Buffer, position: int, count: int, base_offset: int) -> int:
        """Put the keys of `count` decompressed v2 records from `position` on into the map. Return the number of records
        read. A result below `count` means that the map is full (`is_full`) or that the next record is damaged."""
        return kernel.put_keys(data, position, count, base_offset, self.table, self.state)

    @property
    def is_full(self) -> bool:
        """Return whether the last `put_records` stopped because the map was full."""
        return self.state[kernel.MAP_IS_FULL] == 1


def _prime_at_most(number: int) -> int:
    """Return the largest prime that is at most `number`, 0 when there is none."""
    while number > 1:
        if number in (2, 3) or (number % 2 and all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))):
            return number
        number -= 1
    return 0
