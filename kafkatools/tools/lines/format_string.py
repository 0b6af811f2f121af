r"""Formats of kcat's -f: text with tokens such as %k and escapes such as \n, and the formatter that prints them.

Rules: a format is compiled once to parts, in which literal text is bytes and a token is its letter. The compiled kernel
prints a whole batch; otherwise, and where cells are converted, one %-operation of bytes over its columns does. The
bytes are those of kcat 1.7.1 (its format.c), with one
exception: kcat takes text, header names and header values as C strings and cuts them at a NUL byte, kt does not.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.deserializers import Deserializer
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.records import _format_kernel as kernel
from kafkatools.core.records.columns import Buffer, RecordColumns
from kafkatools.tools.lines.formatters import Escape, OnError

TOKENS = "%s %S %R %k %K %t %p %o %T %h %%"
_LETTERS = frozenset("sSRkKtpoTh")
_OF_RPK = {"v": "%s is the value", "V": "%S is the size of the value", "d": "%T is the timestamp"}
_NUMBERS = frozenset("SKpoT")
_LETTER_ESCAPES = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_ESCAPE = re.compile(
    rb"\\(?:x(?P<hexadecimal>0[xX][0-9a-fA-F]+|[0-9][0-9a-fA-F]*)|0[xX](?P<prefixed>[0-9a-fA-F]+)"
    rb"|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*)|x(?P<after_x>.|\Z)|(?P<letter>.))",
    re.DOTALL,
)
_BASES = {"hexadecimal": 16, "prefixed": 16, "octal": 8, "decimal": 10}
_KINDS = {
    "s": kernel.VALUE,
    "k": kernel.KEY,
    "S": kernel.VALUE_SIZE,
    "K": kernel.KEY_SIZE,
    "R": kernel.BINARY_VALUE_SIZE,
    "o": kernel.OFFSET,
    "T": kernel.TIMESTAMP,
}
_COPIED_A_ROW = 1024
_LARGEST = (1 << 64) - 1  # what C's strtoul returns for a larger number


class FormatPart(NamedTuple):
    """A part of a format: literal bytes, or the letter of a token and then no bytes."""

    text: bytes
    token: str = ""


def parse_format(text: str) -> list[FormatPart]:
    """Parse a format. Raises ConfigError with the position, from 1, of an unknown or incomplete token or escape."""
    parts: list[FormatPart] = []
    start = 0
    while (place := text.find("%", start)) >= 0:
        if place > start:
            parts.append(FormatPart(_literal(text, start, place)))
        letter = text[place + 1 : place + 2]
        if letter == "%":
            parts.append(FormatPart(b"%"))
        elif letter in _LETTERS:
            parts.append(FormatPart(b"", letter))
        else:
            raise _bad_token(letter, place + 1)
        start = place + 2
    if start < len(text):
        parts.append(FormatPart(_literal(text, start, len(text))))
    return parts


def _bad_token(letter: str, position: int) -> ConfigError:
    if not letter:
        return ConfigError(f"The format ends with % at character {position}; write %% for a percent sign")
    advice = _OF_RPK.get(letter, f"the tokens are {TOKENS}")
    return ConfigError(f"Unknown token %{letter} at character {position} of the format; {advice}")


def _literal(text: str, start: int, stop: int) -> bytes:
    r"""Return the bytes of the literal text between two positions, with its escapes replaced as kcat does.

    A number after a backslash is decimal, with a leading 0 octal, with 0x hexadecimal, and after \x always hexadecimal.
    It has all the digits that follow, and its lowest byte counts. Of any other character the backslash is dropped.
    """
    data = text[start:stop].encode("utf-8", "surrogateescape")

    def unescaped(match: re.Match[bytes]) -> bytes:
        kind, found = str(match.lastgroup), match[str(match.lastgroup)]
        if kind in _BASES:
            return bytes([min(int(found, _BASES[kind]), _LARGEST) & 0xFF])
        if kind == "after_x" and not found:
            raise ConfigError(rf"\x at character {stop - 1} of the format has no number; write \x0a for a newline")
        return found if kind == "after_x" else _LETTER_ESCAPES.get(found, found)

    return _ESCAPE.sub(unescaped, data)


class StringFormatter:
    """Prints records by a format. `escape` converts keys, values and headers, for a terminal. Raises ConfigError for an
    invalid format."""

    def __init__(
        self,
        text: str,
        key: Deserializer | None = None,
        value: Deserializer | None = None,
        escape: Escape | None = None,
    ) -> None:
        self._parts = parse_format(text)
        self._key, self._value, self._escape = key, value, escape
        self._tokens = [part.token for part in self._parts if part.token]
        self._template = b"".join([_template(part) for part in self._parts])

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Append the formatted records; return how many were processed. `on_error` is called for each record whose key
        or value cannot be deserialized; False stops after it."""
        if self._key is None and self._value is None:
            has_headers = "h" in self._tokens and any(fetched.columns.header_counts)
            if kernel.COMPILED and self._escape is None and not has_headers:
                return kernel.write_parts(fetched.columns, out, *self._kernel_parts(fetched))
            out += self._formatted(fetched)
            return fetched.columns.count
        for index in range(fetched.columns.count):
            try:
                out += self._formatted(fetched._replace(columns=fetched.columns.slice(index, index + 1)))
            except KafkaError as error:
                if not on_error(error):
                    return index + 1
        return fetched.columns.count

    def _kernel_parts(self, fetched: FetchedColumns) -> tuple[array[int], bytes]:
        """Return the parts for the kernel and their literal text. Topic and partition are text, headers are empty."""
        parts, text = array("i"), bytearray(b"-")
        texts = {"t": fetched.topic.encode(), "p": b"%d" % fetched.partition}
        for part in self._parts:
            if part.token in _KINDS:
                parts.extend((_KINDS[part.token], 0, 0))
            else:
                literal = texts.get(part.token, part.text)
                parts.extend((kernel.LITERAL, len(text), len(literal)))
                text += literal
        return parts, bytes(text)

    def _formatted(self, fetched: FetchedColumns) -> bytes:
        count, width = fetched.columns.count, len(self._tokens)
        arguments: list[object] = [None] * (count * width)
        for place, token in enumerate(self._tokens):
            arguments[place::width] = self._column(token, fetched)
        return self._template * count % tuple(arguments)

    def _column(self, token: str, fetched: FetchedColumns) -> Sequence[object]:
        columns, count = fetched.columns, fetched.columns.count
        match token:
            case "s":
                return self._texts(_cells(columns.buffer, columns.value_positions, columns.value_lengths), self._value)
            case "k":
                return self._texts(_cells(columns.buffer, columns.key_positions, columns.key_lengths), self._key)
            case "S":
                return columns.value_lengths
            case "K":
                return columns.key_lengths
            case "R":
                return [struct.pack(">i", size) for size in columns.value_lengths]
            case "o":
                return columns.offsets
            case "T":
                return columns.timestamps
            case "h":
                return self._texts([_headers(columns, index) for index in range(count)], None)
            case "t":
                return [fetched.topic.encode()] * count
        return [fetched.partition] * count

    def _texts(self, cells: Sequence[bytes | None], deserialize: Deserializer | None) -> Sequence[bytes]:
        """Return cells as bytes to print; a null is empty."""
        if deserialize is not None:
            cells = [cell if cell is None else deserialize(cell) for cell in cells]
        texts = [cell or b"" for cell in cells]
        return texts if self._escape is None else list(map(self._escape, texts))


def _template(part: FormatPart) -> bytes:
    if not part.token:
        return part.text.replace(b"%", b"%%")
    return b"%d" if part.token in _NUMBERS else b"%b"


def _cells(buffer: Buffer, positions: Sequence[int], lengths: Sequence[int]) -> list[bytes | None]:
    # slices of bytes are cheaper than those of a view, unless the copy is much larger than the cells
    source = bytes(buffer) if len(buffer) <= _COPIED_A_ROW * len(lengths) else memoryview(buffer)
    places = zip(positions, lengths, strict=True)
    return [bytes(source[start : start + size]) if size >= 0 else None for start, size in places]


def _headers(columns: RecordColumns, index: int) -> bytes:
    """Return a record's headers as kcat prints them: NAME=VALUE with commas between; a null value is NULL."""
    pairs = columns.raw_headers(index)
    return b",".join([name + b"=" + (b"NULL" if value is None else value) for name, value in pairs])
