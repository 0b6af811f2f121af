"""Compare the replicas of partitions by fetching from each of them (ReplicaVerificationTool).

A round fetches every partition at one position from all of its replicas at the same time, and compares what all have
below the lowest high watermark. For responses with equal bytes only batch headers are read; batches are compared one by
one only if the bytes differ. In a compacted topic each replica is cleaned on its own, so records are compared, and
those that only some replicas have are ignored. A replica that is behind or does not respond delays its partitions
without counting as different. After `patience_ms` without a response it is left out, and its partitions count as not
compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kafkatools.core.admin.client import AdminClient, error_of
from kafkatools.core.admin.results import by_partition
from kafkatools.core.errors import CorruptRecord, KafkaError, OffsetOutOfRange
from kafkatools.core.net.requests import BrokerRequest
from kafkatools.core.protocol.api_versions import NEVER, ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.uuids import uuid_from_text
from kafkatools.core.records.batch import AnyBatch, read_batches
from kafkatools.core.records.columns import Record

TopicPartition = tuple[str, int]

OFFSET = "offset"
CHECKSUM = "checksum"
CONTENT = "content"
DAMAGED = "damaged"

_DEBUGGING_CONSUMER = -2
_EARLIEST = -2
_NO_SESSION = -1
_MAX_BYTES = 2**31 - 1
_FIRST_FETCH = 4
_FIRST_WITH_SESSIONS = 7
_FIRST_WITH_TOPIC_IDS = 13
_FIRST_WITH_REPLICA_STATE = 15
_FIRST_LIST_OFFSETS = 1
_MORE_THAN_THE_WAIT_MS = 5000


class Difference(NamedTuple):
    """Two replicas of a partition that differ at `offset`.

    - OFFSET: batches end at the offsets `value` and `other_value`. Later batches were not compared.
    - CHECKSUM: batches have the CRCs `value` and `other_value`.
    - CONTENT: other bytes of batches or records differ.
    - DAMAGED: the log of `replica` cannot be read.
    """

    kind: str
    topic: str
    partition: int
    offset: int
    replica: int
    other: int = -1
    value: int = -1
    other_value: int = -1
    reason: str = ""


class Fetched(NamedTuple):
    """The records and high watermark that one replica returned for a partition."""

    replica: int
    records: bytes
    high_watermark: int


class Comparison(NamedTuple):
    """The differences of a partition's replicas, and the offset up to which all replicas were compared."""

    next_offset: int
    differences: list[Difference]


class Round(NamedTuple):
    """The result of a round: differences, errors of single replicas, and whether any position advanced."""

    differences: list[Difference]
    errors: dict[tuple[str, int, int], KafkaError]
    has_progress: bool


class Lag(NamedTuple):
    """A partition's distance in offsets from its high watermark."""

    topic: str
    partition: int
    offset: int
    lag: int


def compare(
    key: TopicPartition, position: int, fetched: Sequence[Fetched], *, is_compacted: bool = False
) -> Comparison:
    """Compare the fetched records of a partition's replicas from a position up to the lowest high watermark. With
    `is_compacted`, replicas with different bytes are compared record by record, else batch by batch."""
    limit = min(replica.high_watermark for replica in fetched)
    shortest = min(fetched, key=lambda replica: len(replica.records))
    try:
        size, next_offset = _usable(shortest, limit, position)
    except CorruptRecord:
        return _compare_batches(key, position, fetched, limit)
    if not is_compacted or size:
        start = shortest.records[:size]
        if all(replica is shortest or replica.records[:size] == start for replica in fetched):
            return Comparison(next_offset, [])
    if is_compacted:
        return _compare_records(key, position, fetched, limit)
    return _compare_batches(key, position, fetched, limit)


def _usable(replica: Fetched, limit: int, position: int) -> tuple[int, int]:
    """The size in bytes of the complete batches below the limit, and the offset after them. Raises CorruptRecord."""
    size = 0
    for batch in read_batches(replica.records):
        if batch.last_offset >= limit:
            break
        size += batch.size_bytes
        position = batch.next_offset
    return size, position


