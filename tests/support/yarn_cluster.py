"""Apache Hadoop's YARN on this machine: its MiniYARNCluster, a real ResourceManager and NodeManager in one JVM.

Maven fetches it (65 MB) into the cache of the tests; the rest of Hadoop are the client's jars that PySpark brings.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator

import pyspark

from .apache_kafka import CACHE, fetch_jars, java_executable
from .waiting import PATIENCE_S, eventually

VERSION = "3.5.0"
_JARS = (
    ("org.apache.hadoop", "hadoop-client-minicluster", VERSION),
    ("org.junit.jupiter", "junit-jupiter-api", "5.11.4"),
    ("org.junit.platform", "junit-platform-commons", "1.11.4"),
    ("org.opentest4j", "opentest4j", "1.3.0"),
    ("org.bouncycastle", "bcprov-jdk18on", "1.78.1"),
    ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    ("org.bouncycastle", "bcutil-jdk18on", "1.78.1"),
)
_SOURCE = pathlib.Path(__file__).with_name("MiniYarn.java")


def _jars() -> pathlib.Path:
    """The directory of the jars, fetched at the first use. Raises Unavailable."""
    target = CACHE / f"yarn-{VERSION}"
    if not target.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(prefix="yarn-", dir=CACHE))
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
            for group, name, version in _JARS
        )
        pom = (
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>tests</groupId><artifactId>yarn</artifactId><version>1</version>"
            f"<dependencies>{dependencies}</dependencies></project>"
        )
        fetch_jars(pom, made, "Hadoop's YARN")
        made.rename(target)
    return target


@contextlib.contextmanager
def yarn_cluster(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """Start a cluster of one node; yield the directory for HADOOP_CONF_DIR. Raises Unavailable."""
    client = pathlib.Path(pyspark.__file__).parent / "jars"
    class_path = os.pathsep.join((f"{_jars()}/*", f"{client}/*"))
    command = [java_executable(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx400m", "-cp", class_path]
    with open(directory / "yarn.log", "wb") as log:
        process = subprocess.Popen(
            [*command, str(_SOURCE), str(directory)], cwd=directory, stdin=subprocess.PIPE, stdout=log, stderr=log
        )
    assert process.stdin is not None
    try:
        eventually(lambda: process.poll() is not None or (directory / "yarn-site.xml").exists(), 300)
        assert process.poll() is None, (directory / "yarn.log").read_text()[-2000:]
        yield directory
    finally:
        process.stdin.close()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()
