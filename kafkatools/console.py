"""Console: the streams, the environment and the clock of a command. Tests replace all of them.

Rules: a command writes through Console. stdout is bytes and buffered; cli.main flushes it. stderr is written line by
line, after stdout is flushed. On a terminal, control characters are escaped (terminal.py) and only `draw` and
`draw_error` may use colours.

On a terminal `print`, `error` and `note` also escape line ends inside their line: a name or an error text could fake a
line of ours with them. `print_lines` and `error_lines` print several lines. Nothing in this module decides an exit
status.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, overload

from kafkatools.exit_status import UsageError
from kafkatools.sandbox.home import kt_home
from kafkatools.terminal import TerminalStream, draw, on_terminal

if TYPE_CHECKING:
    from kafkatools.core.admin.client import ChangeObserver
    from kafkatools.core.clock import Clock
    from kafkatools.progress import Progress, TerminalProgress

_BUFFER_BYTES = 1 << 18
_DEFAULT_WIDTH = 100


class Console:
    """Streams, environment and clock of one run of `kt`. `stdin`, `stdout` and `stderr` are binary. `is_json` (--json):
    errors and notes on stderr are JSON objects too. `command_line`: the arguments of `kt`. `change_observer`: the
    recorder of the journal, None before the first change. `clock` None: the system's."""

    def __init__(
        self,
        stdin: BinaryIO,
        stdout: BinaryIO,
        stderr: BinaryIO,
        environ: Mapping[str, str],
        clock: Clock | None = None,
    ) -> None:
        self.stdin = stdin
        self.stdout = on_terminal(stdout)
        self.stderr = on_terminal(stderr)
        self.environ = environ
        self.is_json = False
        self.command_line: Sequence[str] = ()
        self.change_observer: ChangeObserver | None = None
        self._clock = clock
        self._is_process = False
        self._progress: TerminalProgress | None = None
        self._has_named_sandbox = False

    @classmethod
    def of_process(cls) -> Console:
        """The console of this process. A standard stream that the parent process closed is replaced by an empty one. On
        a terminal sys.stderr is replaced too, so that log lines are escaped."""
        console = cls(
            sys.stdin.buffer if sys.stdin is not None else io.BytesIO(),
            _buffer(1) if sys.stdout is not None else io.BytesIO(),
            sys.stderr.buffer if sys.stderr is not None else io.BytesIO(),
            os.environ,
        )
        console._is_process = sys.stdout is not None
        if isinstance(console.stderr, TerminalStream):  # also for log lines and the errors of threads
            sys.stderr = io.TextIOWrapper(console.stderr, "utf-8", "surrogateescape", write_through=True)
        return console

    @property
    def clock(self) -> Clock:
        """The clock for timers and record timestamps: the system's, unless a test passed another one."""
        if self._clock is None:
            from kafkatools.core.clock import SystemClock

            self._clock = SystemClock()
        return self._clock

    @property
    def is_terminal(self) -> bool:
        """Return whether stdout is a terminal."""
        return self.stdout.isatty()

    @property
    def is_error_terminal(self) -> bool:
        """Return whether stderr is a terminal. Progress bars are drawn there."""
        return self.stderr.isatty()

    @property
    def is_input_terminal(self) -> bool:
        """Return whether stdin is a terminal, so that a prompt can be answered."""
        return self.stdin.isatty()

    @property
    def is_input_file(self) -> bool:
        """Return whether stdin is a regular file, which can be read twice."""
        return _remaining_bytes(self.stdin) is not None

    def enlarge_input_pipe(self, size_bytes: int) -> None:
        """Enlarge stdin's pipe buffer beyond the default of 64 KiB to save system calls. Does nothing where that is not
        possible."""
        try:
            import fcntl

            fcntl.fcntl(self.stdin.fileno(), fcntl.F_SETPIPE_SZ, size_bytes)
        except (ImportError, AttributeError, OSError, ValueError):
            return

    def has_more_input(self) -> bool:
        """Return whether stdin is not at its end; True for an open pipe or terminal without data. May consume one
        byte."""
        import select

        try:
            if not select.select([self.stdin], [], [], 0)[0]:
                return True
        except (OSError, ValueError, TypeError):
            pass  # not a stream with a file descriptor: a read never waits
        return bool(self.stdin.read(1))

    @property
    def has_colour(self) -> bool:
        """Return whether stdout may be coloured: it is a terminal and NO_COLOR is not set (https://no-color.org)."""
        return self.is_terminal and not self.environ.get("NO_COLOR")

    @property
    def is_debug(self) -> bool:
        """Return whether KT_DEBUG is set, so that errors come with a stack trace."""
        return self.environ.get("KT_DEBUG", "") not in ("", "0")

    @property
    def width(self) -> int:
        """Columns of the terminal: COLUMNS, else the terminal's size, else 100."""
        columns = self.environ.get("COLUMNS", "")
        if columns.isdigit() and int(columns) > 0:
            return int(columns)
        try:
            return os.get_terminal_size(self.stdout.fileno()).columns or _DEFAULT_WIDTH
        except (OSError, ValueError):
            return _DEFAULT_WIDTH

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write bytes to stdout, buffered; on a terminal control characters are escaped."""
        with self._hidden_progress():
            self.stdout.write(data)

    def print(self, line: str = "", row: Mapping[str, object] | None = None) -> None:
        """Print a line to stdout, with control characters and line ends escaped on a terminal; with --json the row as a
        JSON object instead, if there is one."""
        if row is not None and self.is_json:
            self.print_json(row)
        else:
            self.stdout.write(_line(line, self.stdout))

    def show(self, rows: Iterable[Mapping[str, object]], lines: Iterable[str]) -> None:
        """Print the rows as JSON objects with --json, else the lines; only one of the two is iterated."""
        if self.is_json:
            for row in rows:
                self.print_json(row)
        else:
            for line in lines:
                self.print(line)

    def print_outcome(self, row: Mapping[str, object], line: str = "", error: str = "") -> None:
        """Print the result for one item: with --json the row, else the error to stderr or the line to stdout. Prints
        nothing when both texts are empty."""
        if self.is_json:
            self.print_json(row)
        elif error:
            self.error(error)
        elif line:
            self.print(line)

    def print_lines(self, text: str) -> None:
        """Print several lines to stdout. Names and values in them must not contain line ends."""
        self.stdout.write(_encode(text) + b"\n")

    def draw(self, text: str) -> None:
        """Print text with colours and cursor movements to stdout. The caller escapes foreign text, as output.table
        does."""
        draw(self.stdout, text)

    def print_json(self, row: Mapping[str, object]) -> None:
        """Print an object as one line of JSON to stdout."""
        from kafkatools.output import json_line

        self.print(json_line(row))

    def error(self, line: str, kind: str = "FAILED", **fields: object) -> None:
        """Print an error line to stderr at once, after flushing stdout, with secrets hidden. A closed stderr is
        ignored. With --json prints {"error": ...} with this kind, the message and the keys of `fields`; otherwise
        `kind` and `fields` are unused."""
        if self.is_json:
            from kafkatools.output import json_error

            line = json_error(kind, _redact(line.strip()), **_redact(fields))
        self._write_line(line)

    def error_lines(self, text: str) -> None:
        """Print several lines to stderr, as `print_lines` does to stdout; with --json as one {"note": ...} object."""
        if self.is_json:
            self.note(text)
        else:
            self._write_stderr(lambda: self.stderr.write(_encode(_redact(text)) + b"\n"))

    def draw_error(self, text: str) -> None:
        """Print text with colours and cursor movements to stderr, as `draw` does to stdout."""
        self._write_stderr(lambda: draw(self.stderr, _redact(text)))

    def note(self, line: str, row: Mapping[str, object] | None = None) -> None:
        """Print a line to stderr that is no error, such as a warning, with secrets hidden. With --json prints the row,
        or {"note": ...} without one."""
        if self.is_json:
            from kafkatools.output import json_line

            line = json_line(_redact({"note": line.strip()} if row is None else row))
        self._write_line(line)

    def _write_line(self, line: str) -> None:
        text = line if self.is_json else _redact(line)
        self._write_stderr(lambda: self.stderr.write(_line(text, self.stderr)))

    def _write_stderr(self, write: Callable[[], object]) -> None:
        """Call `write` after flushing stdout and hiding the progress line, then flush stderr. A closed stderr is
        ignored."""
        with self._hidden_progress():
            self.stdout.flush()
            with suppress(OSError, ValueError):
                write()
                self.stderr.flush()

    def _hidden_progress(self) -> AbstractContextManager[None]:
        return nullcontext() if self._progress is None else self._progress.hidden()

    def flush(self) -> None:
        """Flush stdout. Raises BrokenPipeError when its reader has closed the pipe."""
        with self._hidden_progress():
            self.stdout.flush()

    @contextmanager
    def progress(
        self,
        label: str,
        total: int | None = None,
        *,
        measure: Callable[[], int] = lambda: 0,
        is_bytes: bool = False,
        has_detail: bool = False,
        prints: bool = False,
    ) -> Iterator[Progress]:
        """Show a progress line on stderr within the context; the work sets `count` of the Progress that the context
        returns, and `measure` returns the finished units beyond it. `has_detail`: its `detail` replaces the numbers.

        Draws nothing with --json, without a terminal or inside another progress. `prints`: the work writes to stdout
        all the time, so nothing is drawn when stdout is a terminal either.
        """
        from kafkatools.progress import Progress, TerminalProgress

        is_visible = self.is_error_terminal and self.environ.get("TERM") != "dumb" and not (prints and self.is_terminal)
        if not is_visible or self.is_json or self._progress is not None:
            yield Progress(label, total)
            return
        colour = not self.environ.get("NO_COLOR")
        progress = TerminalProgress(
            self.stderr,
            self.width,
            label,
            total,
            measure=measure,
            is_bytes=is_bytes,
            has_detail=has_detail,
            has_colour=colour,
        )
        self._progress = progress
        progress.start()
        try:
            yield progress
        finally:
            progress.stop()
            self._progress = None

    def ensure_reader(self) -> None:
        """Raise BrokenPipeError when stdout is a pipe whose reader is gone. Detects this without a write."""
        import select

        try:
            poll = select.poll()
            poll.register(self.stdout.fileno(), 0)  # POLLERR and POLLHUP are always reported
        except (OSError, ValueError):
            return
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            raise BrokenPipeError

    def abandon_stdout(self) -> None:
        """Discard buffered and future output to stdout after its reader is gone, so that the exit of Python does not
        retry it."""
        if self._is_process:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        self.stdout = io.BytesIO()

    def input_progress(self, label: str) -> AbstractContextManager[Progress]:
        """Show the progress of reading stdin when it is a regular file; otherwise draw nothing."""
        remaining = _remaining_bytes(self.stdin)
        if remaining is None:
            from kafkatools.progress import Progress

            return nullcontext(Progress(label))
        return self.progress(label, remaining, is_bytes=True)

    @property
    def home(self) -> str:
        """The directory of kt's own files: KT_HOME, else `kafkatools` in the user's data directory (XDG_DATA_HOME)."""
        return kt_home(self.environ)

    def connect(self, args: Any) -> str:
        """The bootstrap servers of a command: --bootstrap-server, the profile's, or those of the sandbox, which is
        started if needed.

        A command that uses the sandbox names it on stderr, to reveal a forgotten --bootstrap-server; not with --json or
        KT_SANDBOX=quiet. Raises UsageError when the profile has no bootstrap servers, when KT_SANDBOX is invalid, and
        with KT_SANDBOX=off (Kafka's message, `missing_bootstrap` of the command). Raises SandboxError when the sandbox
        does not start.
        """
        requested: str | None = args.bootstrap_server
        if requested is not None:
            return requested
        if args.profile is not None:
            servers: str | None = args.profile.bootstrap_servers
            if servers is None:
                raise UsageError(f"{args.profile.path}: the profile '{args.profile.name}' has no bootstrap_servers")
            return servers
        choice = self.environ.get("KT_SANDBOX", "").lower()
        if choice in ("off", "0", "false", "no"):
            raise UsageError(args.command.missing_bootstrap)
        if choice not in ("", "on", "1", "true", "yes", "quiet"):
            raise UsageError(f"KT_SANDBOX is '{choice}': set it to off, quiet or on, or unset it")
        return self._connect_to_sandbox(is_quiet=choice == "quiet")

    def _connect_to_sandbox(self, *, is_quiet: bool) -> str:
        """Start the sandbox if it does not run and return its address. Names it on stderr once for each run of kt,
        unless `is_quiet` or --json."""
        from kafkatools.sandbox.single import ensure_started

        sandbox = ensure_started(self.home, None if is_quiet else self.note)
        if not (sandbox.started or is_quiet or self.is_json or self._has_named_sandbox):
            self.note(f"kt: no --bootstrap-server, using the sandbox on {sandbox.bootstrap}")
        self._has_named_sandbox = True
        return sandbox.bootstrap


def _remaining_bytes(stream: BinaryIO) -> int | None:
    """Bytes between the position and the end of a regular file; None for any other stream."""
    import stat

    try:
        status = os.fstat(stream.fileno())
        return max(0, status.st_size - stream.tell()) if stat.S_ISREG(status.st_mode) else None
    except (OSError, ValueError):
        return None


def _buffer(descriptor: int) -> BinaryIO:
    return open(descriptor, "wb", buffering=_BUFFER_BYTES, closefd=False)


@overload
def _redact(value: str) -> str: ...
@overload
def _redact(value: Mapping[str, object]) -> dict[str, object]: ...
@overload
def _redact(value: object) -> object: ...
def _redact(value: object) -> object:
    """Hide secrets in a text, mapping or list before it goes to stderr (core/secrets.py)."""
    if isinstance(value, str):
        from kafkatools.core.secrets import redacted_line

        return redacted_line(value)
    if isinstance(value, Mapping):
        return {name: _redact(item) for name, item in value.items()}
    return [_redact(item) for item in value] if isinstance(value, (list, tuple)) else value


def _line(line: str, stream: BinaryIO) -> bytes:
    """Encode a line with its newline; control characters are escaped if the stream is a terminal."""
    if isinstance(stream, TerminalStream):
        from kafkatools.core.control_characters import visible_line

        line = visible_line(line)
    return _encode(line) + b"\n"


def _encode(text: str) -> bytes:
    """Encode text as UTF-8. Undecodable bytes of the command line are written unchanged; other lone surrogates, which
    JSON can contain, are escaped."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")
