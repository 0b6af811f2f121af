"""A member of a group that writes down what it is given, what it reads and what it has committed.

argv: bootstrap, journal, name, run, topic, group, protocol (classic, consumer)."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from functools import partial

from journal import Journal, after_contact, told_to_stop

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.group_subscription import RebalanceListener
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError

bootstrap, path, name, run, topic, group, protocol = sys.argv[1:]
journal = Journal(path)
settings = {
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "max.poll.records": "300",
    "reconnect.backoff.max.ms": "200",
    "request.timeout.ms": "15000",
    "group.protocol": protocol,
}
if protocol == "classic":
    settings |= {"session.timeout.ms": "2000", "heartbeat.interval.ms": "300"}


class Told(RebalanceListener):
    """Forgets what is not committed of partitions that go."""

    def __init__(self, ends: dict[int, int]) -> None:
        self._ends = ends

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for part in partitions:
            journal.write("assigned", name, run, part.partition, 0)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for part in partitions:
            self._ends.pop(part.partition, None)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.on_partitions_revoked(partitions)


def main() -> None:
    stopping = told_to_stop()
    source = random.Random(f"{name} {run}")
    ends: dict[int, int] = {}
    with Consumer(Config(CONSUMER, settings)) as consumer:
        consumer.subscribe([topic], Told(ends))
        while not stopping:
            read: dict[int, list[int]] = {}
            for record in after_contact(partial(consumer.poll, 100)):
                read.setdefault(record.partition, []).append(record.offset)
            for partition, offsets in read.items():
                assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), offsets
                journal.write("read", name, run, partition, offsets[0], offsets[-1] + 1)
                ends[partition] = offsets[-1] + 1
            if ends and (not read or source.random() < 0.6):
                try_commit(consumer, ends)


def try_commit(consumer: Consumer, ends: dict[int, int]) -> None:
    """Commits; a member that lost its place says so and goes on."""
    wanted = dict(ends)
    try:
        consumer.commit_sync({(topic, partition): end for partition, end in wanted.items()})
    except KafkaError as error:
        print(f"{name} {run}: {error!r}", file=sys.stderr, flush=True)
        return
    for partition, end in wanted.items():
        journal.write("committed", name, run, partition, end)
    ends.clear()


main()
