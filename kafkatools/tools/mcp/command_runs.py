"""Run commands of kt in processes of their own, with limits of time, rows and bytes.

Rules: a process gets no stdin, so that it cannot ask or read the protocol. It is ended when its page is full, its time
is over or the call is cancelled: SIGTERM first, SIGKILL after `_GRACE_S`. It has a session of its own, so Ctrl-C on the
terminal of the server does not reach it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import anyio
from anyio.abc import ByteReceiveStream, Process

from kafkatools.tools.mcp.answers import Messages, Page, answer

_GRACE_S = 2.0
_MAX_LINE_BYTES = 64 << 20
_MAX_RUNS = 4
"""Processes at the same time; further calls wait."""


class Connection(NamedTuple):
    """The cluster of all tools, as words of command lines. `before`: global options in front of the command."""

    before: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    registry: tuple[str, ...] = ()
    records: tuple[str, ...] = ()
    has_registry: bool = False


class Runner:
    """Runs commands, at most `_MAX_RUNS` at a time. `environ`: of the processes. `timeout_s`: of each run. `prepare`
    is called in a thread before each run."""

    def __init__(self, environ: Mapping[str, str], timeout_s: float, prepare: Callable[[], None] | None = None) -> None:
        self._environ = dict(environ)
        self._timeout_s = timeout_s
        self._prepare = prepare
        self._limiter = anyio.CapacityLimiter(_MAX_RUNS)

    async def run(self, words: Sequence[str], page: Page, messages: Messages) -> int | None:
        """Run `kt WORDS`, and collect its output. Returns the exit status; None if the page is full or the time is
        over, which is then one of the errors."""
        async with self._limiter:
            if self._prepare is not None:
                await anyio.to_thread.run_sync(self._prepare)
            process = await anyio.open_process(
                [sys.executable, "-P", "-m", "kafkatools", *words],
                stdin=subprocess.DEVNULL,
                env=self._environ,
                start_new_session=True,
            )
            is_full = False
            try:
                with anyio.move_on_after(self._timeout_s) as scope:
                    is_full = await _collect(process, page, messages)
                    if not is_full:
                        await process.wait()
            finally:
                await _end(process)
            if scope.cancelled_caught:
                messages.add_error("TIMEOUT", f"The command did not end within {self._timeout_s:g} s")
            return None if is_full or scope.cancelled_caught else process.returncode

    async def answer(self, words: Sequence[str], page: Page) -> dict[str, object]:
        """Run a command and return its answer. A command whose page was full counts as done."""
        messages = Messages()
        status = await self.run(words, page, messages)
        return answer(page, messages, 0 if status is None and page.is_truncated and not messages.errors else status)


async def _collect(process: Process, page: Page, messages: Messages) -> bool:
    """Read both outputs to their ends. Returns whether the page was full before."""
    assert process.stdout is not None and process.stderr is not None
    is_full = False

    async def read_rows(stream: ByteReceiveStream) -> None:
        nonlocal is_full
        is_full = not await _read_lines(stream, page.add)
        if is_full and not page.is_truncated:
            messages.add_error("ROW_TOO_LARGE", f"A row has more than {_MAX_LINE_BYTES >> 20} MiB")
        if is_full:
            group.cancel_scope.cancel()

    def add_message(line: bytes) -> bool:
        messages.add(line)
        return True

    async with anyio.create_task_group() as group:
        group.start_soon(_read_lines, process.stderr, add_message)
        group.start_soon(read_rows, process.stdout)
    return is_full


async def _read_lines(stream: ByteReceiveStream, add: Callable[[bytes], bool]) -> bool:
    """Pass each line to `add` until it returns False; returns whether all lines were passed. A line beyond
    `_MAX_LINE_BYTES` counts as refused."""
    pieces: list[bytes] = []
    size = 0
    async for chunk in stream:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if not add(b"".join([*pieces, line])):
                return False
            pieces, size = [], 0
        pieces.append(rest)
        size += len(rest)
        if size > _MAX_LINE_BYTES:
            return False
    return add(b"".join(pieces))


async def _end(process: Process) -> None:
    """End a process that still runs, and close its pipes, also in a cancelled call."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            with anyio.move_on_after(_GRACE_S):
                await process.wait()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        await process.aclose()
