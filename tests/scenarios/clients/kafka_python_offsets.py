"""kafka-python: positions, times, committed offsets of a group, transactions with offsets, and what the admin client
says about them. Prints ok. argv: bootstrap, topic (made here)."""

import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

BOOTSTRAP, TOPIC = sys.argv[1:]
GROUP = TOPIC + "-group"
START_MS = 1_700_000_000_000
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def fill() -> None:
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
    for i in range(20):
        producer.send(TOPIC, b"%d" % i, partition=0, timestamp_ms=START_MS + 10 * i)
    producer.close()


def next_value(reader: KafkaConsumer) -> bytes:
    return bytes(next(reader).value)


def seek_and_times() -> None:
    reader = KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=GROUP, enable_auto_commit=False)
    reader.assign([FIRST, SECOND])
    assert reader.beginning_offsets([FIRST, SECOND]) == {FIRST: 0, SECOND: 0}
    assert reader.end_offsets([FIRST, SECOND]) == {FIRST: 20, SECOND: 0}
    times = reader.offsets_for_times({FIRST: START_MS + 45, SECOND: START_MS})
    assert (times[FIRST].offset, times[FIRST].timestamp, times[SECOND]) == (5, START_MS + 50, None)
    reader.seek(FIRST, 15)
    assert [next_value(reader), next_value(reader)] == [b"15", b"16"]
    assert reader.position(FIRST) == 17
    reader.seek_to_beginning(FIRST)
    assert next_value(reader) == b"0"
    reader.seek_to_end(FIRST)
    assert reader.position(FIRST) == 20
    reader.pause(FIRST)
    reader.seek(FIRST, 3)
    assert reader.poll(300) == {}
    reader.resume(FIRST)
    assert next_value(reader) == b"3"
    reader.commit({FIRST: OffsetAndMetadata(4, "kept", -1)})
    assert reader.committed(FIRST, metadata=True)[:2] == (4, "kept")
    assert reader.committed(SECOND) is None
    reader.close()


def copy_in_transactions() -> None:
    """From the committed offset to the other partition, offsets in the transaction; one is aborted."""
    source = KafkaConsumer(
        bootstrap_servers=BOOTSTRAP, group_id=GROUP, enable_auto_commit=False, isolation_level="read_committed"
    )
    source.subscribe([TOPIC])
    copier = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=TOPIC + "-copier")
    copier.init_transactions()
    deadline = time.monotonic() + 240
    copied: list[bytes] = []
    while len(copied) < 16:
        assert time.monotonic() < deadline, copied
        values = [record.value for record in source.poll(500, max_records=6).get(FIRST, [])]
        if not values:
            continue
        for finish in (copier.abort_transaction, copier.commit_transaction):
            copier.begin_transaction()
            for value in values:
                copier.send(TOPIC, value, partition=1)
            offset = OffsetAndMetadata(source.position(FIRST), "", -1)
            copier.send_offsets_to_transaction({FIRST: offset}, source.group_metadata())
            finish()
        copied += values
    assert copied == [b"%d" % i for i in range(4, 20)]
    assert source.committed(FIRST) == 20
    source.close()
    copier.close()
    reader = KafkaConsumer(bootstrap_servers=BOOTSTRAP, isolation_level="read_committed", consumer_timeout_ms=60_000)
    reader.assign([SECOND])
    reader.seek(SECOND, 0)
    assert [next(reader).value for _ in copied] == copied
    assert reader.poll(300) == {}
    reader.close()


def administer(admin: KafkaAdminClient) -> None:
    assert admin.list_group_offsets({GROUP: [FIRST]})[GROUP][FIRST].offset == 20
    assert (GROUP, "Empty") in [(each["group_id"], each["group_state"]) for each in admin.list_groups()]
    described = admin.describe_transactions([TOPIC + "-copier"])[TOPIC + "-copier"]
    assert described.state.value == "CompleteCommit", described
    admin.delete_groups([GROUP])
    assert GROUP not in [each["group_id"] for each in admin.list_groups()]
    admin.delete_topics([TOPIC])


def main() -> None:
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])
    fill()
    seek_and_times()
    copy_in_transactions()
    administer(admin)
    admin.close()
    print("ok")


main()
