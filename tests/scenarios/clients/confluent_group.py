"""confluent-kafka: two members of a group share a topic's partitions; one leaves, the other goes on where it stood.
argv: bootstrap, topic, group[, the protocol of each member]. The topic has 4 partitions with 25 records each."""

import sys
import time

from confluent_kafka import Consumer, TopicPartition

bootstrap, topic, group, *protocols = sys.argv[1:]
deadline = time.monotonic() + 240
settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
kinds = protocols[0].split(",") if protocols else ["classic", "classic"]
members = [Consumer({**settings, "enable.auto.commit": False, "group.protocol": kind}) for kind in kinds]
for member in members:
    member.subscribe([topic])
seen: set[tuple[int, int]] = set()


def is_settled() -> bool:
    """Whether both have two partitions and have read them to the end, with what came again after a rebalance."""
    positions = [[p.offset for p in m.position(m.assignment())] for m in members]
    return len(seen) == 100 and positions == [[25, 25], [25, 25]]


while not is_settled():
    assert time.monotonic() < deadline, (len(seen), [m.assignment() for m in members])
    for member in members:
        message = member.poll(0.05)
        if message is not None and not message.error():
            seen.add((message.partition(), message.offset()))
for member in members:
    offsets = [TopicPartition(topic, p.partition, 25, "done") for p in member.assignment()]
    member.commit(offsets=offsets, asynchronous=False)
first, second = members
first.close()
while len(second.assignment()) != 4:
    assert time.monotonic() < deadline
    message = second.poll(0.05)
    assert message is None, "a committed record came again"
committed = second.committed([TopicPartition(topic, index) for index in range(4)], timeout=10)
assert [p.offset for p in committed] == [25] * 4, committed
second.close()
print("ok")
