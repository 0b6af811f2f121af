"""confluent-kafka as one member of a group, until it is told to stop (SIGTERM): says as JSON lines what it is given and
reads, as kafka-verifiable-consumer does. argv: bootstrap, topic, group, then settings as name=value."""

import json
import signal
import sys

from confluent_kafka import Consumer

bootstrap, topic, group, *settings = sys.argv[1:]
stopping: list[int] = []
signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))


def say(name: str, **values: object) -> None:
    print(json.dumps({"name": name, **values}), flush=True)


def given(name: str) -> object:
    return lambda member, partitions: say(
        name, partitions=[{"topic": part.topic, "partition": part.partition} for part in partitions]
    )


member = Consumer(
    {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    | dict(setting.split("=", 1) for setting in settings)
)
member.subscribe([topic], on_assign=given("partitions_assigned"), on_revoke=given("partitions_revoked"))
while not stopping:
    message = member.poll(0.05)
    if message is not None and not message.error():
        where = {"topic": topic, "partition": message.partition(), "count": 1, "minOffset": message.offset()}
        say("records_consumed", count=1, partitions=[where | {"maxOffset": message.offset()}])
member.close()
