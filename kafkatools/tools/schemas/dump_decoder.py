"""Decode the records of a dump by the schemas of a registry."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from kafkatools.core.java.text import java_string
from kafkatools.core.log.dump.decoders import Decoded, plain_decoder
from kafkatools.core.log.dump.records import DumpedRecord
from kafkatools.tools.schemas.decoding_step import CellWriter, FailedCells, SchemaDecoders


class SchemaDumpDecoder:
    """A record decoder of `kt dump-log` for keys, values or both. What cannot be decoded is shown as text and
    counted."""

    def __init__(self, decoders: SchemaDecoders, *, keys: bool = True, values: bool = True) -> None:
        self._decoders = decoders
        self._failed = FailedCells()
        self._file = ""
        self._offset = 0
        self._plain = plain_decoder(self._of("key") if keys else _as_text, self._of("value") if values else _as_text)

    def begin_file(self, path: str) -> None:
        """Name the file of the records that follow."""
        self._file = path

    def __call__(self, record: DumpedRecord) -> Decoded:
        """Return the texts of key and value, None for a null one. Raises Damage for one that is cut off."""
        self._offset = record.offset
        return self._plain(record)

    def failures(self) -> Sequence[str]:
        """Return the number of keys and values that were not decoded, and the first few with their reasons."""
        return self._failed.lines()

    def _of(self, part: str) -> Callable[[bytes | memoryview], str]:
        def decode(data: bytes | memoryview) -> str:
            writer = CellWriter(self._decoders, bytes(data) or b"\0", bytearray())
            writer.write((array("i", [0]), array("i", [len(data)])), part)
            for _, _, reason in writer.failures:
                self._failed.add(f"{self._file}: offset {self._offset}", part, reason)
            return java_string(bytes(writer.buffer()))

        return decode


def _as_text(data: bytes | memoryview) -> str:
    return java_string(bytes(data))
