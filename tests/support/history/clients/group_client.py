"""The workload `groups`: a member that joins, processes, commits and leaves, again and again. Own arguments: topic,
group, protocol (classic, consumer)."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from common import COMMON, OURS, Arguments, complain

CLASSIC = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "500"}
REFUSED = (
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "FENCED_MEMBER_EPOCH",
    "STALE_MEMBER_EPOCH",
    "REBALANCE_IN_PROGRESS",
    "_ASSIGNMENT_LOST",
    "_NO_OFFSET",
    "CommitFailed",
    "IllegalGeneration",
    "UnknownMemberId",
    "FencedMemberEpoch",
    "StaleMemberEpoch",
    "RebalanceInProgress",
)


class OurMember:
    """kafkatools' consumer in a group; `listener` hears of partitions as they come and go."""

    def __init__(self, arguments: Arguments, topic: str, settings: dict[str, str], listener: Any) -> None:
        from kafkatools.core.config import CONSUMER, Config
        from kafkatools.core.consumer.consumer import Consumer
        from kafkatools.core.consumer.group_subscription import RebalanceListener
        from kafkatools.core.errors import KafkaError

        class Told(RebalanceListener):
            def on_partitions_assigned(self, partitions: Sequence[Any]) -> None:
                listener.assigned([each.partition for each in partitions])

            def on_partitions_revoked(self, partitions: Sequence[Any]) -> None:
                listener.revoked([each.partition for each in partitions])

            def on_partitions_lost(self, partitions: Sequence[Any]) -> None:
                listener.revoked([each.partition for each in partitions])

        own = {"enable.auto.commit": "false", "max.poll.records": "300", "request.timeout.ms": "5000"}
        self._consumer = Consumer(Config(CONSUMER, {**COMMON, **settings, **own}))
        self._consumer.subscribe([topic], Told())
        self._topic = topic
        self.error = KafkaError

    def poll(self) -> list[tuple[int, int]]:
        return [(record.partition, record.offset) for record in self._consumer.poll(200)]

    def identity(self) -> tuple[str, int | None]:
        """Member id and generation, or member epoch."""
        known = self._consumer.group_metadata()
        return known.member_id, known.generation_id

    def commit(self, ends: dict[int, int]) -> None:
        self._consumer.commit_sync({(self._topic, partition): end for partition, end in ends.items()})

    def close(self) -> None:
        self._consumer.close(10_000)


class LibrdkafkaMember:
    """confluent-kafka's; its API does not tell the generation."""

    def __init__(self, arguments: Arguments, topic: str, settings: dict[str, str], listener: Any) -> None:
        from confluent_kafka import Consumer, KafkaException

        def assigned(consumer: Any, partitions: list[Any]) -> None:
            listener.assigned([each.partition for each in partitions])

        def revoked(consumer: Any, partitions: list[Any]) -> None:
            listener.revoked([each.partition for each in partitions])

        own = {"enable.auto.commit": False, "socket.timeout.ms": "5000", "metadata.recovery.strategy": "none"}
        self._consumer = Consumer({**COMMON, **settings, **own})
        self._consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        self._topic = topic
        self.error = KafkaException

    def poll(self) -> list[tuple[int, int]]:
        found = self._consumer.consume(300, 0.2)
        return [(message.partition(), message.offset()) for message in found if message.error() is None]

    def identity(self) -> tuple[str, int | None]:
        return self._consumer.memberid() or "", None

    def commit(self, ends: dict[int, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        wanted = [TopicPartition(self._topic, partition, end) for partition, end in ends.items()]
        for each in self._consumer.commit(offsets=wanted, asynchronous=False) or ():
            if each.error is not None:
                raise KafkaException(each.error)

    def close(self) -> None:
        self._consumer.close()


class Listener:
    """Keeps which offsets are processed and not committed; forgets those of partitions that go."""

    def __init__(self, arguments: Arguments) -> None:
        self._recorder = arguments.recorder
        self.ends: dict[int, int] = {}

    def assigned(self, partitions: list[int]) -> None:
        self._recorder.note("assigned", time.monotonic_ns(), partitions=partitions)

    def revoked(self, partitions: list[int]) -> None:
        self._recorder.note("revoked", time.monotonic_ns(), partitions=partitions)
        for partition in partitions:
            self.ends.pop(partition, None)


def process(arguments: Arguments, member: Any, listener: Listener, group: str) -> bool:
    """Poll once and record what was processed; whether there was anything."""
    begun_ns = time.monotonic_ns()
    offsets: dict[int, list[int]] = {}
    for partition, offset in member.poll():
        offsets.setdefault(partition, []).append(offset)
    for partition, found in offsets.items():
        arguments.recorder.note("process", begun_ns, group=group, partition=partition, offsets=found)
        listener.ends[partition] = found[-1] + 1
    return bool(offsets)


def commit(arguments: Arguments, member: Any, listener: Listener, group: str) -> None:
    """Commit what was processed. The generation is recorded when it is the same before and after."""
    ends = dict(listener.ends)
    before = member.identity()
    operation = arguments.recorder.invoke("commit_offsets", group=group, ends=list(ends.items()), member=before[0])
    try:
        member.commit(ends)
    except member.error as error:
        complain(arguments, error)
        is_refused = any(word in repr(error) for word in REFUSED)
        arguments.recorder.complete(operation, "fail" if is_refused else "unknown", error=repr(error))
        return
    generation = before[1] if member.identity() == before else None
    arguments.recorder.complete(operation, "ok", generation=generation)
    for partition, end in ends.items():
        if listener.ends.get(partition) == end:
            del listener.ends[partition]


def main() -> None:
    arguments = Arguments()
    topic, group, protocol = arguments.more
    source = random.Random(f"{arguments.name} {arguments.run}")
    settings = {"bootstrap.servers": arguments.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    settings |= CLASSIC if protocol == "classic" else {"group.protocol": "consumer"}
    if protocol == "classic":  # the libraries share one group
        settings["partition.assignment.strategy"] = (
            "org.apache.kafka.clients.consumer.RangeAssignor" if arguments.library == OURS else "range"
        )
    kind: Any = OurMember if arguments.library == OURS else LibrdkafkaMember
    while not arguments.stopping.is_set():
        listener = Listener(arguments)
        member = kind(arguments, topic, settings, listener)
        until = time.monotonic() + source.uniform(10, 40)
        while time.monotonic() < until and not arguments.stopping.is_set():
            try:
                has_read = process(arguments, member, listener, group)
            except member.error as error:
                complain(arguments, error)
                continue
            if listener.ends and (not has_read or source.random() < 0.6):
                commit(arguments, member, listener, group)
            time.sleep(0.1)
        member.close()


sys.exit(main())
