"""Our consumer as one member of a group, until it is told to stop (SIGTERM): says as JSON lines what it is given, what
it loses and what it reads. argv: bootstrap, topic, group, then settings as name=value."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.group_subscription import RebalanceListener
from kafkatools.core.consumer.subscription import TopicPartition


def say(name: str, **values: object) -> None:
    print(json.dumps({"name": name, **values}), flush=True)


class Told(RebalanceListener):
    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        say("partitions_assigned", partitions=[part._asdict() for part in partitions])

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        say("partitions_revoked", partitions=[part._asdict() for part in partitions])

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        say("partitions_lost", partitions=[part._asdict() for part in partitions])


bootstrap, topic, group, *settings = sys.argv[1:]
stopping: list[int] = []
signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
given = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
given |= dict(setting.split("=", 1) for setting in settings)
with Consumer(Config(CONSUMER, given)) as consumer:
    consumer.subscribe([topic], Told())
    while not stopping:
        for record in consumer.poll(50):
            where = {"topic": topic, "partition": record.partition, "count": 1, "minOffset": record.offset}
            say("records_consumed", count=1, partitions=[where | {"maxOffset": record.offset}])
