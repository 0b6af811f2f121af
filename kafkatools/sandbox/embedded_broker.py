"""EmbeddedBroker: a broker for the tests of one program, in a process of its own.

Rules: it listens on loopback, by default on a free port with a temporary directory. Its process checks once a second
whether the program that started it is still there. When the program has ended, even by kill -9, the process ends and
removes the temporary directory.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Self

from kafkatools.core.closing import Closing
from kafkatools.core.config.client_settings import settings_text
from kafkatools.core.errors import IllegalState
from kafkatools.sandbox.security import Security, SecurityOptions, prepare, settings_of, write_client_files
from kafkatools.sandbox.single import SandboxOptions, spawn
from kafkatools.sandbox.spawn import SandboxError, folder

if TYPE_CHECKING:
    from kafkatools.core.broker.telemetry.metrics_file import Push
    from kafkatools.sandbox.faults.control import Faults

_STOP_TIMEOUT_S = 30.0
_METRICS_FILE = "client.metrics.file"
_NOT_STARTED = "The embedded broker was not started: use it in a with statement, or call start()"


class EmbeddedBroker(Closing):
    """A Kafka broker for tests, without Docker or a JVM: `with EmbeddedBroker() as broker: ... broker.bootstrap`.

    `settings` are broker settings by Kafka's names (docs/config/broker.md), or keyword arguments with underscores; a
    wrong one raises ConfigError. Port 0 chooses a free port. `directory` keeps the data; without it the data is in a
    temporary directory, which is removed with the broker. `security` gives its listener TLS, SASL and ACLs
    (`SecurityOptions`), and `client_settings` are then those of its clients. With `client_metrics` the broker takes the
    metrics that clients push (KIP-714). Nothing starts before `start` or `with`. Any client that speaks Kafka's
    protocol may connect.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        port: int = 0,
        directory: str | os.PathLike[str] | None = None,
        security: SecurityOptions | None = None,
        client_metrics: bool = False,
        **keyword_settings: object,
    ) -> None:
        self._settings = settings_text("broker", settings, keyword_settings)
        self._port = port
        self._directory = None if directory is None else os.path.abspath(directory)
        self._requested = security or SecurityOptions()
        self._takes_metrics = client_metrics
        self._security: Security | None = None
        self._home: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._bootstrap = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    @property
    def bootstrap(self) -> str:
        """The broker's address, `127.0.0.1:port`. Raises IllegalState before the first start."""
        if not self._bootstrap:
            raise IllegalState(_NOT_STARTED)
        return self._bootstrap

    @property
    def directory(self) -> str:
        """The data directory, with a folder for each partition. Raises IllegalState before the first start."""
        if self._home is None:
            raise IllegalState(_NOT_STARTED)
        return self._directory or os.path.join(self._home, "data")

    @property
    def is_running(self) -> bool:
        """Return whether the broker's process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The broker's process id. Raises IllegalState when it is not running."""
        if self._process is None or not self.is_running:
            raise IllegalState("The embedded broker does not run")
        return self._process.pid

    @property
    def faults(self) -> Faults:
        """The faults of the broker: `with broker.faults.add("delay", delay_ms=200): ...`. Raises IllegalState before
        the first start."""
        from kafkatools.sandbox.faults.control import Faults, NodeProcess

        if self._home is None:
            raise IllegalState(_NOT_STARTED)
        directory = folder(self._home)
        return Faults(lambda: {1: NodeProcess(directory, self.pid if self.is_running else None)})

    def start(self) -> None:
        """Start the broker and return when it accepts requests, usually in less than a second; does nothing when it is
        running. After `kill` it starts on the same port with its data. Raises SandboxError with the reason."""
        if self.is_running:
            return
        is_new = self._home is None
        if self._home is None:
            self._home = tempfile.mkdtemp(prefix="kafkatools-broker-")
        os.makedirs(os.path.join(self._home, "sandbox"), mode=0o700, exist_ok=True)
        try:
            self._security = self._security or prepare(self._home, self._requested, is_cluster=False)
            if self._takes_metrics:
                self._settings.setdefault(_METRICS_FILE, os.path.join(folder(self._home), "client-metrics.jsonl"))
            options = SandboxOptions(
                self._port, self.directory, self._settings, 0, os.getpid(), self._home, self._security
            )
            self._process, info = spawn(self._home, options)
        except BaseException:
            if is_new:
                self._remove()
            raise
        self._bootstrap = info.bootstrap
        self._port = int(info.bootstrap.rpartition(":")[2])
        if self._security is not None:
            write_client_files(self._security, self._bootstrap)

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """The settings of a client, with bootstrap.servers, and with `security` those of TLS and SASL for a user,
        by default the first one. Raises IllegalState before the first start, ValueError for an unknown user."""
        return {"bootstrap.servers": self.bootstrap, **settings_of(self._security, user)}

    def client_metrics(self) -> list[Push]:
        """The metrics that clients have pushed so far, the oldest push first. A resource of `kt client-metrics`, or of
        `Admin`, selects metrics and clients. Raises IllegalState unless the broker was made with `client_metrics`."""
        path = self._settings.get(_METRICS_FILE)
        if path is None:
            raise IllegalState("The embedded broker takes no metrics: make it with client_metrics=True")
        from kafkatools.core.broker.telemetry.metrics_file import read_pushes

        return list(read_pushes(path))

    def kill(self) -> None:
        """Kill the broker as kill -9 does, without flushing or closing files; does nothing when it is not running.
        `start` restarts it with its data. While it is down only `close` removes its temporary directory."""
        if self._process is not None and self.is_running:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Stop the broker cleanly and remove its temporary directory; does nothing when called again. If the broker
        does not stop within 30 s it is killed, and SandboxError raised."""
        process = self._process
        if process is not None and self.is_running:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except BaseException as error:
                process.kill()
                process.wait()
                if isinstance(error, TimeoutExpired):
                    self._remove()
                    raise SandboxError(
                        f"The embedded broker did not stop within {_STOP_TIMEOUT_S:.0f} s and was killed"
                    ) from None
                raise
        self._process = None
        self._remove()

    def _remove(self) -> None:
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None
