"""Kafka clients for asyncio: `Producer`, `Consumer`, `ShareConsumer`, `Admin`, of the core and settings of kafkatools.

    import kafkatools.aio

    async with kafkatools.aio.Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("topic", b"value")
        print((await delivery).offset)

The guide is docs/asyncio.md.
"""

from kafkatools.aio.admin import Admin as Admin
from kafkatools.aio.consumer import Consumer as Consumer
from kafkatools.aio.producer import Producer as Producer
from kafkatools.aio.share_consumer import ShareConsumer as ShareConsumer

__all__ = ["Producer", "Consumer", "ShareConsumer", "Admin"]
