"""confluent-kafka: commits, aborts, copies with offsets in the transaction, is fenced. argv: bootstrap, topic."""

import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

bootstrap, topic = sys.argv[1:]
copies = topic + "-copies"


def producer(name: str) -> Any:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    made.init_transactions(20)
    return made


def consumer(group: str) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )


def read(name: str, count: int) -> list[bytes]:
    reader = consumer("reader-of-" + name)
    reader.assign([TopicPartition(name, 0, 0)])
    values: list[bytes] = []
    while len(values) < count:
        message = reader.poll(60)
        assert message is not None and not message.error(), message
        values.append(message.value())
    assert reader.poll(0.3) is None
    reader.close()
    return values


first = producer("confluent-first")
for number in range(6):
    first.begin_transaction()
    for i in range(10):
        first.produce(topic, b"%d.%d" % (number, i), partition=0)
    first.commit_transaction(20) if number % 2 == 0 else first.abort_transaction(20)
expected = [b"%d.%d" % (number, i) for number in (0, 2, 4) for i in range(10)]
assert read(topic, 30) == expected

source = consumer("confluent-copier")
source.subscribe([topic])
copier = producer("confluent-copier")
copied = 0
while copied < 30:
    messages = source.consume(7, 5)
    if not messages:
        continue
    copier.begin_transaction()
    for message in messages:
        copier.produce(copies, message.value(), partition=0)
    copier.send_offsets_to_transaction(source.position(source.assignment()), source.consumer_group_metadata(), 20)
    copier.commit_transaction(20)
    copied += len(messages)
assert read(copies, 30) == expected
committed = source.committed([TopicPartition(topic, 0)], 20)[0].offset
end = source.get_watermark_offsets(TopicPartition(topic, 0))[1]
assert end - 11 <= committed <= end, (committed, end)
source.close()

first.begin_transaction()
first.produce(topic, b"zombie", partition=0)
first.flush(240)
second = producer("confluent-first")
try:
    first.commit_transaction(20)
    raise AssertionError("a zombie has committed")
except KafkaException as error:
    assert error.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED), error
second.begin_transaction()
second.produce(topic, b"successor", partition=0)
second.commit_transaction(20)
assert read(topic, 31)[-1] == b"successor"
print("ok")
