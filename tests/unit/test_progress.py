"""Progress of long work: drawn on a terminal only, and never in the way of other lines."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pytest

from kafkatools import progress
from kafkatools.console import Console


class _Terminal(io.BytesIO):
    """A terminal that tells when a text is drawn."""

    def __init__(self, wanted: bytes = b"Reading") -> None:
        super().__init__()
        self.drawn = threading.Event()
        self._wanted = wanted

    def isatty(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self._wanted in data:
            self.drawn.set()
        return super().write(data)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(progress.TerminalProgress.start, "__defaults__", (0.0,))
    yield


def _console(stderr: io.BytesIO, stdout: io.BytesIO | None = None, **environ: str) -> Console:
    return Console(io.BytesIO(), stdout or io.BytesIO(), stderr, environ)


@pytest.mark.usefixtures("at_once")
def test_a_line_is_drawn_and_taken_away() -> None:
    terminal = _Terminal(b"42/50")
    with _console(terminal, COLUMNS="120").progress("Reading [x]", 50, measure=lambda: 2) as work:
        work.advance(40)
        assert terminal.drawn.wait(20)
    text = terminal.getvalue().decode()
    assert "Reading [x]" in text
    assert text.endswith("\x1b[2K")  # the line is empty again
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")  # and the cursor back


@pytest.mark.usefixtures("at_once")
def test_other_lines_stand_alone() -> None:
    terminal = _Terminal()
    console = _console(terminal)
    with console.progress("Reading", 50):
        assert terminal.drawn.wait(20)
        console.error("something is wrong")
        console.print("a row")
        console.flush()
    before, _, _ = terminal.getvalue().partition(b"something is wrong\n")
    assert before.endswith((b"\x1b[2K", b"\x1b[1A\x1b[2K", b"\x1b[?25h", b"\r"))


@pytest.mark.parametrize(
    ("stderr", "stdout", "environ", "is_json"),
    [
        (io.BytesIO(), None, {}, False),
        (_Terminal(), None, {}, True),
        (_Terminal(), None, {"TERM": "dumb"}, False),
        (_Terminal(), _Terminal(), {}, False),
    ],
)
@pytest.mark.usefixtures("at_once")
def test_nothing_is_drawn_elsewhere(
    stderr: io.BytesIO, stdout: io.BytesIO | None, environ: dict[str, str], is_json: bool
) -> None:
    console = _console(stderr, stdout, **environ)
    console.is_json = is_json
    with console.progress("Reading", 50, prints=True) as work:
        assert type(work) is progress.Progress
    assert stderr.getvalue() == b""


def test_short_work_draws_nothing() -> None:
    terminal = _Terminal()
    with _console(terminal).progress("Reading"):
        pass
    assert terminal.getvalue() == b""


@pytest.mark.usefixtures("at_once")
def test_a_terminal_that_is_gone_is_no_reason_to_fail() -> None:
    class Gone(_Terminal):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.drawn.set()
            raise OSError(5, "Input/output error")

    terminal = Gone()
    with _console(terminal).progress("Reading", 5) as work:
        assert terminal.drawn.wait(20)
        work.advance()
    assert work.count == 1
