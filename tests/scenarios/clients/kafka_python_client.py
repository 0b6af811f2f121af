"""kafka-python: creates a topic, produces with keys and headers, reads back by assignment, looks up offsets by time.
argv: bootstrap, topic."""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

bootstrap, topic = sys.argv[1:]
admin = KafkaAdminClient(bootstrap_servers=bootstrap)
admin.create_topics([NewTopic(topic, 2, 1)])
admin.close()
producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", compression_type="gzip")
sent = [
    producer.send(
        topic,
        b"v%d" % i,
        key=b"k%d" % i,
        headers=[("h", b"%d" % i)],
        partition=i % 2,
        timestamp_ms=1_700_000_000_000 + i,
    )
    for i in range(500)
]
assert [f.get(30).offset for f in sent] == [i // 2 for i in range(500)]
producer.close()
consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed")
partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
consumer.assign(partitions)
consumer.seek_to_beginning()
seen = []
while len(seen) < 500:
    for records in consumer.poll(60_000).values():
        seen += [(r.key, r.value, tuple(r.headers), r.timestamp) for r in records]
assert sorted(seen) == sorted((b"k%d" % i, b"v%d" % i, (("h", b"%d" % i),), 1_700_000_000_000 + i) for i in range(500))
assert consumer.end_offsets(partitions) == {p: 250 for p in partitions}
assert consumer.offsets_for_times({partitions[0]: 1_700_000_000_100})[partitions[0]].offset == 50
consumer.close()
print("ok")
