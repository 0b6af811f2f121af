"""The files of the journal: `journal/NUMBER.jsonl` in kt's home, readable by their owner only.

The newest 1,000 entries are kept, of at most 64 MiB together; older ones are deleted when an entry begins. So are
temporary files (`.tmp`) of runs that were killed while they created their entry, a minute later.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping

from kafkatools.core import atomic_file
from kafkatools.tools.journal.entries import VERSION, Entry, Run, read_entry
from kafkatools.tools.undo_files import write_new_file

MAX_ENTRIES = 1000
MAX_BYTES = 64 << 20
_NAME = re.compile(r"([0-9]{6,12})\.jsonl", re.ASCII)
_TEMPORARY = re.compile(_NAME.pattern + r"\.[0-9]+\.tmp", re.ASCII)
_TEMPORARY_MS = 60_000


class JournalFiles:
    """The directory of the journal. It is created with the first entry."""

    def __init__(self, home: str) -> None:
        self.directory = os.path.join(home, "journal")

    def path(self, number: int) -> str:
        """The path of an entry's file."""
        return os.path.join(self.directory, f"{number:06}.jsonl")

    def numbers(self) -> list[int]:
        """The numbers of the entries, ascending. Raises OSError."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def begin(self, run: Run, rows: list[Mapping[str, object]]) -> Run:
        """Write a new entry with these rows durably and return its run with the number. Raises OSError."""
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        numbers = self.numbers()
        self._remove_old(numbers)
        self._remove_temporary(run.time_ms - _TEMPORARY_MS)
        number = numbers[-1] if numbers else 0
        while True:
            number += 1
            numbered = run._replace(number=number)
            try:
                write_new_file(
                    self.path(number), [_line({"version": VERSION, **numbered._asdict()}), *map(_line, rows)]
                )
            except FileExistsError:  # another run began at the same time
                continue
            return numbered

    def append(self, number: int, row: Mapping[str, object]) -> None:
        """Add a row to an entry durably. Raises OSError."""
        descriptor = os.open(self.path(number), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        with open(descriptor, "wb", buffering=0) as file:
            atomic_file.write_all(file, _line(row).encode())
            os.fsync(file.fileno())

    def read(self, number: int) -> Entry:
        """Read an entry. Raises OSError if it cannot be read, ValueError if it is damaged."""
        with open(self.path(number), encoding="utf-8", newline="\n") as file:
            entry = read_entry(file)
        if entry.run.number != number:
            raise ValueError(f"it is the file of entry {entry.run.number}")
        return entry

    def changed_ms(self, number: int) -> int:
        """Return when an entry was last written to, in ms since 1970. Raises OSError."""
        return int(os.path.getmtime(self.path(number)) * 1000)

    def _remove_temporary(self, before_ms: int) -> None:
        """Remove the temporary files that were written before a time: an entry is created within moments."""
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            with contextlib.suppress(FileNotFoundError):
                if _TEMPORARY.fullmatch(name) and os.path.getmtime(path) * 1000 < before_ms:
                    os.unlink(path)

    def _remove_old(self, numbers: list[int]) -> None:
        sizes = {}
        for number in numbers:
            try:
                sizes[number] = os.path.getsize(self.path(number))
            except FileNotFoundError:  # another run removed it
                continue
        total = sum(sizes.values())
        for index, (number, size) in enumerate(sizes.items()):
            if len(sizes) - index < MAX_ENTRIES and total <= MAX_BYTES:
                return
            total -= size
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(number))


def _line(row: Mapping[str, object]) -> str:
    return json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n"
