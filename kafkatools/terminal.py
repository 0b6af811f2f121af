"""A stream that ends at a terminal: whatever is written to it is text, and only `draw` may style it or move the cursor.

Console puts it over stdout and over stderr, each for itself, where that is a terminal. A command that writes names,
values or error texts needs to do nothing, and one that forgets shows escapes instead of obeying them. Streams that are
no terminal are never wrapped: they get the bytes as they are.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable
from typing import Any, BinaryIO


class TerminalStream(io.BufferedIOBase):
    """Bytes to a terminal, control characters escaped except tabs and line feeds.

    A character that is cut in two by a write waits for its other half until the next write or `flush`.
    """

    def __init__(self, stream: BinaryIO) -> None:
        from kafkatools.core.control_characters import visible_drawing, visible_text  # not for a --help in a pipe

        self._text, self._drawing = visible_text, visible_drawing
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def write(self, data: Any) -> int:
        """Foreign text, or our own without styles."""
        self._put(self._decoder.decode(bytes(data)), self._text)
        return len(data)

    def draw(self, text: str) -> int:
        """Our own drawing: styles and movements of the cursor pass."""
        self._put(self._decoder.decode(b"", final=True), self._text)
        self._put(text, self._drawing)
        return len(text)

    def _put(self, text: str, show: Callable[[str], str]) -> None:
        if text:
            self._stream.write(show(text).encode())

    def flush(self) -> None:
        """Hand on everything, half a character as its bytes."""
        if self._stream.closed:
            return
        self._put(self._decoder.decode(b"", final=True), self._text)
        self._stream.flush()

    def isatty(self) -> bool:
        """It is one."""
        return True

    def fileno(self) -> int:
        """The terminal's descriptor."""
        return self._stream.fileno()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class DrawnText(io.TextIOBase):
    """A text file for rich over a stream of Console's; every write is a whole piece of drawing and shown at once."""

    encoding = "utf-8"

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Text with styles to the stream."""
        draw(self._stream, text)
        self._stream.flush()
        return len(text)

    def isatty(self) -> bool:
        """As the stream."""
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


def draw(stream: BinaryIO, text: str) -> None:
    """Our own drawing to a stream of Console's."""
    if isinstance(stream, TerminalStream):
        stream.draw(text)
    else:
        stream.write(text.encode("utf-8", "replace"))


def on_terminal(stream: BinaryIO) -> BinaryIO:
    """The stream itself, or a TerminalStream over it when it ends at a terminal."""
    return TerminalStream(stream) if stream.isatty() else stream  # type: ignore[return-value]
