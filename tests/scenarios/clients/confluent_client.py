"""confluent-kafka (librdkafka): idempotent producer, every codec, reading back by assignment. argv: bootstrap,
topic."""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

bootstrap, topic = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": bootstrap})
for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
    future.result(120)
expected = []
failed = []
for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec, "linger.ms": 5}
    )
    for i in range(200):
        value = f"{codec} {i} ".encode() * 5
        expected.append(value)
        producer.produce(
            topic, value, key=b"k%d" % i, partition=0, on_delivery=lambda e, m: failed.append(e) if e else None
        )
    assert producer.flush(240) == 0
assert not failed, failed
consumer = Consumer(
    {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True}
)
consumer.assign([TopicPartition(topic, 0, 0)])
seen = []
while len(seen) < len(expected):
    message = consumer.poll(60)
    assert message is not None and message.error() is None, message and message.error()
    assert message.offset() == len(seen)
    seen.append(message.value())
assert seen == expected
assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 1000)
consumer.close()
print("ok")
