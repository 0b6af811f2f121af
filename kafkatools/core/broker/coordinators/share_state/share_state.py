"""The persisted state of one share partition (Kafka's ShareGroupOffset and PersisterStateBatchCombiner).

A state is a start offset and, above it, batches of offsets in a delivery state. Where batches overlap the later write
wins; adjacent batches with the same delivery state and delivery count are joined.
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
    """The key of a share partition: group, topic id and partition."""

    group_id: str
    topic_id: uuid.UUID
    partition: int


def name_of(key: ShareKey) -> str:
    """The name of a share partition in FindCoordinator: `group:topic id:partition`."""
    return f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}"


class StateBatch(NamedTuple):
    """A range of offsets in one delivery state (0 available, 2 acknowledged, 4 archived), with its delivery count."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareState:
    """The persisted state of a share partition. Timestamps are in ms since 1970."""

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
        """The state after an update. A `start_offset` or `leader_epoch` of -1 keeps the present one;
        `delivery_complete_count` is set even to -1. The state epoch, snapshot epoch and timestamps stay."""
        start = self.start_offset if start_offset == UNINITIALIZED_START_OFFSET else start_offset
        return replace(
            self,
            start_offset=start,
            delivery_complete_count=delivery_complete_count,
            leader_epoch=self.leader_epoch if leader_epoch == -1 else leader_epoch,
            batches=combined(self.batches, batches, start),
        )


def combined(present: Sequence[StateBatch], updates: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Merge updates into the present batches: an update replaces the offsets that it covers. Joins adjacent batches
    with the same delivery state and count, and drops offsets below `start_offset`. Returns batches in offset order."""
    result = list(present)
    for batch in updates:
        result = _laid_over(result, batch)
    remaining = (batch for batch in result if batch.last_offset >= start_offset)
    return tuple(joined(batch._replace(first_offset=max(batch.first_offset, start_offset)) for batch in remaining))


def joined(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Join adjacent batches with the same delivery state and count. The batches are in offset order."""
    result: list[StateBatch] = []
    for batch in batches:
        last = result[-1] if result else None
        if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            result[-1] = last._replace(last_offset=batch.last_offset)
        else:
            result.append(batch)
    return result


def _laid_over(batches: list[StateBatch], update: StateBatch) -> list[StateBatch]:
    before = [batch for batch in batches if batch.first_offset < update.first_offset]
    after = [batch for batch in batches if batch.last_offset > update.last_offset]
    head = [batch._replace(last_offset=min(batch.last_offset, update.first_offset - 1)) for batch in before]
    tail = [batch._replace(first_offset=max(batch.first_offset, update.last_offset + 1)) for batch in after]
    return [*head, update, *tail]


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
"""The fields that ShareState and ShareSnapshotValue have in common."""


def snapshot_record(key: ShareKey, state: ShareState) -> Record:
    """The ShareSnapshot record of a state: key and value bytes."""
    batches = [batch._asdict() for batch in state.batches]
    fields = {name: getattr(state, name) for name in _SNAPSHOT_FIELDS}
    value = schemas.ShareSnapshotValue(**fields, state_batches=batches)
    return schemas.encode_record(schemas.ShareSnapshotKey(**key._asdict()), value)


def update_record(
    key: ShareKey,
    snapshot_epoch: int,
    update: ShareUpdate,
) -> Record:
    """The ShareUpdate record of a change since the snapshot with that epoch: key and value bytes."""
    value = schemas.ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=[batch._asdict() for batch in update.batches],
    )
    return schemas.encode_record(schemas.ShareUpdateKey(**key._asdict()), value)


def tombstone(key: ShareKey) -> Record:
    """The record that deletes the state of a share partition."""
    return schemas.encode_record(schemas.ShareSnapshotKey(**key._asdict()), None)


class ShareUpdate(NamedTuple):
    """A leader's change of a share partition's state. A `leader_epoch` or `start_offset` of -1 changes nothing.
    `state_epoch` is only compared with the stored one (-1: not compared)."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


def key_of(entity: Entity) -> ShareKey:
    """The share partition that the key entity of a record names."""
    return ShareKey(entity.group_id, entity.topic_id, entity.partition)


def state_of(value: Any) -> ShareState:
    """The state that a ShareSnapshotValue entity holds."""
    fields = {name: getattr(value, name) for name in _SNAPSHOT_FIELDS}
    return ShareState(**fields, batches=batches_of(value.state_batches))


def batches_of(entities: Iterable[Any]) -> tuple[StateBatch, ...]:
    """The state batches of a record entity or a request entity."""
    return tuple(StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in entities)
