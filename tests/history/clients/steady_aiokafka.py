"""Writes the time to a topic and reads the topic in a group with aiokafka, whatever happens to the brokers.

Tells line by line: "produced <ms>" for each acknowledged record, "consumed <ms>" for each that was read. Arguments:
brokers, topic, group.
"""

import asyncio
import logging
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

BOOTSTRAP, TOPIC, GROUP = sys.argv[1:4]
PAUSE_S = 0.1


def tell(what: str, value: bytes) -> None:
    print(what, value.decode(), flush=True)


async def acknowledged(value: bytes, future: "asyncio.Future[object]") -> None:
    try:
        await future
        tell("produced", value)
    except KafkaError as error:
        print("produce:", repr(error), file=sys.stderr, flush=True)


async def produce() -> None:
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True)
    await producer.start()
    waiting = set()
    while True:
        value = str(int(time.time() * 1000)).encode()
        try:
            future = await producer.send(TOPIC, value)
        except KafkaError as error:
            print("send:", repr(error), file=sys.stderr, flush=True)
        else:
            task = asyncio.ensure_future(acknowledged(value, future))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.sleep(PAUSE_S)


async def consume() -> None:
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP)
    await consumer.start()
    while True:
        try:
            tell("consumed", (await consumer.getone()).value or b"")
        except KafkaError as error:
            print("fetch:", repr(error), file=sys.stderr, flush=True)


async def main() -> None:
    logging.disable(logging.CRITICAL)
    await asyncio.gather(produce(), consume())


asyncio.run(main())
