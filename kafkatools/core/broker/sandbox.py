"""The sandbox: a broker in the background of this machine, started on first use, stopped when nobody has used it for
a while.

Rules: loopback only; everything it keeps is below `<home>/sandbox`, directories 0700 and files 0600; one sandbox per
home (`run.json`, locked by it while it lives); two starts at once meet at `start.lock` and the second finds the first
one's broker. The process is this interpreter, detached, with its messages in `sandbox.log`.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.run_files import read_run_file
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    import subprocess

DEFAULT_PORT = 29092
DEFAULT_IDLE_MS = 30 * 60_000
HOST = "127.0.0.1"
STOP_TIMEOUT_MS = 30_000


class SandboxError(KafkaError):
    """The sandbox could not be started or stopped."""


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A running sandbox; `started` says that this call started it."""

    bootstrap: str
    pid: int
    started: bool
    directory: str
    idle_ms: int


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """How to start one. Port 0 takes a free one; None the usual one, or a free one if that is taken.

    `parent`: the process without which it is not to live; `remove`: a directory that it removes in the end.
    """

    port: int | None = None
    directory: str | None = None
    settings: Mapping[str, str] | None = None
    idle_ms: int = DEFAULT_IDLE_MS
    parent: int | None = None
    remove: str | None = None


def folder(home: str) -> str:
    """Where a sandbox keeps its files."""
    return os.path.join(os.fspath(home), "sandbox")


def status(home: str) -> SandboxInfo | None:
    """The running sandbox of a home, None when none runs."""
    found = read_run_file(os.path.join(folder(home), "run.json"))
    return None if found is None else _info(found, started=False)


def _info(found: Mapping[str, Any], *, started: bool) -> SandboxInfo:
    return SandboxInfo(found["bootstrap"], found["pid"], started, found["directory"], found["idle_ms"])


def ensure_started(
    home: str, announce: Callable[[str], None] | None = None, options: SandboxOptions | None = None
) -> SandboxInfo:
    """The sandbox of `home`, started when it does not run; then `announce` gets one line. Raises SandboxError."""
    home = os.fspath(home)
    running = status(home)
    if running is not None:
        return running
    os.makedirs(folder(home), mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(folder(home), "start.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = status(home)
        if running is not None:
            return running
        process, started = spawn(home, options or SandboxOptions())
        process.returncode = 0  # it lives on without us: nobody is to wait for it
    finally:
        os.close(lock)
    if announce is not None:
        announce(f"kt: started a sandbox broker on {started.bootstrap} (stop it with: kt sandbox stop)")
    return started


def spawn(home: str, options: SandboxOptions) -> tuple[subprocess.Popen[bytes], SandboxInfo]:
    """Start the process and wait for the line in which it says that it listens. Raises SandboxError with the reason
    when it does not."""
    import subprocess
    import sys

    request = {
        "home": home,
        "port": options.port,
        "directory": os.path.abspath(options.directory or os.path.join(folder(home), "data")),
        "settings": dict(options.settings or {}),
        "idle_ms": options.idle_ms,
        "parent": options.parent,
        "remove": options.remove,
    }
    log_path = os.path.join(folder(home), "sandbox.log")
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "kafkatools.core.broker.sandbox_process", json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(log)
    assert process.stdout is not None
    with process.stdout as pipe:
        line = pipe.readline()
    try:
        answer = json.loads(line)
    except ValueError:
        process.wait()
        raise SandboxError(f"the sandbox did not start, see {log_path}") from None
    if "error" in answer:
        process.wait()
        raise SandboxError(f"the sandbox did not start: {answer['error']}")
    return process, _info(answer, started=True)


def stop(home: str, sleep_ms: Callable[[int], None]) -> SandboxInfo | None:
    """Ask the sandbox to stop and wait until it has; None when none runs. Raises SandboxError when it does not stop."""
    import signal

    running = status(home)
    if running is None:
        return None
    os.kill(running.pid, signal.SIGTERM)
    for _ in range(STOP_TIMEOUT_MS // 20):
        if status(home) is None:
            return running
        sleep_ms(20)
    raise SandboxError(f"the sandbox (pid {running.pid}) did not stop within {STOP_TIMEOUT_MS // 1000} s")


def bind_ports(port: int | None) -> Sequence[int]:
    """The ports to try, in order."""
    return (DEFAULT_PORT, 0) if port is None else (port,)
