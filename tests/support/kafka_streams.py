"""Applications of Kafka Streams: its jars through Maven, kept beside those of Apache Kafka, and running instances."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import subprocess
import tempfile

from support.waiting import PATIENCE_S

from . import apache_kafka

_LIB = apache_kafka.CACHE / f"kafka-streams-{apache_kafka.VERSION}"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>tests</groupId>
<artifactId>kafka-streams</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>{apache_kafka.VERSION}</version>
<exclusions><exclusion><groupId>org.rocksdb</groupId><artifactId>rocksdbjni</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>"""


def jars() -> str:
    """The class path of Kafka Streams without RocksDB, for stores in memory; fetched once with Maven."""
    if not (_LIB / ".complete").exists():
        _LIB.mkdir(parents=True, exist_ok=True)
        apache_kafka.fetch_jars(_POM, _LIB, "Kafka Streams")
        (_LIB / ".complete").touch()
    return f"{_LIB}/*"


def word_count_classes() -> str:
    """The directory with the compiled WordCount.java; compiled once for each version of the source."""
    source = pathlib.Path(__file__).with_name("WordCount.java")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    target = apache_kafka.CACHE / f"word-count-{digest}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=apache_kafka.CACHE) as made:
            compiler = str(pathlib.Path(apache_kafka.java_executable()).with_name("javac"))
            subprocess.run([compiler, "-cp", jars(), "-d", f"{made}/classes", str(source)], check=True)
            with contextlib.suppress(OSError):  # another run was first
                pathlib.Path(made, "classes").rename(target)
    return str(target)


class WordCount:
    """One instance of WordCount.java, a process with a name of its own."""

    def __init__(self, bootstrap: str, name: str, directory: pathlib.Path, protocol: str = "streams") -> None:
        flags = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", f"{word_count_classes()}:{jars()}")
        state, endpoint = str(directory / name), f"{name}.example:7070"
        words = ("WordCount", bootstrap, "words", state, name, endpoint, protocol)
        self._log = (directory / f"{name}.log").open("ab")
        self._process = subprocess.Popen(
            [apache_kafka.java_executable(), *flags, *words], stdout=self._log, stderr=self._log
        )

    def kill(self) -> None:
        """SIGKILL: the instance does not leave its group."""
        self._process.kill()
        self._process.wait()
        self._log.close()

    def stop(self) -> None:
        """SIGTERM: the instance leaves its group."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
        self._log.close()
