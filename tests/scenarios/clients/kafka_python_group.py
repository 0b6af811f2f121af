"""kafka-python: two members of a group share a topic's partitions; one leaves, the other goes on where it stood.
argv: bootstrap, topic, group. The topic has 4 partitions with 25 records each."""

import sys
import time

from kafka import KafkaConsumer, TopicPartition

bootstrap, topic, group = sys.argv[1:]
deadline = time.monotonic() + 60
members = [
    KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    for _ in range(2)
]
seen: set[tuple[int, int]] = set()


def poll() -> int:
    count = 0
    for member in members:
        for partition, records in member.poll(100).items():
            seen.update((partition.partition, record.offset) for record in records)
            count += len(records)
    return count


while len(seen) < 100 or [len(m.assignment()) for m in members] != [2, 2]:
    assert time.monotonic() < deadline, (len(seen), [m.assignment() for m in members])
    poll()
for member in members:
    member.commit()
members.pop(0).close()
while len(members[0].assignment()) != 4:
    assert time.monotonic() < deadline
    assert poll() == 0, "a committed record came again"
assert [members[0].committed(TopicPartition(topic, index)) for index in range(4)] == [25] * 4
members[0].close()
print("ok")
