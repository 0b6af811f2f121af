"""New partitions of one topic, very many of them: planned in slices and added at once.

Rules: the records are computed and encoded while the thread's pause lets other requests run, against the brokers and
feature levels of the beginning. If these have changed at the end, the plan is made again. The encoded records are one
batch, whatever their number, so a topic is created or grown as a whole even when the controller loses the leadership.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkatools.core.broker.metadata.batches import EncodedBatch
from kafkatools.core.broker.metadata.image import MetadataImage, PartitionState, partition_state
from kafkatools.core.protocol.schemas.metadata import PartitionRecord
from kafkatools.core.protocol.slices import paced, pausing

PARTITIONS_AT_ONCE = 250
"""Planning, writing and replaying the records of a new partition takes 15 us."""
MOST_PLANS = 3


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """New partitions of one topic: the other records of the change, the partitions by number, and all records as an
    encoded batch."""

    topic_id: uuid.UUID
    others: Sequence[Any]
    partitions: dict[int, PartitionState]
    batch: EncodedBatch


def encoded(topic_id: uuid.UUID, records: Sequence[Any], wall_ms: int) -> NewPartitions:
    """Encode the records that create or grow a topic, and call the thread's pause in between."""
    partitions, others = {}, []
    for record in paced(records):
        if type(record).__schema__.name == PartitionRecord.name:
            partitions[record.partition_id] = partition_state(record)
        else:
            others.append(record)
    return NewPartitions(topic_id, others, partitions, EncodedBatch(records, wall_ms))


def plan_in_slices(
    image: Callable[[], MetadataImage],
    plan: Callable[[MetadataImage], NewPartitions],
    basis: Callable[[], object] = lambda: None,
) -> NewPartitions:
    """Call `plan`, which may pause, with an image whose brokers and feature levels stay as they are. If at the end they
    have changed in the controller's image, or `basis` returns another value, call `plan` again, the last time without
    pauses. Raises the errors of `plan`, and of `image` when this node is no longer the controller."""
    for _ in range(MOST_PLANS):
        view, before = _view(image()), basis()
        result = plan(view)
        if view.brokers == image().brokers and view.features == image().features and before == basis():
            return result
    with pausing(None):
        return plan(image())


def _view(image: MetadataImage) -> MetadataImage:
    """Return an image with copies of the brokers and feature levels, and with the topics of `image` themselves."""
    view = MetadataImage()
    view.brokers = {broker_id: replace(broker) for broker_id, broker in image.brokers.items()}
    view.features = dict(image.features)
    view.topics, view.topics_by_id = image.topics, image.topics_by_id
    return view
