"""What the workloads need around them: kt's own command line, the embedded broker, Apache Kafka, kcat, input files."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from tests.support import apache_kafka
from tests.support.ports import free_port

PYTHON = sys.executable
KT = [str(pathlib.Path(PYTHON).parent / "kt")]


def java(tool: str, *args: str) -> list[str]:
    """A real tool as its script starts it, without the script: the JVM flags of a tool, with twice the heap."""
    return [
        apache_kafka.java_executable(), "-Xmx512m", "-XX:+UseG1GC", "-Xshare:auto", "-cp", apache_kafka.jars(),
        apache_kafka.MAIN_CLASSES[tool], *args,
    ]  # fmt: skip


def kcat() -> str | None:
    """kcat's path, None when it is not installed."""
    return shutil.which("kcat")


def lines_file(directory: pathlib.Path, count: int = 1_000_000, size: int = 100) -> pathlib.Path:
    """A file of `count` lines, `size` bytes each without the newline, from a fixed seed."""
    path = directory / f"lines-{count}-{size}.txt"
    if not path.exists():
        alphabet = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
        table = bytes(alphabet[i % 64] for i in range(256))
        source = random.Random(7)
        with path.open("wb") as out:
            for _ in range(count // 1000):
                block = source.randbytes(1000 * size).translate(table)
                out.write(b"".join(block[i : i + size] + b"\n" for i in range(0, len(block), size)))
    return path


@contextlib.contextmanager
def scratch() -> Iterator[pathlib.Path]:
    """A directory that goes away with the benchmark."""
    with tempfile.TemporaryDirectory(prefix="kt-bench-") as directory:
        yield pathlib.Path(directory)


@contextlib.contextmanager
def embedded_broker(directory: pathlib.Path, **settings: str) -> Iterator[str]:
    """A sandbox of its own; gives its bootstrap address."""
    environment = {**os.environ, "KT_HOME": str(directory / "sandbox")}
    port = free_port()
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [*KT, "sandbox", "start", "--port", str(port), *given]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        subprocess.run([*KT, "sandbox", "stop"], env=environment, check=False, capture_output=True)


@contextlib.contextmanager
def real_broker(directory: pathlib.Path, nodes: int = 1) -> Iterator[str]:
    """One Apache Kafka node, or more; gives their bootstrap addresses."""
    cluster = apache_kafka.ApacheKafka(directory / "apache-kafka", nodes, jvm=())
    cluster.start()
    time.sleep(2)
    try:
        yield cluster.bootstrap
    finally:
        cluster.stop()


def create_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """A topic, made with kt."""
    subprocess.run(
        [*KT, "topics", "--create", "--topic", topic, "--partitions", str(partitions), "--bootstrap-server", bootstrap],
        check=True,
        capture_output=True,
    )
