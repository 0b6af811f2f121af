"""Writes the time to a topic and reads the topic in a group with confluent-kafka, whatever happens to the brokers.

Tells line by line: "produced <ms>" for each acknowledged record, "consumed <ms>" for each that was read. Arguments:
brokers, topic, group. Reads with both group protocols and, as an assigned reader, without a group.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

BOOTSTRAP, TOPIC, GROUP = sys.argv[1:4]
PAUSE_S, PARTITIONS = 0.1, 6
lock = threading.Lock()


def tell(what: str, value: bytes) -> None:
    with lock:
        print(what, value.decode(), flush=True)


def note(error: object, message: Any) -> None:
    if error is None:
        tell("produced", message.value())
    else:
        print("produce:", error, file=sys.stderr, flush=True)


def produce() -> None:
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "log_level": 0})
    while True:
        producer.produce(TOPIC, str(int(time.time() * 1000)).encode(), on_delivery=note)
        producer.poll(PAUSE_S)
        time.sleep(PAUSE_S)


def consume(what: str, begin: Callable[[Consumer], None], **settings: str) -> None:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "log_level": 0, **names})
    begin(consumer)
    while True:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            tell(what, message.value() or b"")


def in_group(consumer: Consumer) -> None:
    consumer.subscribe([TOPIC])


def assigned(consumer: Consumer) -> None:
    consumer.assign([TopicPartition(TOPIC, index) for index in range(PARTITIONS)])


READERS: list[tuple[str, Callable[[Consumer], None], dict[str, str]]] = [
    ("consumed", in_group, {"group_id": GROUP}),
    ("consumed-848", in_group, {"group_id": f"{GROUP}-848", "group_protocol": "consumer"}),
    ("assigned", assigned, {"group_id": f"{GROUP}-assigned", "enable_auto_commit": "false"}),
]
for reader in READERS:
    threading.Thread(target=consume, args=reader[:2], kwargs=reader[2], daemon=True).start()
produce()
