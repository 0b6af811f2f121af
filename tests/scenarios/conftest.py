"""A broker as a process of its own: `kt sandbox` in a directory of the test."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support.embedded import WITHOUT_RETENTION
from support.ports import free_port
from support.waiting import PATIENCE_S

import kafkatools


class BrokerProcess:
    """A sandbox whose home and data lie in `home`; start, stop and kill it."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.directory = home / "data"
        self.bootstrap = ""
        self.pid = 0
        self.port = free_port()

    def kt(self, *args: str, stdin: bytes = b"", timeout: float = PATIENCE_S) -> subprocess.CompletedProcess[bytes]:
        """Run `kt` with this home."""
        return subprocess.run(
            [sys.executable, "-m", "kafkatools", *args],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            env={**os.environ, "KT_HOME": str(self.home)},
            check=False,
        )

    def start(self, **settings: str) -> None:
        """Start it, each time on the same port."""
        wanted = {**WITHOUT_RETENTION, **{name.replace("_", "."): value for name, value in settings.items()}}
        chosen = [word for name, value in wanted.items() for word in ("--set", f"{name}={value}")]
        done = self.kt("sandbox", "start", "--port", str(self.port), "--dir", str(self.directory), "--json", *chosen)
        assert done.returncode == 0, done.stderr.decode()
        found = json.loads(done.stdout)
        self.bootstrap, self.pid = found["bootstrap"], found["pid"]
        self.port = int(self.bootstrap.rpartition(":")[2])

    def kill(self) -> None:
        """kill -9, and wait until its lock is gone."""
        os.kill(self.pid, signal.SIGKILL)
        while self.kt("sandbox", "status").returncode == 0:
            pass

    def stop(self) -> None:
        """The clean stop."""
        assert self.kt("sandbox", "stop").returncode == 0


@pytest.fixture(scope="session")
def broker_process() -> type[BrokerProcess]:
    """For fixtures that outlive a test: a broker of their own, to be started and stopped by them."""
    return BrokerProcess


@pytest.fixture
def make_broker(tmp_path: pathlib.Path) -> Iterator[Callable[[], BrokerProcess]]:
    """Brokers of a test, not yet started; stopped at the end."""
    made: list[BrokerProcess] = []

    def make() -> BrokerProcess:
        made.append(BrokerProcess(tmp_path / f"home{len(made)}"))
        return made[-1]

    yield make
    for broker in made:
        broker.stop()


@pytest.fixture
def broker(make_broker: Callable[[], BrokerProcess]) -> BrokerProcess:
    """A running broker."""
    made = make_broker()
    made.start()
    return made


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[kafkatools.EmbeddedCluster]:
    """Three embedded nodes with the settings of the module."""
    with kafkatools.EmbeddedCluster(nodes=3, settings=request.module.SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: kafkatools.EmbeddedCluster) -> Iterator[kafkatools.Admin]:
    """Asks them."""
    with kafkatools.Admin(bootstrap_servers=cluster.bootstrap) as admin:
        yield admin
