"""aiokafka: produces and reads back by assignment. argv: bootstrap, topic."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

bootstrap, topic = sys.argv[1:]


async def main() -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    for i in range(300):
        record = await producer.send_and_wait(topic, b"v%d" % i, key=b"k", partition=0)
        assert record.offset == i
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 0)
    seen = [(await consumer.getone()).value for _ in range(300)]
    assert seen == [b"v%d" % i for i in range(300)]
    await consumer.stop()


asyncio.run(main())
print("ok")
