"""OffsetFetch responses framed by hand, versions 1-10: a tool asks for every offset of every group at once, and a
hundred thousand partitions must not take seconds.

A partition without metadata, which nearly all are, is one `pack`. Layouts as in OffsetFetchResponse.json.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

from kafkatools.core.protocol.slices import paced
from kafkatools.core.protocol.varints import unsigned_varint

FIRST_VERSION_OF_ERRORS = 2
FIRST_VERSION_OF_THROTTLE = 3
FIRST_VERSION_OF_LEADER_EPOCH = 5
FIRST_FLEXIBLE_VERSION = 6
FIRST_VERSION_OF_BATCHES = 8
FIRST_VERSION_OF_IDS = 10
_INT, _SHORT = Struct(">i"), Struct(">h")
_PLACE = Struct(">iq")
_PLACE_AND_EPOCH = Struct(">iqi")
_PLAIN = Struct(">iqiBhB")  # compact: no metadata (length + 1), error code, no tagged fields
_EMPTY_METADATA, _NO_TAGS = 1, 0
_ERROR_AND_TAGS = Struct(">hB")
_ZERO_ID = bytes(16)


class PartitionRow(NamedTuple):
    """One partition of the answer."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error_code: int


class TopicRows(NamedTuple):
    """One topic of the answer."""

    name: str
    topic_id: uuid.UUID | None
    partitions: Sequence[PartitionRow]


class GroupRows(NamedTuple):
    """One group of the answer."""

    group_id: str
    topics: Sequence[TopicRows]
    error_code: int = 0


def response_body(version: int, groups: Sequence[GroupRows]) -> bytes:
    """The body; before version 8 of the one group there is."""
    throttle = _INT.pack(0) if version >= FIRST_VERSION_OF_THROTTLE else b""
    if version >= FIRST_VERSION_OF_BATCHES:
        parts = [throttle, unsigned_varint(len(groups) + 1)]
        for group in paced(groups):
            parts.append(_compact(group.group_id))
            parts += _flexible_topics(version, group.topics)
            parts.append(_ERROR_AND_TAGS.pack(group.error_code, _NO_TAGS))
        return b"".join([*parts, b"\0"])
    (group,) = groups
    if version >= FIRST_FLEXIBLE_VERSION:
        tail = _ERROR_AND_TAGS.pack(group.error_code, _NO_TAGS)
        return b"".join([throttle, *_flexible_topics(version, group.topics), tail])
    tail = _SHORT.pack(group.error_code) if version >= FIRST_VERSION_OF_ERRORS else b""
    return b"".join([throttle, *_plain_topics(version, group.topics), tail])


def _flexible_topics(version: int, topics: Sequence[TopicRows]) -> Iterable[bytes]:
    yield unsigned_varint(len(topics) + 1)
    for topic in topics:
        if version >= FIRST_VERSION_OF_IDS:
            yield _ZERO_ID if topic.topic_id is None else topic.topic_id.bytes
        else:
            yield _compact(topic.name)
        yield unsigned_varint(len(topic.partitions) + 1)
        for partition, offset, leader_epoch, metadata, error_code in paced(topic.partitions):
            if metadata:
                yield _PLACE_AND_EPOCH.pack(partition, offset, leader_epoch)
                yield _compact(metadata) + _ERROR_AND_TAGS.pack(error_code, _NO_TAGS)
            else:
                yield _PLAIN.pack(partition, offset, leader_epoch, _EMPTY_METADATA, error_code, _NO_TAGS)
        yield b"\0"


def _plain_topics(version: int, topics: Sequence[TopicRows]) -> Iterable[bytes]:
    yield _INT.pack(len(topics))
    for topic in topics:
        yield _string(topic.name) + _INT.pack(len(topic.partitions))
        for partition, offset, leader_epoch, metadata, error_code in paced(topic.partitions):
            if version >= FIRST_VERSION_OF_LEADER_EPOCH:
                yield _PLACE_AND_EPOCH.pack(partition, offset, leader_epoch)
            else:
                yield _PLACE.pack(partition, offset)
            yield _string(metadata) + _SHORT.pack(error_code)


def _compact(text: str) -> bytes:
    data = text.encode()
    return unsigned_varint(len(data) + 1) + data


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data
