"""Terminal streams that escape control characters, so that names and values cannot control the terminal.

Console wraps stdout and stderr when they are terminals; a command then needs no escaping of its own. Only `draw` may
use colours and move the cursor. Pipes and files are not wrapped: they get the bytes unchanged.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import Buffer


class TerminalStream(io.BufferedIOBase):
    """A binary stream to a terminal that escapes control characters except tabs and line feeds. When a write ends
    inside a UTF-8 character, its first bytes wait for the next write, `draw` or `flush`."""

    def __init__(self, stream: BinaryIO) -> None:
        from kafkatools.core.control_characters import visible_drawing, visible_text  # not for a --help in a pipe

        self._text, self._drawing = visible_text, visible_drawing
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def write(self, data: Buffer) -> int:
        """Write UTF-8 text with its control characters escaped; return the number of bytes in `data`."""
        content = bytes(data)
        self._write(self._decoder.decode(content), self._text)
        return len(content)

    def draw(self, text: str) -> int:
        """Write text in which colours and cursor movements take effect; return its length."""
        self._write(self._decoder.decode(b"", final=True), self._text)
        self._write(text, self._drawing)
        return len(text)

    def _write(self, text: str, show: Callable[[str], str]) -> None:
        if text:
            self._stream.write(show(text).encode())

    def flush(self) -> None:
        """Flush the stream; an incomplete UTF-8 character is written as escaped bytes. No effect on a closed stream."""
        if self._stream.closed:
            return
        self._write(self._decoder.decode(b"", final=True), self._text)
        self._stream.flush()

    def isatty(self) -> bool:
        """Return True: only terminals are wrapped."""
        return True

    def fileno(self) -> int:
        """The file descriptor of the terminal."""
        return self._stream.fileno()

    def writable(self) -> bool:
        return True


class DrawnText(io.TextIOBase):
    """A text file for rich that draws each write at once on a stream of Console."""

    encoding = "utf-8"

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Draw text with colours on the stream and flush it."""
        draw(self._stream, text)
        self._stream.flush()
        return len(text)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def writable(self) -> bool:
        return True


def draw(stream: BinaryIO, text: str) -> None:
    """Write text with colours and cursor movements to a stream of Console; other control sequences are escaped on a
    terminal."""
    if isinstance(stream, TerminalStream):
        stream.draw(text)
    else:
        stream.write(text.encode("utf-8", "replace"))


def on_terminal(stream: BinaryIO) -> BinaryIO:
    """Wrap a stream in a TerminalStream if it is a terminal; return any other stream unchanged."""
    return TerminalStream(stream) if stream.isatty() else stream  # type: ignore[return-value]
