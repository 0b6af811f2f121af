"""A Spark standalone cluster of processes on this machine: a master and workers of one core each."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from types import TracebackType

from support.spark_classes import QUICK, quick_options
from support.waiting import PATIENCE_S

from kafkatools.pipeline.run.worker_python import worker_python

_ADDRESS = re.compile(rb"Starting Spark master at (spark://\S+)")
_WORKER = re.compile(rb"Starting Spark worker (\S+:\d+) ")
_REGISTERED = re.compile(rb"(Successfully registered with master)")
_DEADLINE_S = 300
_CHECKOUT = (pathlib.Path(__file__).parents[2], pathlib.Path(__file__).parents[1])


class SparkCluster:
    """`with SparkCluster(directory) as cluster: cluster.master`. `python` is the directory of another PySpark."""

    def __init__(self, directory: pathlib.Path, workers: int = 2, python: pathlib.Path | None = None) -> None:
        import pyspark

        self.directory = directory
        other = {} if python is None else {"PYTHONPATH": os.pathsep.join(map(str, (python, *_CHECKOUT)))}
        self.java_options = quick_options() if python is None else QUICK
        """The options of its JVMs, for those of executors."""
        self.environ = {
            **os.environ,
            **other,
            "SPARK_HOME": str(pathlib.Path(pyspark.__file__).parent if python is None else python / "pyspark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": self.java_options,
            "PYSPARK_PYTHON": worker_python(None) if python is None else sys.executable,
        }
        """Executors run Python as those of a local session do: it would compile PySpark's archives at each start."""
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> SparkCluster:
        try:
            self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
            self.master = self._said("master", _ADDRESS).decode()
            names = [f"worker{number}" for number in range(self._workers)]
            for name in names:
                self._start_worker(name, self.environ)
            for name in names:
                self._said(name, _REGISTERED)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def worker_address(self, name: str = "worker0") -> str:
        """The host and port of a worker's RPC."""
        return self._said(name, _WORKER).decode()

    @contextlib.contextmanager
    def late_worker(self, environ: Mapping[str, str]) -> Iterator[None]:
        """Another worker, whose executors have these variables of the environment besides."""
        process = self._start_worker("late", {**self.environ, **environ})
        try:
            self._said("late", _REGISTERED)
            yield
        finally:
            process.kill()
            process.wait(PATIENCE_S)

    def stop(self) -> None:
        """Ends all of it."""
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait(PATIENCE_S)

    def _start_worker(self, name: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        words = ("--host", "127.0.0.1", "--cores", "1", "--memory", "640m", "--work-dir", str(self.directory))
        return self._start(name, "org.apache.spark.deploy.worker.Worker", *words, self.master, environ=environ)

    def _start(
        self, name: str, java_class: str, *words: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        command = [f"{self.environ['SPARK_HOME']}/bin/spark-class", java_class, "--webui-port", "0", *words]
        with open(self.directory / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command, env=environ or self.environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._processes.append(process)
        return process

    def _said(self, name: str, pattern: re.Pattern[bytes]) -> bytes:
        """What a process says of itself; it is waited for."""
        end = time.monotonic() + _DEADLINE_S
        while time.monotonic() < end:
            text = (self.directory / f"{name}.log").read_bytes()
            found = pattern.search(text)
            if found is not None:
                return found[1]
            time.sleep(0.1)
        raise AssertionError(f"{name} did not start: {text[-2000:].decode(errors='replace')}")
