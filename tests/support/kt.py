"""Runs the real `kt` in this process, on byte streams.

What every test of a command uses (the model is HTTPie's harness).
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from kafkatools.cli import main
from kafkatools.commands import completion
from kafkatools.console import Console
from kafkatools.core.clock import Clock
from kafkatools.exit_status import ExitStatus


class Ran(NamedTuple):
    """How a run of `kt` ended and what it printed."""

    status: ExitStatus
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Stdout as text; bytes that are no UTF-8 as U+FFFD."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """Stderr as text."""
        return self.stderr.decode()


class _Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def run_kt(
    *arguments: str,
    stdin: bytes | Any = b"",
    environ: Mapping[str, str] | None = None,
    cwd: str | pathlib.Path | None = None,
    terminal: bool = False,
    clock: Clock | None = None,
) -> Ran:
    """Runs `kt ARGUMENTS`. `stdin`: bytes, or an open binary stream.

    The environment holds only what is given, with sandbox and journal off and, on a terminal, no progress of slow
    runs.
    """
    stdout, stderr = (_Terminal(), _Terminal()) if terminal else (io.BytesIO(), io.BytesIO())
    source = io.BufferedReader(io.BytesIO(stdin)) if isinstance(stdin, bytes) else stdin  # type: ignore[arg-type]
    console = Console(
        source, stdout, stderr, {"KT_SANDBOX": "off", "KT_JOURNAL": "off", "TERM": "dumb", **(environ or {})}, clock
    )
    with _directory(cwd):
        status = main(arguments, console)
    return Ran(status, stdout.getvalue(), stderr.getvalue())


@contextlib.contextmanager
def patient_completion() -> Iterator[None]:
    """Within it `kt completion` gives the broker half a minute, not 200 ms: it has names on any machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completion, "_BUDGET_MS", 30_000)
        yield


@contextlib.contextmanager
def _directory(path: str | pathlib.Path | None) -> Iterator[None]:
    before = os.getcwd()
    if path is not None:
        os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
