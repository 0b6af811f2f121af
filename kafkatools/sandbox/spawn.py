"""Processes of the sandbox: start one, read its reports, wait for its end.

A process gets its request on stdin, so that `ps` does not show its settings. It reports on stdout, in lines of JSON,
whether it started (`process.py`); its messages go to a file. It runs this Python interpreter in a session of its own,
so that it outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafkatools.core import atomic_file
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    import subprocess

    from kafkatools.core.clock import Clock
    from kafkatools.sandbox.messages import NodeRequest, RunInfo

DEFAULT_PORT = 29092
DEFAULT_IDLE_MS = 30 * 60_000
HOST = "127.0.0.1"


class SandboxError(KafkaError):
    """The sandbox could not be started, stopped or changed."""


def folder(home: str | os.PathLike[str]) -> str:
    """The folder of the sandbox below a home."""
    return os.path.join(os.fspath(home), "sandbox")


def make_private(path: str) -> None:
    """Create a directory and its missing parents with mode 0700; directories that exist keep their mode. Raises
    OSError."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)


@contextlib.contextmanager
def start_lock(home: str) -> Iterator[None]:
    """Hold the lock that allows one start at a time in a home; waits while another process holds it."""
    make_private(folder(home))
    lock = os.open(os.path.join(folder(home), "start.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def write_json(path: str, content: Mapping[str, object]) -> None:
    """Replace a small file atomically, with mode 0600."""
    make_private(os.path.dirname(path))
    atomic_file.replace(path, json.dumps(content).encode(), mode=0o600)


def remove_file(path: str) -> None:
    """Remove a file, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


class Child:
    """A process of the sandbox that this one started, until it has reported that it listens or is ready."""

    def __init__(self, request: NodeRequest, log_path: str, name: str = "the sandbox") -> None:
        import subprocess

        if request["settings"]:  # the error of a failed start may contain a secret
            from kafkatools.core.secrets import remember, secrets_of

            remember(*secrets_of(request["settings"]))
        self.name = name
        self._log_path = log_path
        self._output = b""
        make_private(os.path.dirname(log_path))
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", "kafkatools.sandbox.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(log)
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self.process.stdin as stdin:  # `answer` reports why it ended
            stdin.write(json.dumps(request).encode())

    def answer(self, clock: Clock | None = None, timeout_ms: int | None = None) -> RunInfo | None:
        """Return the next line that the process reports, parsed as JSON. None if none comes within `timeout_ms`;
        without a clock or time-out, wait for one. Raises SandboxError with the process's own reason if it reports an
        error, else with the path of its log if it ended or the line is not JSON."""
        deadline = None if clock is None or timeout_ms is None else clock.now_ms() + timeout_ms
        while b"\n" not in self._output:
            if clock is not None and deadline is not None and not self._has_more(deadline - clock.now_ms()):
                return None
            assert self.process.stdout is not None
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                self.process.wait()
                raise SandboxError(f"{self.name} did not start, see {self._log_path}")
            self._output += chunk
        line, _, self._output = self._output.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            self.kill()
            raise SandboxError(f"{self.name} did not start, see {self._log_path}") from None
        if "error" in message:
            self.process.wait()
            raise SandboxError(f"{self.name} did not start: {message['error']}")
        info: RunInfo = message
        return info

    def _has_more(self, timeout_ms: int) -> bool:
        import select

        assert self.process.stdout is not None
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        return bool(poll.poll(max(0, timeout_ms)))

    def leave(self) -> None:
        """Stop reading the reports of the process; it continues to run."""
        if self.process.stdout is not None:
            self.process.stdout.close()

    def kill(self) -> None:
        self.leave()
        self.process.kill()
        self.process.wait()
