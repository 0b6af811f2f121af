"""Apache Kafka's console consumer, read to the end of a topic. It has no option for that, and a time-out ends it too
early where a JVM gets little of the processor: its committed offsets say when it has read all."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
import uuid
from collections.abc import Callable

from support.apache_kafka import ApacheKafka, command
from support.waiting import PATIENCE_S, eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.offsets import LATEST, READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.clock import SystemClock

_COMMITS = ("--command-property", "auto.commit.interval.ms=100")


def read_to_end(cluster: ApacheKafka, topic: str, *options: str, isolation_level: str = "read_uncommitted") -> str:
    """What the console consumer prints of all records that a topic has now."""
    group = f"reads-{uuid.uuid4().hex[:8]}"
    words = ("--topic", topic, "--group", group, "--from-beginning", "--isolation-level", isolation_level)
    level = READ_COMMITTED if isolation_level == "read_committed" else READ_UNCOMMITTED
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        places = [(topic, part.partition) for part in describe_topics(admin, [topic])[topic].partitions]
        ends = {
            key: found.offset
            for key, found in list_offsets(admin, dict.fromkeys(places, LATEST), isolation_level=level).items()
        }

        def has_read_all(_: str) -> bool:
            committed = fetch_offsets(admin, [group])[group].offsets
            return {key: found.offset for key, found in committed.items()} == ends

        return read_until(cluster, has_read_all, *words, *_COMMITS, *options)


def read_until(cluster: ApacheKafka, has_all: Callable[[str], bool], *words: str) -> str:
    """What the console consumer prints until the condition holds for what it has printed."""
    arguments = command("console-consumer", "--bootstrap-server", cluster.bootstrap, *words)
    with tempfile.NamedTemporaryFile() as out:
        printed = pathlib.Path(out.name)
        process = subprocess.Popen(arguments, stdout=out, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: process.poll() is not None or has_all(printed.read_text(errors="replace")))
            assert process.returncode is None, printed.read_text()
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
        return printed.read_text()