def _compare_batches(key: TopicPartition, position: int, fetched: Sequence[Fetched], limit: int) -> Comparison:
    """Compare batch by batch, as Kafka's ReplicaBuffer.verifyCheckSum does. Ends before batches with different last
    offsets or a damaged batch, which are part of the result."""
    differences: list[Difference] = []
    iterators = [read_batches(replica.records) for replica in fetched]
    while True:
        batches = []
        for replica, iterator in zip(fetched, iterators, strict=True):
            try:
                batch = next(iterator, None)
            except CorruptRecord as damage:
                return Comparison(position, [*differences, _damage_difference(key, position, replica, damage)])
            if batch is None or batch.last_offset >= limit:
                return Comparison(position, differences)
            batches.append(batch)
        first = batches[0]
        for replica, batch in zip(fetched[1:], batches[1:], strict=True):
            difference = _batch_difference(key, fetched[0].replica, first, replica.replica, batch)
            if difference is not None:
                differences.append(difference)
                if difference.kind == OFFSET:
                    return Comparison(position, differences)
        position = first.next_offset


def _batch_difference(
    key: TopicPartition, replica: int, first: AnyBatch, other: int, batch: AnyBatch
) -> Difference | None:
    if first.last_offset != batch.last_offset:
        return Difference(OFFSET, *key, first.base_offset, replica, other, first.last_offset, batch.last_offset)
    if _checksum(first) != _checksum(batch):
        values = (_checksum(first), _checksum(batch))
        return Difference(CHECKSUM, *key, first.last_offset, replica, other, *values)
    if first.to_bytes() != batch.to_bytes():
        return Difference(CONTENT, *key, first.last_offset, replica, other)
    return None


def _checksum(batch: AnyBatch) -> int:
    return int(batch.crc) & 0xFFFFFFFF


def _damage_difference(key: TopicPartition, offset: int, replica: Fetched, damage: KafkaError) -> Difference:
    return Difference(DAMAGED, *key, offset, replica.replica, reason=str(damage))


def _compare_records(key: TopicPartition, position: int, fetched: Sequence[Fetched], limit: int) -> Comparison:
    """Compare record by record up to the smallest end of a replica; records that only some replicas have are ignored. A
    damaged batch is the only difference then returned."""
    tables: list[dict[int, Record]] = []
    ends: list[int] = []
    for replica in fetched:
        table: dict[int, Record] = {}
        end = position
        try:
            for batch in read_batches(replica.records):
                if batch.last_offset >= limit:
                    break
                table.update({record.offset: record for record in batch.records() if record.offset >= position})
                end = batch.next_offset
        except CorruptRecord as damage:
            return Comparison(position, [_damage_difference(key, end, replica, damage)])
        tables.append(table)
        ends.append(end)
    end = min(ends)
    differences = [
        Difference(CONTENT, *key, offset, fetched[0].replica, replica.replica)
        for replica, table in zip(fetched[1:], tables[1:], strict=True)
        for offset, record in tables[0].items()
        if offset < end and offset in table and table[offset] != record
    ]
    return Comparison(end, differences)


class Subject(NamedTuple):
    """The topic id and cleanup policy of a topic whose replicas are compared."""

    topic_id: str | None
    is_compacted: bool


