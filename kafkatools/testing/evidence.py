"""What a failed test left in Kafka: a text for the report, and copies of the logs.

Rules: reading takes at most a few seconds, whatever state the broker is in. Nothing here raises: an error becomes a
line, since it must not hide the failure of the test.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkatools.core.clock import SystemClock
from kafkatools.core.control_characters import visible
from kafkatools.core.errors import KafkaError
from kafkatools.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kafkatools.core.consumer.consumer import Consumer
    from kafkatools.core.consumer.consumer_records import ConsumerRecord
    from kafkatools.testing.kafka import Kafka

_Offsets = dict[TopicPartition, int]
_READ_MS = 3000
_POLL_MS = 200
_LONGEST_CELL = 120
_MOST_TOPICS = 20


class Evidence:
    """The topics of a test: `created`, those that fixtures made for it, and with an embedded Kafka every other topic
    with records since `since_ms` (epoch milliseconds)."""

    def __init__(self, kafka: Kafka, created: Iterable[str], since_ms: int) -> None:
        self._kafka = kafka
        self._created = [str(name) for name in created]
        self._since_ms = since_ms
        self.topics: list[str] = []

    def text(self, most_records: int) -> str:
        """Return a description of the topics with the last `most_records` records of each; empty without topics. An
        error becomes a line."""
        lines: list[str] = []
        try:
            self._kafka.restore()
            for topic, first_offsets in self._find():
                self.topics.append(topic)
                lines += self._describe(topic, first_offsets, most_records)
                if len(self.topics) == _MOST_TOPICS:
                    lines.append(f"further topics are left out after {_MOST_TOPICS}")
                    break
        except (KafkaError, OSError) as error:
            lines.append(f"the topics could not be read: {visible(str(error))}")
        return "\n".join([f"Kafka at {self._kafka.bootstrap_servers}", *lines]) if lines else ""

    def _consumer(self) -> Consumer:
        return self._kafka.consumer(default_api_timeout_ms=_READ_MS, request_timeout_ms=_READ_MS)

    def _find(self) -> Iterator[tuple[str, _Offsets]]:
        """Yield each topic of the test with the offsets of its first records: in a topic that existed before, the
        first one since the test began."""
        with self._consumer() as consumer:
            existing = consumer.list_topics(_READ_MS)
            for name in self._created:
                if name in existing:
                    yield name, consumer.beginning_offsets((name, part) for part in existing[name])
            if not self._kafka.is_embedded:
                return
            for name in sorted(set(existing) - set(self._created)):
                if name.startswith("__"):
                    continue
                times = {TopicPartition(name, part): self._since_ms for part in existing[name]}
                found = consumer.offsets_for_times(times)
                if first_offsets := {part: at.offset for part, at in found.items() if at is not None}:
                    yield name, first_offsets

    def _describe(self, topic: str, first_offsets: _Offsets, most: int) -> list[str]:
        with self._consumer() as consumer:
            ends = consumer.end_offsets(first_offsets)
            starts = {part: max(first, ends[part] - most) for part, first in first_offsets.items()}
            records = _read(consumer, starts, ends) if most else []
        records.sort(key=lambda record: (record.timestamp, record.partition, record.offset))
        total = sum(ends[part] - first for part, first in first_offsets.items())
        shown = records[-most:] if most else []
        return [f"{topic}: {_amount(total, len(records), len(shown))}", *map(_line, shown)]

    def keep(self, directory: str, test: str) -> str:
        """Copy the logs of the topics to `directory/TEST/` and return a line about it; empty when there is nothing to
        copy. Replaces an older copy of the same test. An error becomes the line."""
        place = os.path.join(directory, re.sub(r"[^A-Za-z0-9._-]+", "-", test).strip("-"))
        partial = f"{place}.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)
            if not self._copy_logs(partial):
                return ""
            shutil.rmtree(place, ignore_errors=True)
            os.rename(partial, place)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            return f"the logs could not be kept: {error}"
        return f"logs kept in {place}"

    def _copy_logs(self, target: str) -> int:
        """Copy the logs of all nodes, those of a cluster below `node-1` and so on; return the number of partitions."""
        count = 0
        sources = self._kafka.data_directories()
        for number, source in enumerate(sources, 1):
            below = target if len(sources) == 1 else os.path.join(target, f"node-{number}")
            for name in sorted(os.listdir(source)):
                if name.rpartition("-")[0] in self.topics:
                    shutil.copytree(os.path.join(source, name), os.path.join(below, name))
                    count += 1
        return count


def _read(consumer: Consumer, starts: _Offsets, ends: _Offsets) -> list[ConsumerRecord]:
    """Return the records from `starts` to `ends`, as many as arrive in time."""
    consumer.assign([part for part in starts if starts[part] < ends[part]])
    for part in consumer.assignment():
        consumer.seek(part, starts[part])
    clock = SystemClock()
    deadline = clock.now_ms() + _READ_MS
    records: list[ConsumerRecord] = []
    while not all(consumer.has_read_to(part, ends[part]) for part in consumer.assignment()):
        if clock.now_ms() > deadline:
            break
        records += consumer.poll(_POLL_MS)
    return records


def _amount(total: int, read: int, shown: int) -> str:
    """Say what of a topic is shown. Offsets of transaction markers count as well, so the total is exact only when all
    records were read."""
    if shown == read == total or total == 0:
        return f"{total} record{'' if total == 1 else 's'}"
    return f"{total} offsets, the last {shown} record{'' if shown == 1 else 's'}" if shown else f"{total} offsets"


def _line(record: ConsumerRecord) -> str:
    cells = [f"  {record.partition}@{record.offset}"]
    if record.key is not None:
        cells.append(f"key={_cell(record.key)}")
    cells.append("null" if record.value is None else _cell(record.value))
    cells += [f"{visible(name)}={'null' if value is None else _cell(value)}" for name, value in record.headers]
    return " ".join(cells)


def _cell(content: bytes) -> str:
    """Return text as it is, other bytes as a literal of Python, cut at a length."""
    try:
        text = visible(content.decode())
    except UnicodeDecodeError:
        text = repr(content)
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}... ({len(content)} bytes)"
