"""`kt` as a process of its own, and a broker that a test can kill and start again."""

from __future__ import annotations

import os
import pathlib
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

from support.embedded import WITHOUT_RETENTION
from support.kt import run_kt
from support.ports import free_port
from support.waiting import PATIENCE_S, eventually

from kafkatools.core import config as tables
from kafkatools.core.broker.node import Node, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import Config
from kafkatools.options import read_properties

KT = (sys.executable, "-m", "kafkatools")
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_S = 120
"""How long a start or a clean stop may take: a matter of how busy the machine is."""


def environment(home: pathlib.Path) -> Mapping[str, str]:
    """The environment of a process: the sandbox off, a home of its own."""
    return {**os.environ, "KT_SANDBOX": "off", "KT_HOME": str(home)}


def start_kt(home: pathlib.Path, *arguments: str, **streams: int) -> subprocess.Popen[bytes]:
    """Starts `kt ARGUMENTS` with pipes on all three streams unless others are given."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen([*KT, *arguments], env=environment(home), **pipes)  # type: ignore[call-overload,no-any-return]


def kt_process(
    home: pathlib.Path, *arguments: str, stdin: bytes = b"", timeout: float = PATIENCE_S
) -> subprocess.CompletedProcess[bytes]:
    """Runs `kt ARGUMENTS` to its end."""
    return subprocess.run(
        [*KT, *arguments], input=stdin, env=environment(home), capture_output=True, timeout=timeout, check=False
    )


def error_lines(stderr: bytes) -> list[str]:
    """The lines of stderr; fails when there is a stack trace among them."""
    text = stderr.decode()
    assert "Traceback" not in text and "internal error" not in text, text
    return text.splitlines()


class BrokerProcess:
    """`kt server-start` on a directory of its own. Settings: Kafka's names."""

    def __init__(
        self, directory: pathlib.Path, settings: Mapping[str, str] | None = None, *format_options: str
    ) -> None:
        port, controller = free_port(), free_port()
        self.directory = directory / "data"
        self._home = directory
        self._file = directory / "server.properties"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": str(self.directory),
            **WITHOUT_RETENTION,
            **(settings or {}),
        }
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = pathlib.Path(properties["log.dirs"])
        self._port = int(properties["listeners"].split(",")[0].rpartition(":")[2])
        self.bootstrap = f"127.0.0.1:{self._port}"
        self._file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        formatted = run_kt("storage", "format", "-t", CLUSTER_ID, "-c", str(self._file), *format_options)
        assert formatted.status == 0, formatted.err
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def child(self) -> subprocess.Popen[bytes]:
        """The process that runs."""
        assert self._child is not None
        return self._child

    def spawn(self) -> None:
        """Starts it."""
        with (self._home / "log").open("ab") as log:
            self._child = subprocess.Popen(
                [*KT, "server-start", str(self._file)], stdout=log, stderr=log, env=environment(self._home)
            )

    def start(self) -> None:
        """Starts it and waits until it listens."""
        self.spawn()
        self.wait()

    def wait(self) -> None:
        """Waits until it listens."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.child.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        log = (self._home / "log").read_text(errors="replace")
        raise AssertionError(f"the broker did not start (exit status {self.child.poll()}): {log[-2000:]}")

    def wait_for_bytes(self, topic: str, least: int) -> None:
        """Until the first segment of a topic's first partition has so many bytes."""
        log = self.directory / f"{topic}-0" / "00000000000000000000.log"
        eventually(lambda: log.exists() and log.stat().st_size >= least)

    def kill(self) -> None:
        """SIGKILL: nothing is written any more."""
        self.child.kill()
        self.child.wait(PATIENCE_S)

    def stop(self) -> None:
        """The clean end, if it runs."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            self._child.wait(START_S)

    def values(self, topic: str) -> list[bytes]:
        """What the topic holds, as the console consumer prints it."""
        ran = kt_process(
            self._home,
            *("console-consumer", "--bootstrap-server", self.bootstrap, "--topic", topic),
            *("--from-beginning", "--exit-at-end"),
        )
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.splitlines()


class BrokerThread(BrokerProcess):
    """The same node on a thread of this process, for tests that only use its address: 10 ms instead of half a second
    of processor time."""

    _node: Node | None = None

    def start(self) -> None:
        """Start the node; it listens when this returns."""
        config = Config(tables.BROKER, read_properties(str(self._file)), allow_unknown=True)
        self._node = start_node(NodeSetup(config, SystemClock()))
        self._thread = threading.Thread(target=self._node.run, name="embedded-broker")
        self._thread.start()

    def stop(self) -> None:
        """The clean end, if it has started."""
        if self._node is not None:
            self._node.request_stop()
            self._thread.join(START_S)
            self._node.close()


class Terminal:
    """A command on a terminal of its own: one stream for what it writes, as a person sees it."""

    def __init__(self, home: pathlib.Path, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        self.child = start_kt(home, *arguments, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.seen = b""

    def type(self, data: bytes) -> None:
        os.write(self._master, data)

    def wait_for(self, text: bytes) -> None:
        """Reads until the text was written."""
        while text not in self.seen:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                data = b""
            assert data, self.seen
            self.seen += data

    def end(self) -> int:
        """The rest of what is written, and the exit status."""
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data
        os.close(self._master)
        return self.child.wait(PATIENCE_S)