class ReplicaVerifier:
    """Compares the replicas of partitions round by round from `offsets` on, each partition up to its offset in `ends`.
    Without `ends` there is no end, except for partitions that cannot be compared further. After `patience_ms` (None:
    never) a replica that does not respond is left out."""

    def __init__(
        self,
        admin: AdminClient,
        replicas: Mapping[TopicPartition, Sequence[int]],
        topics: Mapping[str, Subject],
        offsets: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None = None,
        *,
        fetch_size: int = 1 << 20,
        max_wait_ms: int = 1000,
        patience_ms: int | None = None,
    ) -> None:
        self._admin = admin
        self._replicas = dict(replicas)
        self._topics = topics
        self._ends = ends
        self._fetch_size = fetch_size
        self._max_wait_ms = max_wait_ms
        self._patience_ms = patience_ms
        self._silent_since_ms: dict[int, int] = {}
        self._stopped_partitions: set[TopicPartition] = set()
        self.left_out: dict[TopicPartition, list[int]] = {}  # replicas that have not responded for `patience_ms`
        self._high_watermarks: dict[TopicPartition, int] = {}
        self.offsets = dict(offsets)

    def remaining(self) -> list[TopicPartition]:
        """The partitions to compare in the next round. Left out are those at their end, and those with damaged or
        misaligned batches or without responding replicas."""
        ends = self._ends
        return [
            key
            for key in self._replicas
            if key not in self._stopped_partitions and (ends is None or self.offsets[key] < ends[key])
        ]

    def is_done(self, key: TopicPartition) -> bool:
        """Return whether all replicas of the partition have been compared to its end. False without `ends`, and if a
        replica was left out."""
        return self._ends is not None and self.offsets[key] >= self._ends[key] and key not in self.left_out

    def max_lag(self) -> Lag | None:
        """The partition that is furthest behind its high watermark; None before the first round."""
        lags = [Lag(*key, self.offsets[key], end - self.offsets[key]) for key, end in self._high_watermarks.items()]
        return max(lags, key=lambda lag: lag.lag, default=None)

    def run_once(self) -> Round:
        """Fetch and compare the remaining partitions once. Raises KafkaError if no broker can be reached."""
        remaining = self.remaining()
        fetched, errors = self._fetch(remaining)
        differences: list[Difference] = []
        has_progress = False
        stuck = []
        for key in remaining:
            replicas = sorted(fetched.get(key, ()))
            if replicas:
                self._high_watermarks[key] = max(replica.high_watermark for replica in replicas)
            if not replicas or len(replicas) < len(self._replicas[key]):
                continue
            comparison = compare(key, self.offsets[key], replicas, is_compacted=self._topics[key[0]].is_compacted)
            has_progress = has_progress or comparison.next_offset > self.offsets[key]
            if comparison.next_offset == self.offsets[key]:
                stuck.append(key)
            self.offsets[key] = comparison.next_offset
            differences += comparison.differences
            if any(difference.kind in (OFFSET, DAMAGED) for difference in comparison.differences):
                self._stopped_partitions.add(key)
        moved = self._skip_deleted_offsets(errors)
        # A broker fills a response from its first partition on, so partitions that got nothing come first next time.
        self._replicas = {key: self._replicas[key] for key in [*stuck, *self._replicas]}
        return Round(differences, errors, has_progress or moved)

    def _fetch(
        self, keys: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, list[Fetched]], dict[tuple[str, int, int], KafkaError]]:
        by_node: dict[int, list[TopicPartition]] = {}
        for key in keys:
            for node in self._replicas[key]:
                by_node.setdefault(node, []).append(key)
        requests = [self._request(node, keys) for node, keys in by_node.items()]
        request_ms = self._admin.clock.now_ms()
        deadline_ms = self._admin.deadline_ms(self._max_wait_ms + _MORE_THAN_THE_WAIT_MS)
        fetched: dict[TopicPartition, list[Fetched]] = {}
        errors: dict[tuple[str, int, int], KafkaError] = {}
        for node, response in zip(by_node, self._admin.send_all(requests, deadline_ms), strict=True):
            error = response.error or error_of(getattr(response.entity, "error_code", 0))
            if error is not None:
                errors.update({(*key, node): error for key in by_node[node]})
                self._note_silence(node, request_ms)
                continue
            self._silent_since_ms.pop(node, None)
            for key, part in self._requested_parts(by_node[node], response.entity).items():
                problem = error_of(part.error_code)
                if problem is not None:
                    errors[*key, node] = problem
                else:
                    replica = Fetched(node, bytes(part.records or b""), part.high_watermark)
                    fetched.setdefault(key, []).append(replica)
        return fetched, errors

    def _note_silence(self, node: int, request_ms: int) -> None:
        """Leave out a broker that has not responded for `patience_ms`."""
        since_ms = self._silent_since_ms.setdefault(node, request_ms)
        if self._patience_ms is None or self._admin.clock.now_ms() - since_ms < self._patience_ms:
            return
        for key, replicas in self._replicas.items():
            if node in replicas:
                self._replicas[key] = [replica for replica in replicas if replica != node]
                self.left_out.setdefault(key, []).append(node)
                if not self._replicas[key]:
                    self._stopped_partitions.add(key)

    def _requested_parts(self, keys: Collection[TopicPartition], entity: Entity) -> dict[TopicPartition, Entity]:
        """The partitions of a Fetch response by key. One that the request did not name would be taken for a replica,
        and one that is named twice for two."""
        names = {uuid_from_text(subject.topic_id): name for name, subject in self._topics.items() if subject.topic_id}
        parts = {
            (topic.topic if hasattr(topic, "topic") else names.get(topic.topic_id, ""), part.partition_index): part
            for topic in entity.responses
            for part in topic.partitions
        }
        return {key: parts[key] for key in keys if key in parts}

    def _request(self, node: int, keys: Sequence[TopicPartition]) -> BrokerRequest:
        def fields(version: int) -> dict[str, object]:
            topics: dict[str, list[dict[str, int]]] = {}
            for name, partition in keys:
                place = {"partition": partition, "fetch_offset": self.offsets[name, partition]}
                topics.setdefault(name, []).append({**place, "partition_max_bytes": self._fetch_size})
            has_ids = version >= _FIRST_WITH_TOPIC_IDS
            body: dict[str, object] = {
                "max_wait": self._max_wait_ms,
                "min_bytes": 1,
                "max_bytes": _MAX_BYTES,
                "isolation_level": 0,
                "topics": [
                    {**({"topic_id": self._uuid(name)} if has_ids else {"topic": name}), "partitions": parts}
                    for name, parts in topics.items()
                ],
            }
            if version >= _FIRST_WITH_SESSIONS:
                body |= {"session_id": 0, "session_epoch": _NO_SESSION}
            if version >= _FIRST_WITH_REPLICA_STATE:
                return {**body, "replica_state": {"replica_id": _DEBUGGING_CONSUMER, "replica_epoch": -1}}
            return {**body, "replica_id": _DEBUGGING_CONSUMER}

        has_all_ids = all(self._topics[name].topic_id for name, _ in keys)
        newest = NEVER if has_all_ids else _FIRST_WITH_TOPIC_IDS - 1
        return BrokerRequest(node, ApiKey.FETCH, fields, _FIRST_FETCH, newest)

    def _uuid(self, name: str) -> UUID | None:
        topic_id = self._topics[name].topic_id
        return None if topic_id is None else uuid_from_text(topic_id)

    def _skip_deleted_offsets(self, errors: Mapping[tuple[str, int, int], KafkaError]) -> bool:
        """Move positions to the start of replicas that no longer have them (retention, deleted records). Returns
        whether a position moved. A replica that ends before the position is only behind."""
        outside = [place for place, error in errors.items() if isinstance(error, OffsetOutOfRange)]
        requests = [
            BrokerRequest(
                node,
                ApiKey.LIST_OFFSETS,
                {
                    "replica_id": _DEBUGGING_CONSUMER,
                    "isolation_level": 0,
                    "topics": [{"name": topic, "partitions": [{"partition_index": index, "timestamp": _EARLIEST}]}],
                },
                _FIRST_LIST_OFFSETS,
            )
            for topic, index, node in outside
        ]
        has_moved = False
        responses = self._admin.send_all(requests, self._admin.deadline_ms(_MORE_THAN_THE_WAIT_MS)) if requests else []
        for (topic, index, _), response in zip(outside, responses, strict=True):
            parts = {} if response.error is not None else by_partition(response.entity.topics, lambda part: part)
            part = parts.get((topic, index))
            if part is not None and error_of(part.error_code) is None and part.offset > self.offsets[topic, index]:
                self.offsets[topic, index] = part.offset
                has_moved = True
        return has_moved
