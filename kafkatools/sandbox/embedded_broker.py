"""EmbeddedBroker: the broker of the sandbox for one program, in a process of its own; for tests.

Rules: loopback only, a free port, a temporary directory that goes with it. The process ends with the program that
started it, also when that is killed, and then removes the directory itself: it looks once a second whether its parent
is still there.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from subprocess import TimeoutExpired

from kafkatools.core.config.given import settings_text
from kafkatools.core.errors import IllegalState
from kafkatools.sandbox.single import SandboxOptions, spawn
from kafkatools.sandbox.spawn import SandboxError

_STOP_TIMEOUT_S = 30.0


class EmbeddedBroker:
    """A Kafka broker for tests, without Docker or a JVM: `with EmbeddedBroker() as broker: ... broker.bootstrap`.

    `settings`: settings of the broker by Kafka's names (docs/config/broker.md), or as keyword arguments with
    underscores; `port`: 0 takes a free one; `directory`: where to keep the data, which then stays; without one it lies
    in a temporary directory and is removed with the broker. Nothing is started before `start` or `with`. Any client
    that speaks Kafka's protocol may use it.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        port: int = 0,
        directory: str | os.PathLike[str] | None = None,
        **named: object,
    ) -> None:
        self._settings = settings_text("broker", settings, named)
        self._port = port
        self._directory = None if directory is None else os.path.abspath(directory)
        self._home: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._bootstrap = ""

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """Its address, `127.0.0.1:port`. Raises IllegalState before the first start."""
        if not self._bootstrap:
            raise IllegalState("The embedded broker was not started: use it in a with statement, or call start()")
        return self._bootstrap

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process. Raises IllegalState when it does not run."""
        if self._process is None or not self.is_running:
            raise IllegalState("The embedded broker does not run")
        return self._process.pid

    def start(self) -> None:
        """Starts it, in less than a second, and returns when it takes requests. After `kill` it is started
        on the same port with the data it had. Raises SandboxError, with the reason, and ConfigError."""
        if self.is_running:
            return
        if self._home is None:
            self._home = tempfile.mkdtemp(prefix="kafkatools-broker-")
        directory = self._directory or os.path.join(self._home, "data")
        options = SandboxOptions(self._port, directory, self._settings, 0, os.getpid(), self._home)
        os.makedirs(os.path.join(self._home, "sandbox"), mode=0o700, exist_ok=True)
        try:
            self._process, info = spawn(self._home, options)
        except BaseException:
            self._remove()
            raise
        self._bootstrap = info.bootstrap
        self._port = int(info.bootstrap.rpartition(":")[2])

    def kill(self) -> None:
        """Ends it as kill -9 does: nothing is flushed or closed. `start` brings it back with its data.

        While it is down nobody but `close` removes its temporary directory.
        """
        if self._process is not None and self.is_running:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Stops it cleanly and removes its temporary directory. Safe to call again."""
        process = self._process
        if process is not None and self.is_running:
            process.send_signal(signal.SIGTERM)
            self._wait(process)
        self._process = None
        self._remove()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(_STOP_TIMEOUT_S)
        except BaseException as error:
            process.kill()
            process.wait()
            if isinstance(error, TimeoutExpired):
                self._remove()
                raise SandboxError(f"The embedded broker did not stop within {_STOP_TIMEOUT_S:.0f} s") from None
            raise

    def _remove(self) -> None:
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None
