"""Terminal streams that escape control characters; only `draw` may use colours and move the cursor.

Console wraps stdout and stderr separately, when they are terminals. So a command can write names, values and error
texts without escaping them itself. Pipes and files are never wrapped: they get the bytes unchanged.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import Buffer


class TerminalStream(io.BufferedIOBase):
    """Bytes to a terminal, control characters escaped except tabs and line feeds.

    A character that is cut in two by a write waits for its other half until the next write or `flush`.
    """

    def __init__(self, stream: BinaryIO) -> None:
        from kafkatools.core.control_characters import visible_drawing, visible_text  # not for a --help in a pipe

        self._text, self._drawing = visible_text, visible_drawing
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def write(self, data: Buffer) -> int:
        """Write text with its control characters escaped."""
        written = bytes(data)
        self._put(self._decoder.decode(written), self._text)
        return len(written)

    def draw(self, text: str) -> int:
        """Write text in which colours and cursor movements take effect."""
        self._put(self._decoder.decode(b"", final=True), self._text)
        self._put(text, self._drawing)
        return len(text)

    def _put(self, text: str, show: Callable[[str], str]) -> None:
        if text:
            self._stream.write(show(text).encode())

    def flush(self) -> None:
        """Flush everything; an incomplete character is written as escaped bytes."""
        if self._stream.closed:
            return
        self._put(self._decoder.decode(b"", final=True), self._text)
        self._stream.flush()

    def isatty(self) -> bool:
        """Return True: only terminals are wrapped."""
        return True

    def fileno(self) -> int:
        """The terminal's descriptor."""
        return self._stream.fileno()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class DrawnText(io.TextIOBase):
    """A text file for rich over a stream of Console; each write is drawn at once."""

    encoding = "utf-8"

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Draw text with colours on the stream."""
        draw(self._stream, text)
        self._stream.flush()
        return len(text)

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


def draw(stream: BinaryIO, text: str) -> None:
    """Write text with colours and cursor movements to a stream of Console."""
    if isinstance(stream, TerminalStream):
        stream.draw(text)
    else:
        stream.write(text.encode("utf-8", "replace"))


def on_terminal(stream: BinaryIO) -> BinaryIO:
    """Wrap a stream in a TerminalStream when it is a terminal."""
    return TerminalStream(stream) if stream.isatty() else stream  # type: ignore[return-value]
