"""Fetch the partition of `__consumer_offsets` that holds a group from its leader, and the ends of other logs.

The batches are fetched by hand: a consumer hides headers, producer ids and transaction markers. Everything up to the
high watermark at the start is read, open transactions included.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.leaders import LeaderRequest, send_to_leaders
from kafkatools.core.admin.offsets import EARLIEST, LATEST, list_offsets
from kafkatools.core.admin.topics import describe_topics, list_topics
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition
from kafkatools.core.java.hashes import signed, string_hash
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.uuids import uuid_from_text
from kafkatools.core.records.batch import read_batches
from kafkatools.core.topic_partition import topic_fields
from kafkatools.exit_status import CommandError
from kafkatools.tools.timeline.group_records import TOPIC, Damage
from kafkatools.tools.timeline.log_ends import Log, TopicPartition

if TYPE_CHECKING:
    from kafkatools.core.records.batch import AnyBatch

_OLDEST_FETCH = 4
_NEWEST_FETCH = 12
_BYTES = 4 << 20
_WAIT_MS = 500


def partition_of(group_id: str, count: int) -> int:
    """Return the partition of `__consumer_offsets` that holds a group, of `count` partitions (Utils.abs of Java's
    hash)."""
    value = signed(string_hash(group_id))
    return (0 if value == -(1 << 31) else abs(value)) % count


class BrokerLog:
    """The partition of a group on its leader. Raises CommandError if it cannot be read, KafkaError."""

    def __init__(self, admin: AdminClient, group_id: str) -> None:
        self._admin = admin
        with _permission_explained():
            topic = describe_topics(admin, [TOPIC])[TOPIC]
            if isinstance(topic.error, UnknownTopicOrPartition):
                raise CommandError(
                    f"Topic {TOPIC} does not exist: no group has used this cluster yet, or the principal may not "
                    "describe the topic",
                    kind="UNKNOWN_TOPIC_OR_PARTITION",
                )
            if topic.error is not None:
                raise topic.error
            self.partition = partition_of(group_id, len(topic.partitions))
            key = TOPIC, self.partition
            self.start = self._offset(key, EARLIEST)
            self.end = self._offset(key, LATEST)

    def _offset(self, key: TopicPartition, timestamp: int) -> int:
        listed = list_offsets(self._admin, {key: timestamp})[key]
        if listed.error is not None:
            raise listed.error
        return listed.offset

    def batches(self, start: int = 0) -> Iterator[AnyBatch | Damage]:
        """Yield the batches from an offset up to the high watermark, and damaged ranges. Raises CommandError without
        permission to read, KafkaError."""
        position = max(start, self.start)
        while position < self.end:
            start, cause = position, "the leader returned no complete batch"
            with _permission_explained():
                data = self._fetch(position)
            try:
                for item in _items(data, position):
                    yield item
                    position = max(position, item.next_offset)
            except KafkaError as error:
                cause = str(error)
            if position == start:
                yield Damage(position, self.end, cause)
                return

    def _fetch(self, offset: int) -> memoryview:
        key = TOPIC, self.partition

        def build(partitions: list[TopicPartition], remaining_ms: int) -> Fields:
            part = {"partition": key[1], "fetch_offset": offset, "partition_max_bytes": _BYTES}
            limits = {"max_wait": _WAIT_MS, "min_bytes": 1, "max_bytes": _BYTES}
            return {"replica_id": -1, **limits, "topics": topic_fields([(key, part)], "topic")}

        request = LeaderRequest(ApiKey.FETCH, build, _records, _OLDEST_FETCH, _NEWEST_FETCH)
        records = send_to_leaders(self._admin, [key], request)[key]
        if isinstance(records, KafkaError):
            raise records
        return records


def _records(response: Entity) -> dict[TopicPartition, memoryview | KafkaError]:
    return {
        (topic.topic, part.partition_index): error_in(part) or memoryview(part.records or b"")
        for topic in response.responses
        for part in topic.partitions
    }


def _items(data: memoryview, position: int) -> Iterator[AnyBatch | Damage]:
    """Yield the batches of a response. Raises KafkaError for a damaged header: the end of its batch is unknown."""
    for batch in read_batches(data):
        if batch.next_offset <= position:
            continue
        try:
            batch.ensure_valid()
        except KafkaError as error:
            yield Damage(batch.base_offset, batch.next_offset, str(error))
        else:
            yield batch


@contextmanager
def _permission_explained() -> Iterator[None]:
    """Turn a missing permission on `__consumer_offsets` into a CommandError that names the ACL."""
    try:
        yield
    except TopicAuthorizationFailed as error:
        raise CommandError(
            f"Not permitted to read {TOPIC}: the principal needs the operation READ on this topic",
            kind=error.name,
            hint=f"Add it with kt acls --add --allow-principal TYPE:NAME --operation Read --topic {TOPIC}, "
            "or read files with --from log:DIRECTORY.",
        ) from None


class BrokerLogs:
    """The logs of the cluster's partitions, for log ends at times (log_ends.Logs)."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        listed = list_topics(admin)
        self._ids = {topic.name: uuid_from_text(topic.topic_id) for topic in listed if topic.topic_id}

    def topic_ids(self) -> dict[uuid.UUID, str]:
        """Return the names of the cluster's topics by id."""
        return {topic_id: name for name, topic_id in self._ids.items()}

    def present(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Log]:
        """Return the present logs, without those that cannot be read."""
        keys = list(partitions)
        starts = list_offsets(self._admin, dict.fromkeys(keys, EARLIEST), leaderless_ms=0)
        ends = list_offsets(self._admin, dict.fromkeys(keys, LATEST), leaderless_ms=0)
        return {
            key: Log(starts[key].offset, ends[key].offset, self._ids.get(key[0]))
            for key in keys
            if starts[key].error is None and ends[key].error is None
        }

    def first_after(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record of each partition that is newer than a time (ms since 1970)."""
        listed = list_offsets(self._admin, {key: time_ms + 1 for key, time_ms in times.items()}, leaderless_ms=0)
        return {key: None if one.offset < 0 else one.offset for key, one in listed.items() if one.error is None}
