"""Committed offsets of groups: fetch (many groups a request), alter, delete (KafkaAdminClient).

OffsetFetch answers are read by hand: the partitions of a topic lie one after the other, and where none has metadata or
an error they have all the same size, so a whole topic is unpacked at once. Layout: OffsetFetchResponse.json; a test
holds it against the generated codec, version by version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkatools.core.admin.client import AdminClient, error_of
from kafkatools.core.admin.coordinators import CoordinatorRequest, ask_coordinators, one_key_each
from kafkatools.core.errors import DecodeError, KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.net.body_reader import BodyReader
from kafkatools.core.net.requests import Answer
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Fields

TopicPartition = tuple[str, int]

# From version 10 on both are about topic ids; a group's offsets may be of topics that are gone, which have only names.
_NEWEST_FETCH = 9
_NEWEST_COMMIT = 9
_FIRST_FETCH_OF_MANY = 8
_FIRST_FETCH_OF_ALL = 2
_FIRST_STABLE_FETCH = 7
_FIRST_FLEXIBLE_FETCH = ApiKey.OFFSET_FETCH.first_flexible_version
_FIRST_FETCH_WITH_EPOCH = 5

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">iqi")
_PARTITION_V4: Final = struct.Struct(">iq")
# A partition of a flexible version with empty metadata, no error and no tagged fields: 1, 0, 0 at its end.
_PLAIN: Final = struct.Struct(">iqiBhB")


class GroupOffsets(NamedTuple):
    """What a group committed; `errors` holds partitions that could not be told, `error` is the group's own."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    errors: dict[TopicPartition, KafkaError]
    error: KafkaError | None = None


def fetch_offsets(
    admin: AdminClient, group_ids: Iterable[str], *, require_stable: bool = False, timeout_ms: int | None = None
) -> dict[str, GroupOffsets]:
    """Everything each group committed. A group that does not exist has no offsets."""

    def build(keys: list[str], version: int) -> Fields:
        stable = {"require_stable": require_stable} if version >= _FIRST_STABLE_FETCH else {}
        if version >= _FIRST_FETCH_OF_MANY:
            return {"groups": [{"group_id": key, "topics": None} for key in keys], **stable}
        return {"group_id": keys[0], "topics": None, **stable}

    request = CoordinatorRequest(
        ApiKey.OFFSET_FETCH,
        build,
        lambda answer, keys: read_offset_fetch(answer.entity, answer.api_version, keys[0]),
        first_batched=_FIRST_FETCH_OF_MANY,
        min_version=_FIRST_FETCH_OF_ALL,
        max_version=_NEWEST_FETCH,
        decode=False,
    )
    results = ask_coordinators(admin, group_ids, request, timeout_ms=timeout_ms)
    return {
        group_id: GroupOffsets({}, {}, found) if isinstance(found, KafkaError) else found
        for group_id, found in results.items()
    }


def read_offset_fetch(body: memoryview, version: int, group_id: str) -> Fields:
    """An OffsetFetch response (versions 2 to 9): offsets or the error of each group. Raises DecodeError."""
    reader = _Reader(body, version)
    if version >= 3:
        reader.position += 4
    if version >= _FIRST_FETCH_OF_MANY:
        found = dict(reader.group() for _ in range(reader.array_length(1)))
        reader.skip_tags()
        return found
    offsets = reader.offsets()
    error = error_of(reader.int16())
    return {group_id: error or offsets}


