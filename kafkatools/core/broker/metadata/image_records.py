"""The metadata image as the records of a `__cluster_metadata` snapshot, in the order of MetadataImage.write: feature
levels come first, so that a reader knows the metadata version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from kafkatools.core.broker.metadata.controller import features
from kafkatools.core.broker.metadata.image import MetadataImage, PartitionState
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import ConfigRecord, PartitionRecord, ProducerIdsRecord, TopicRecord

PARTITION_FIELDS = tuple(field.name for field in fields(PartitionState))  # the fields of a PartitionRecord but topic_id


def image_records(image: MetadataImage) -> Iterator[Any]:
    """Yield the records that restore the image when they are replayed into an empty one; those of an open transaction
    are left out."""
    yield from features.records(image.features)
    yield from _cluster_records(image)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition in topic.partitions.values():
            values = {name: getattr(partition, name) for name in PARTITION_FIELDS}
            yield PartitionRecord(topic_id=topic.topic_id, **values)
    yield from _other_records(image)


def copy_image(image: MetadataImage) -> MetadataImage:
    """Return an independent copy of the image, including an open transaction."""
    copy = MetadataImage()
    for record in (*features.records(image.features), *_cluster_records(image), *_other_records(image)):
        copy.replay(record)
    for topic in image.topics.values():  # a record of each partition would take ten times as long
        partitions = {index: replace(partition) for index, partition in topic.partitions.items()}
        copied = replace(topic, partitions=partitions)
        copy.topics[topic.name] = copy.topics_by_id[topic.topic_id] = copied
    pending = image.transactions.pending
    copy.transactions.pending = None if pending is None else list(pending)
    copy.take_delta()
    return copy


def _other_records(image: MetadataImage) -> Iterator[Entity]:
    """Yield the records of everything but features, nodes and topics."""
    for (kind, resource), settings in image.configs.items():
        for name, value in settings.items():
            yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    yield from image.client_quotas.records()
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.records()
    yield from image.scram.records()
    yield from image.delegation_tokens.values()


def _cluster_records(image: MetadataImage) -> Iterator[Any]:
    """Yield the brokers' registrations with their current state, then the controllers'."""
    for broker_id, registration in image.registrations.items():
        broker = image.brokers[broker_id]
        now = {
            "fenced": broker.is_fenced,
            "in_controlled_shutdown": broker.in_controlled_shutdown,
            "log_dirs": broker.log_dirs,
            "cordoned_log_dirs": broker.cordoned_log_dirs or None,
        }
        yield registration.replaced(**{name: value for name, value in now.items() if hasattr(registration, name)})
    yield from image.controllers.values()
