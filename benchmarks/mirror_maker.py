"""MirrorMaker 2 of Apache Kafka as a peer: copy the records of one topic to another cluster, then end.

`python -m benchmarks.mirror_maker SOURCE TARGET TOPIC RECORDS ALIAS TIMES CODEC` starts it as connect-mirror-maker.sh
does, with the same class and heap, until the target has all records. MirrorMaker never ends by itself, so this looks at
the end offsets five times a second and stops it. The target topic is `ALIAS.TOPIC`; each run needs another alias, since
MirrorMaker keeps its positions by alias. TIMES gets the seconds from the start of the process to the first and to the
last record.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.offsets import LATEST, list_offsets
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.clock import SystemClock
from tests.support import apache_kafka

LIMIT_S = 600
_POLL_S = 0.2
_LOG4J = "2.25.4"  # of Apache Kafka 4.3.1
_SETTINGS = """\
clusters={alias},target
{alias}.bootstrap.servers={source}
target.bootstrap.servers={target}
{alias}->target.enabled=true
{alias}->target.topics={topic}
{alias}->target.emit.heartbeats.enabled=false
target->{alias}.enabled=false
target->{alias}.emit.heartbeats.enabled=false
tasks.max=4
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
target.producer.compression.type={codec}
sync.topic.acls.enabled=false
"""


def jars() -> str:
    """The class path of MirrorMaker, fetched once by Maven."""
    lib = apache_kafka.CACHE / f"connect-mirror-{apache_kafka.VERSION}-log4j-{_LOG4J}"
    if not (lib / ".complete").exists():
        lib.mkdir(parents=True, exist_ok=True)
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            "</dependency>"
            for group, artifact, version in (
                ("org.apache.kafka", "connect-mirror", apache_kafka.VERSION),
                ("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J),  # its log, errors only
            )
        )
        pom = (
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>benchmarks'
            f"</groupId><artifactId>mirror</artifactId><version>1</version><dependencies>{dependencies}</dependencies>"
            "</project>"
        )
        apache_kafka.fetch_jars(pom, lib, "MirrorMaker", "-DincludeScope=runtime")
        (lib / ".complete").touch()
    return f"{lib}/*"


def work(source: str, target: str, topic: str, records: int, alias: str, times: pathlib.Path, codec: str) -> list[str]:
    """The command that copies a topic. Fetches the jars first."""
    jars()
    return [
        sys.executable, "-m", "benchmarks.mirror_maker", source, target, topic, str(records), alias, str(times), codec,
    ]  # fmt: skip


def main(source: str, target: str, topic: str, records: int, alias: str, times: str, codec: str) -> None:
    """Run MirrorMaker until the target has all records."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kt-mirror-") as directory:
        settings = pathlib.Path(directory, "mm2.properties")
        settings.write_text(_SETTINGS.format(alias=alias, source=source, target=target, topic=topic, codec=codec))
        command = [
            apache_kafka.java_executable(), "-Xms256m", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-cp",
            jars(), "org.apache.kafka.connect.mirror.MirrorMaker", str(settings),
        ]  # fmt: skip
        with open(os.environ.get("KT_BENCH_MIRROR_LOG", os.devnull), "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            first, last = _wait(process, target, f"{alias}.{topic}", records, started)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    pathlib.Path(times).write_text(json.dumps({"first_s": first, "last_s": last}))


def _wait(
    process: subprocess.Popen[bytes], target: str, topic: str, records: int, started: float
) -> tuple[float, float]:
    first = None
    with AdminClient(target, {}, SystemClock()) as admin:
        while process.poll() is None and time.monotonic() - started < LIMIT_S:
            count = _count(admin, topic)
            now = time.monotonic() - started
            first = now if count and first is None else first
            if count >= records and first is not None:
                return first, now
            time.sleep(_POLL_S)
    raise SystemExit(
        f"MirrorMaker ended with {process.poll()}, or {LIMIT_S} s are over; KT_BENCH_MIRROR_LOG has its log"
    )


def _count(admin: AdminClient, topic: str) -> int:
    described = describe_topics(admin, [topic])[topic]
    if described.error is not None:
        return 0
    keys = [(topic, part.partition) for part in described.partitions]
    return sum(max(found.offset, 0) for found in list_offsets(admin, dict.fromkeys(keys, LATEST)).values())


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), *sys.argv[5:])