class _Reader(BodyReader):
    __slots__ = ("layout",)
    name = "OffsetFetch response"

    def __init__(self, body: memoryview, version: int) -> None:
        super().__init__(body, 0, flexible=version >= _FIRST_FLEXIBLE_FETCH)
        self.layout = _PARTITION if version >= _FIRST_FETCH_WITH_EPOCH else _PARTITION_V4

    def int16(self) -> int:
        return self.unpack(_INT16)[0]

    def string(self) -> str | None:
        size = self.length(_INT16)
        try:
            return None if size < 0 else str(self.slice(size), "utf-8")
        except UnicodeDecodeError:
            raise DecodeError("OffsetFetch response holds a string that is not UTF-8") from None

    def group(self) -> tuple[str, GroupOffsets | KafkaError]:
        """A group of versions 8 and 9."""
        group_id = self.string() or ""
        offsets = self.offsets()
        error = error_of(self.int16())
        self.skip_tags()
        return group_id, error or offsets

    def offsets(self) -> GroupOffsets:
        """The topics of one group; a partition without a commit (offset -1) is left out."""
        found = GroupOffsets({}, {})
        for _ in range(self.array_length(1)):
            topic = self.string() or ""
            count = self.array_length(1)
            if not self._plain_partitions(topic, count, found):
                for _ in range(count):
                    self._partition(topic, found)
            self.skip_tags()
        return found

    def _plain_partitions(self, topic: str, count: int, found: GroupOffsets) -> bool:
        """Reads all partitions at once when they are plain; False, and nothing read, when they are not."""
        size = count * _PLAIN.size
        if not self.flexible or size > len(self.buffer) - self.position:
            return False
        rows = list(_PLAIN.iter_unpack(self.buffer[self.position : self.position + size]))
        if any(row[3:] != (1, 0, 0) for row in rows):
            return False
        found.offsets.update({(topic, row[0]): OffsetAndMetadata(row[1], row[2]) for row in rows if row[1] >= 0})
        self.position += size
        return True

    def _partition(self, topic: str, found: GroupOffsets) -> None:
        index, offset, *epoch = self.unpack(self.layout)
        metadata = self.string() or ""
        error = error_of(self.int16())
        self.skip_tags()
        if error is not None:
            found.errors[topic, index] = error
        elif offset >= 0:
            found.offsets[topic, index] = OffsetAndMetadata(offset, epoch[0] if epoch else -1, metadata)


class AlteredOffsets(NamedTuple):
    """What became of a group's new offsets: the partitions that failed, or the error of all."""

    errors: dict[TopicPartition, KafkaError]
    error: KafkaError | None = None


def alter_offsets(
    admin: AdminClient,
    offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
    timeout_ms: int | None = None,
) -> dict[str, AlteredOffsets]:
    """Commit these offsets for groups without members (OffsetCommit as nobody: generation -1)."""

    def build(group_id: str, version: int) -> Fields:
        topics: dict[str, list[Fields]] = {}
        for (topic, partition), new in offsets[group_id].items():
            entry: Fields = {
                "partition_index": partition,
                "committed_offset": new.offset,
                "committed_metadata": new.metadata,
            }
            if version >= 6:
                entry["committed_leader_epoch"] = new.leader_epoch
            topics.setdefault(topic, []).append(entry)
        generation = "generation_id_or_member_epoch"
        return {
            "group_id": group_id,
            generation: -1,
            "member_id": "",
            "topics": [{"name": name, "partitions": entries} for name, entries in topics.items()],
            **({"retention_time": -1} if version in (2, 3, 4) else {}),
        }

    request = one_key_each(ApiKey.OFFSET_COMMIT, build, _read_commit, max_version=_NEWEST_COMMIT)
    results = ask_coordinators(admin, offsets, request, timeout_ms=timeout_ms)
    return {
        group_id: AlteredOffsets({}, found) if isinstance(found, KafkaError) else found
        for group_id, found in results.items()
    }


def _read_commit(answer: Answer, group_id: str) -> AlteredOffsets | KafkaError:
    """Errors of the coordinator stand at every partition: then they are the group's."""
    errors = {
        (topic.name, part.partition_index): error
        for topic in answer.entity.topics
        for part in topic.partitions
        if (error := error_of(part.error_code)) is not None
    }
    for error in errors.values():
        if error.name in _OF_THE_GROUP:
            return error
    return AlteredOffsets(errors)


_OF_THE_GROUP = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "GROUP_AUTHORIZATION_FAILED",
        "INVALID_GROUP_ID",
        "UNKNOWN_MEMBER_ID",
        "ILLEGAL_GENERATION",
        "STALE_MEMBER_EPOCH",
        "REBALANCE_IN_PROGRESS",
        "GROUP_ID_NOT_FOUND",
    }
)


def delete_offsets(
    admin: AdminClient, group_id: str, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
) -> AlteredOffsets:
    """Forget a group's offsets of partitions; those whose topic the group reads now are refused (OffsetDelete)."""
    topics: dict[str, list[dict[str, int]]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append({"partition_index": partition})
    fields = {
        "group_id": group_id,
        "topics": [{"name": name, "partitions": entries} for name, entries in topics.items()],
    }

    def read(answer: Answer, group_id: str) -> AlteredOffsets | KafkaError:
        found = answer.entity
        errors = {
            (topic.name, part.partition_index): error
            for topic in found.topics
            for part in topic.partitions
            if (error := error_of(part.error_code)) is not None
        }
        return error_of(found.error_code) or AlteredOffsets(errors)

    request = one_key_each(ApiKey.OFFSET_DELETE, lambda key, version: fields, read)
    found = ask_coordinators(admin, [group_id], request, timeout_ms=timeout_ms)[group_id]
    return AlteredOffsets({}, found) if isinstance(found, KafkaError) else found
