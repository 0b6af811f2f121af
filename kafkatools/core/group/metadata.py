"""What a group knows of a member and of an offset, as consumers commit it and producers send it (KIP-447)."""

from __future__ import annotations

from typing import NamedTuple

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


def committed(offset: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """What is committed for an offset that may be a bare number."""
    return OffsetAndMetadata(offset) if isinstance(offset, int) else offset
