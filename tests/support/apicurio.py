"""A real schema registry for tests: Apicurio Registry in memory, which Maven fetches (140 MB) into the cache of the
tests. It speaks Confluent's API below /apis/ccompat/v7."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator

from .apache_kafka import CACHE
from .ports import free_port
from .waiting import eventually

VERSION = "2.6.13.Final"
PATH = "/apis/ccompat/v7"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def _runner() -> pathlib.Path:
    """The program's jar, fetched at the first use."""
    directory = CACHE / f"apicurio-{VERSION}"
    jar = directory / f"apicurio-registry-app-{VERSION}-runner.jar"
    if not jar.exists():
        directory.mkdir(parents=True, exist_ok=True)
        artifact = f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        subprocess.run(["mvn", "-q", "-B", _COPY, artifact, f"-DoutputDirectory={directory}"], check=True)
        archive = directory / f"apicurio-registry-app-{VERSION}-all.tar.gz"
        with tarfile.open(archive) as files:
            files.extractall(directory, filter="data")
        archive.unlink()
    return jar


@contextlib.contextmanager
def running(directory: pathlib.Path) -> Iterator[str]:
    """A new, empty registry: the URL of its API."""
    port = free_port()
    words = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
    url = f"http://127.0.0.1:{port}{PATH}"
    with open(directory / "registry.log", "wb") as log:
        process = subprocess.Popen(
            [*words, f"-Dquarkus.http.port={port}", "-jar", str(_runner())], stdout=log, stderr=log
        )
        try:
            eventually(lambda: process.poll() is not None or _answers(url))
            assert process.poll() is None, (directory / "registry.log").read_text()
            yield url
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False
