"""Kafka clients for asyncio: `Producer`, `Consumer` and `Admin`, of the same core and settings as those of kafkatools.

    import kafkatools.aio

    async with kafkatools.aio.Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("topic", b"value")
        print((await delivery).offset)

The guide is docs/asyncio.md.
"""

from kafkatools.aio.admin import Admin as Admin
from kafkatools.aio.consumer import Consumer as Consumer
from kafkatools.aio.producer import Producer as Producer

__all__ = ["Producer", "Consumer", "Admin"]
