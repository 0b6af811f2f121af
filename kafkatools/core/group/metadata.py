"""The identity of a group member and a committed offset, for commits of consumers and transactions (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from kafkatools.core.net.sendable_names import ensure_sendable_topic
from kafkatools.core.topic_partition import TopicPartition, topic_fields

Place = TypeVar("Place", bound=tuple[str, int])

NO_GENERATION = -1
NO_MEMBER_ID = ""
NO_EPOCH = -1


class ConsumerGroupMetadata(NamedTuple):
    """A group member's identity; `generation_id` is the member epoch in KIP-848 groups. -1 and "" stand for no
    member."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next record to read, the previous record's leader epoch (-1 = unknown), and a text."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


def commit_topics(
    offsets: Iterable[tuple[tuple[str, int], OffsetAndMetadata]], *, has_epochs: bool
) -> list[dict[str, object]]:
    """Return the topics field of OffsetCommit or TxnOffsetCommit, with leader epochs if `has_epochs`."""

    def entry(partition: int, new: OffsetAndMetadata) -> dict[str, object]:
        epoch = {"committed_leader_epoch": new.leader_epoch} if has_epochs else {}
        committed = {"committed_offset": new.offset, "committed_metadata": new.metadata}
        return {"partition_index": partition, **committed, **epoch}

    return topic_fields((part, entry(part[1], new)) for part, new in offsets)


def offsets_to_commit(offsets: Mapping[Place, OffsetAndMetadata | int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Convert bare offsets to OffsetAndMetadata. Raises ValueError for a negative offset, as Kafka's OffsetAndMetadata
    does, UnicodeEncodeError for lone surrogates in a topic or a metadata text, InvalidTopic for a name that no request
    can hold."""
    converted: dict[TopicPartition, OffsetAndMetadata] = {}
    for place, offset in offsets.items():
        new = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        if new.offset < 0:
            raise ValueError("Invalid negative offset")
        partition = TopicPartition(*place)
        ensure_sendable_topic(partition.topic)
        new.metadata.encode()
        converted[partition] = new
    return converted
