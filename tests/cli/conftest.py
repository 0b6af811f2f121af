"""An embedded broker for the tests of the commands, in a process of its own."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from support.kt import run_kt

StartBroker = Callable[..., str]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """start_broker(settings={...}) -> "127.0.0.1:PORT" of a fresh embedded broker; stopped at the end of the test.

    With KT_TEST_BOOTSTRAP=host:port that broker is used instead, to compare with another implementation.
    """
    children: list[subprocess.Popen[bytes]] = []

    def start(settings: dict[str, str] | None = None) -> str:
        given = os.environ.get("KT_TEST_BOOTSTRAP")
        if given:
            return given
        home = tmp_path_factory.mktemp("broker")
        port, controller = _free_port(), _free_port()
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": str(home / "data"),
            **(settings or {}),
        }
        path = home / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        formatted = run_kt("storage", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(path))
        assert formatted.status == 0, formatted.err
        with (home / "log").open("wb") as log:
            children.append(
                subprocess.Popen(
                    [sys.executable, "-m", "kafkatools", "server-start", str(path)], stdout=log, stderr=log
                )
            )
        _wait_for(port, children[-1], home / "log")
        return f"127.0.0.1:{port}"

    yield start
    for child in children:
        child.terminate()
    for child in children:
        child.wait(30)


def _wait_for(port: int, child: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"the embedded broker did not start: {log.read_text(errors='replace')[-2000:]}")
