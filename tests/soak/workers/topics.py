"""Creates and deletes topics and writes down what was confirmed. argv: bootstrap, journal, name, run."""

from __future__ import annotations

import random
import sys
import time

from journal import Journal, told_to_stop

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewTopic, create_topics, delete_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError

bootstrap, path, name, run = sys.argv[1:]
journal = Journal(path)


def work(admin: AdminClient, source: random.Random, topics: list[str], number: int) -> None:
    """One topic more, or one less."""
    if len(topics) < 3 or source.random() < 0.5:
        topic = f"{name}-{run}-{number}"
        journal.write("creating", name, run, topic)
        configs = {"retention.ms": str(1000 + number)}
        if create_topics(admin, [NewTopic(topic, 1, 1, configs=configs)])[topic].error is None:
            journal.write("created", name, run, topic)
            topics.append(topic)
    else:
        topic = topics.pop(source.randrange(len(topics)))
        journal.write("deleting", name, run, topic)
        if delete_topics(admin, [topic])[topic].error is None:
            journal.write("deleted", name, run, topic)


def main() -> None:
    stopping = told_to_stop()
    source = random.Random(f"{name} {run}")
    topics: list[str] = []
    number = 0
    with AdminClient(bootstrap, {"reconnect.backoff.max.ms": "200"}, SystemClock()) as admin:
        while not stopping:
            try:
                work(admin, source, topics, number)
            except KafkaError as error:
                print(f"{name} {run}: {error!r}", file=sys.stderr, flush=True)
            number += 1
            time.sleep(0.15)


main()
