"""The state of one share partition as it is kept (Kafka's ShareGroupOffset and PersisterStateBatchCombiner).

A state is a start offset and, above it, batches of offsets in a delivery state. What is written later wins where
batches overlap; neighbours in the same state are joined.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas import share_group_state as schemas
from kafkatools.core.protocol.uuids import uuid_text

UNINITIALIZED_START_OFFSET = -1
UNINITIALIZED_COUNT = -1


class ShareKey(NamedTuple):
    """A share partition."""

    group_id: str
    topic_id: uuid.UUID
    partition: int


def name_of(key: ShareKey) -> str:
    """What FindCoordinator calls a share partition."""
    return f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}"


class StateBatch(NamedTuple):
    """Offsets in one state (0 available, 2 acknowledged, 4 archived), and how often they were delivered."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """What is known of a share partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_COUNT
    create_timestamp: int = 0
    write_timestamp: int = 0
    batches: tuple[StateBatch, ...] = ()

    def with_update(
        self, start_offset: int, delivery_complete_count: int, leader_epoch: int, batches: Iterable[StateBatch]
    ) -> ShareState:
        """The state after an update; what is not said stays."""
        start = self.start_offset if start_offset == UNINITIALIZED_START_OFFSET else start_offset
        return replace(
            self,
            start_offset=start,
            delivery_complete_count=delivery_complete_count,
            leader_epoch=self.leader_epoch if leader_epoch == -1 else leader_epoch,
            batches=combined(self.batches, batches, start),
        )


def combined(known: Sequence[StateBatch], said: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Batches that hold after others were written over them; nothing below the start offset."""
    result = list(known)
    for batch in said:
        result = _laid_over(result, batch)
    joined: list[StateBatch] = []
    for batch in result:
        if batch.last_offset < start_offset:
            continue
        kept = batch._replace(first_offset=max(batch.first_offset, start_offset))
        last = joined[-1] if joined else None
        if last is not None and last.last_offset + 1 == kept.first_offset and last[2:] == kept[2:]:
            joined[-1] = last._replace(last_offset=kept.last_offset)
        else:
            joined.append(kept)
    return tuple(joined)


def _laid_over(batches: list[StateBatch], said: StateBatch) -> list[StateBatch]:
    before = [each for each in batches if each.first_offset < said.first_offset]
    after = [each for each in batches if each.last_offset > said.last_offset]
    head = [each._replace(last_offset=min(each.last_offset, said.first_offset - 1)) for each in before]
    tail = [each._replace(first_offset=max(each.first_offset, said.last_offset + 1)) for each in after]
    return [*head, said, *tail]


# -- records -----------------------------------------------------------------------------------------------------------
Record = tuple[bytes, bytes | None]


_SNAPSHOT_FIELDS = (
    "snapshot_epoch",
    "state_epoch",
    "leader_epoch",
    "start_offset",
    "delivery_complete_count",
    "create_timestamp",
    "write_timestamp",
)
"""The fields of a state that a ShareSnapshot has by the same names."""


def snapshot_record(key: ShareKey, state: ShareState) -> Record:
    """A ShareSnapshot: all of a state."""
    batches = [batch._asdict() for batch in state.batches]
    fields = {name: getattr(state, name) for name in _SNAPSHOT_FIELDS}
    value = schemas.ShareSnapshotValue(**fields, state_batches=batches)
    return schemas.encode_record(schemas.ShareSnapshotKey(**key._asdict()), value)


def update_record(
    key: ShareKey,
    snapshot_epoch: int,
    update: ShareUpdate,
) -> Record:
    """A ShareUpdate: what changed since the snapshot of that epoch."""
    value = schemas.ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=[batch._asdict() for batch in update.batches],
    )
    return schemas.encode_record(schemas.ShareUpdateKey(**key._asdict()), value)


def tombstone(key: ShareKey) -> Record:
    """What deletes a state."""
    return schemas.encode_record(schemas.ShareSnapshotKey(**key._asdict()), None)


class ShareUpdate(NamedTuple):
    """What a leader writes of a share partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


def key_of(entity: Entity) -> ShareKey:
    """The share partition that a record's key names."""
    return ShareKey(entity.group_id, entity.topic_id, entity.partition)


def state_of(value: Any) -> ShareState:
    """The state of a snapshot's value."""
    fields = {name: getattr(value, name) for name in _SNAPSHOT_FIELDS}
    return ShareState(**fields, batches=batches_of(value.state_batches))


def batches_of(entities: Iterable[Any]) -> tuple[StateBatch, ...]:
    """State batches of a record or a request."""
    return tuple(StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in entities)
