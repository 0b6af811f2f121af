"""What a group knows of a member and of an offset, as consumers commit it and producers send it (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkatools.core.topic_partition import topic_fields

NO_GENERATION = -1
NO_MEMBER_ID = ""
NO_EPOCH = -1


class ConsumerGroupMetadata(NamedTuple):
    """A member of a group at one moment; the generation is the member epoch under the protocol of KIP-848."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next record to read, the leader epoch of the record before it (-1 = not known), text."""

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""


def commit_topics(
    offsets: Iterable[tuple[tuple[str, int], OffsetAndMetadata]], *, has_epochs: bool
) -> list[dict[str, object]]:
    """The topics of a request that commits offsets. `has_epochs`: its version has leader epochs."""

    def entry(partition: int, new: OffsetAndMetadata) -> dict[str, object]:
        epoch = {"committed_leader_epoch": new.leader_epoch} if has_epochs else {}
        committed = {"committed_offset": new.offset, "committed_metadata": new.metadata}
        return {"partition_index": partition, **committed, **epoch}

    return topic_fields((part, entry(part[1], new)) for part, new in offsets)


def committed(offset: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """What is committed for an offset that may be a bare number."""
    return OffsetAndMetadata(offset) if isinstance(offset, int) else offset
