"""Producer input that is encoded by schemas: lines with JSON text become keys and values of records.

Rules: a null key or value stays null. The records of a file are all checked before the first is sent; those of a pipe
that are read together are checked together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafkatools.tools.lines.line_reader import MalformedLine
from kafkatools.tools.schemas.errors import InvalidValue

if TYPE_CHECKING:
    from kafkatools.core.producer.producer_record import ProducerRecord
    from kafkatools.tools.schemas.encoders import Encoder

NumberedRecord = tuple[int, "ProducerRecord"]


class EncodedInput:
    """Encodes keys, values or both; None leaves them as they are. With `on_bad_line` a line that cannot be encoded is
    passed to it and skipped."""

    def __init__(
        self, key: Encoder | None, value: Encoder | None, on_bad_line: Callable[[MalformedLine], None] | None = None
    ) -> None:
        self._key = key
        self._value = value
        self._on_bad_line = on_bad_line

    def encode(self, records: Iterable[NumberedRecord]) -> list[NumberedRecord]:
        """Encode numbered records in place and return them. Raises MalformedLine with line and field."""
        encoded = []
        for number, record in records:
            try:
                record.key = self._cell(self._key, record.key, "key", number)
                record.value = self._cell(self._value, record.value, "value", number)
            except MalformedLine as error:
                if self._on_bad_line is None:
                    raise
                self._on_bad_line(error)
                continue
            encoded.append((number, record))
        return encoded

    def _cell(self, encoder: Encoder | None, text: bytes | None, part: str, number: int) -> bytes | None:
        if encoder is None or text is None:
            return text
        try:
            return encoder.encode(bytes(text))
        except InvalidValue as error:
            raise MalformedLine(f"Line {number}, {part}: {error}") from None
