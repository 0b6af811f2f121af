"""confluent-kafka: positions, times, stored and committed offsets of a group, and what the admin client says and does
about them. Prints ok. argv: bootstrap, topic (made here)."""

import sys
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP, TOPIC = sys.argv[1:]
GROUP = TOPIC + "-group"
START_MS = 1_700_000_000_000


def only(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(120)


def consumer(**settings: Any) -> Any:
    return Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "enable.auto.commit": False, **settings})


def values(reader: Any, count: int) -> list[str]:
    messages = [reader.poll(60) for _ in range(count)]
    return [message.value().decode() for message in messages]


def fill(admin: AdminClient) -> None:
    only(admin.create_topics([NewTopic(TOPIC, 2, 1)]))
    producer = Producer({"bootstrap.servers": BOOTSTRAP})
    for i in range(20):
        producer.produce(TOPIC, f"{i}", partition=0, timestamp=START_MS + 10 * i)
    assert producer.flush(240) == 0


def seek_and_times() -> None:
    reader = consumer()
    reader.assign([Place(TOPIC, 0, 15)])
    assert values(reader, 2) == ["15", "16"]
    reader.seek(Place(TOPIC, 0, 3))
    assert values(reader, 1) == ["3"]
    assert [place.offset for place in reader.position([Place(TOPIC, 0)])] == [4]
    assert reader.get_watermark_offsets(Place(TOPIC, 0), 10) == (0, 20)
    asked = [Place(TOPIC, 0, START_MS + 45), Place(TOPIC, 1, START_MS)]
    assert [place.offset for place in reader.offsets_for_times(asked, 10)] == [5, -1]
    assert reader.offsets_for_times([Place(TOPIC, 0, START_MS + 1000)], 10)[0].offset == -1
    reader.pause([Place(TOPIC, 0)])
    assert reader.poll(0.3) is None
    reader.seek(Place(TOPIC, 0, 9))
    reader.resume([Place(TOPIC, 0)])
    assert values(reader, 1) == ["9"]
    reader.close()


def out_of_range() -> None:
    """auto.offset.reset decides: to the end, to the start, or an error for the application."""
    reader = consumer(**{"auto.offset.reset": "earliest"})
    reader.assign([Place(TOPIC, 0, 1000)])
    assert values(reader, 1) == ["0"]
    reader.close()
    strict = consumer(**{"auto.offset.reset": "error"})
    strict.assign([Place(TOPIC, 0, 1000)])
    assert strict.poll(60).error().name() == "_AUTO_OFFSET_RESET"
    strict.close()


def group(admin: AdminClient) -> None:
    member = consumer(**{"auto.offset.reset": "earliest", "enable.auto.offset.store": False})
    member.subscribe([TOPIC])
    message = member.poll(60)
    member.store_offsets(message)
    member.commit(asynchronous=False)
    (described,) = [only({0: future}) for future in admin.describe_consumer_groups([GROUP]).values()]
    assert described.state == ConsumerGroupState.STABLE
    assert sorted(place.partition for place in described.members[0].assignment.topic_partitions) == [0, 1]
    member.commit(offsets=[Place(TOPIC, 0, 7, "kept"), Place(TOPIC, 1, 0)], asynchronous=False)
    found = member.committed([Place(TOPIC, 0), Place(TOPIC, 1)], 10)
    assert [(place.offset, place.metadata) for place in found] == [(7, "kept"), (0, None)], found
    member.close()
    successor = consumer()
    successor.subscribe([TOPIC])
    assert successor.poll(60).value() == b"7"
    successor.close()


def administer(admin: AdminClient) -> None:
    listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(120).valid
    assert GROUP in [each.group_id for each in listed]
    only(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP, [Place(TOPIC, 0, 12)])]))
    found = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]))
    assert sorted((place.partition, place.offset) for place in found.topic_partitions) == [(0, 12), (1, 0)]
    only(admin.delete_consumer_groups([GROUP]))
    try:
        only(admin.delete_consumer_groups([GROUP]))
    except KafkaException as refused:
        assert refused.args[0].name() == "GROUP_ID_NOT_FOUND", refused
    else:
        raise AssertionError("a group was deleted twice")
    only(admin.delete_topics([TOPIC]))


def main() -> None:
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    fill(admin)
    seek_and_times()
    out_of_range()
    group(admin)
    administer(admin)
    print("ok")


main()
