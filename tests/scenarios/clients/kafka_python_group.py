"""kafka-python: two members of a group, each on its thread, share a topic's partitions; one leaves, the other goes on
where it stood. argv: bootstrap, topic, group. The topic has 4 partitions with 25 records each."""

import sys
import threading
import time

from kafka import KafkaConsumer, TopicPartition

bootstrap, topic, group = sys.argv[1:]
deadline = time.monotonic() + 240
seen: set[tuple[int, int]] = set()
assigned: dict[int, int] = {0: 0, 1: 0}
committed: list[int | None] = []
problems: list[str] = []
both_have_two = threading.Event()


def poll(consumer: KafkaConsumer, number: int) -> None:
    for partition, records in consumer.poll(3000).items():
        new = {(partition.partition, record.offset) for record in records}
        if both_have_two.is_set():
            problems.append(f"came again: {new}")
        seen.update(new)
    assigned[number] = len(consumer.assignment())


def live(number: int) -> None:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    while not (len(seen) == 100 and list(assigned.values()) == [2, 2]) and not both_have_two.is_set():
        poll(consumer, number)
        consumer.commit()
        if time.monotonic() > deadline:
            problems.append(f"member {number}: {len(seen)} records, {assigned}")
            return
    consumer.commit()
    both_have_two.set()
    if number == 0:
        consumer.close()
        return
    while assigned[1] != 4 and time.monotonic() < deadline:
        poll(consumer, number)
    committed.extend(consumer.committed(TopicPartition(topic, index)) for index in range(4))
    consumer.close()


threads = [threading.Thread(target=live, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not problems, problems
assert committed == [25] * 4, committed
print("ok")
