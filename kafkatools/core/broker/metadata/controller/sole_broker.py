"""The registration records of a node that is a quorum of one.

Its controller and broker start together and no other broker can lead meanwhile, so the broker is unfenced at once.
After a clean stop it keeps its leader epochs.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from kafkatools.core.broker.metadata.controller.partition_change import record_version
from kafkatools.core.broker.metadata.controller.registrations import supported_features
from kafkatools.core.broker.metadata.directory_ids import default_directory
from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.schemas.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from kafkatools.core.protocol.uuids import random_uuid, uuid_from_text

CONTROLLER_LISTENER = "CONTROLLER"
ELR_FIELDS = ("eligible_leader_replicas", "last_known_elr")
EndPoint = tuple[str, str, int, int]
"""Name, host, port and security protocol's id of a listener."""
TopicsOnDisk = Mapping[tuple[str, str], Mapping[int, int]]
"""(topic name, topic id) -> partition -> leader epoch."""


def _endpoint(name: str, host: str, port: int, protocol: int) -> Fields:
    return {"name": name, "host": host, "port": port, "security_protocol": protocol}


def controller_registration(node_id: int, endpoints: Sequence[EndPoint]) -> Entity:
    """Return the controller's registration, with the first listener's host and port as its own."""
    return RegisterControllerRecord(
        controller_id=node_id,
        incarnation_id=random_uuid(),
        end_points=[_endpoint(CONTROLLER_LISTENER, host, port, protocol) for _, host, port, protocol in endpoints[:1]],
        features=supported_features(),
    )


def broker_registration(
    node_id: int,
    epoch: int,
    endpoints: Sequence[EndPoint],
    directory_ids: Sequence[uuid.UUID | None],
    rack: str | None,
) -> Entity:
    """Return the fenced broker's registration; `directory_ids` are its online log directories."""
    return RegisterBrokerRecord(
        version=3,
        broker_id=node_id,
        incarnation_id=random_uuid(),
        broker_epoch=epoch,
        end_points=[_endpoint(*endpoint) for endpoint in endpoints],
        features=supported_features(),
        rack=rack,
        fenced=True,
        log_dirs=tuple(directory_ids),
    )


def unfencing(node_id: int, epoch: int) -> Entity:
    """Return the record that unfences the broker."""
    return BrokerRegistrationChangeRecord(version=0, broker_id=node_id, broker_epoch=epoch, fenced=-1)


def leadership_records(image: MetadataImage, node_id: int, *, new_epochs: bool) -> list[Entity]:
    """Return the records that make the node lead every partition it has a replica of, as the only ISR member.
    Partitions that it already leads are left out, unless `new_epochs` asks for new leader epochs."""
    version = record_version(image.features.get(METADATA_VERSION, 0))
    return [
        PartitionChangeRecord(
            version=version,
            partition_id=partition.partition_id,
            topic_id=topic.topic_id,
            isr=None if partition.isr == (node_id,) else (node_id,),
            leader=node_id,
            **{name: () for name in ELR_FIELDS if getattr(partition, name)},
        )
        for topic in image.topics.values()
        for partition in topic.partitions.values()
        if node_id in partition.replicas and (new_epochs or partition.leader != node_id)
    ]


def adoption_records(
    image: MetadataImage, node_id: int, topic: tuple[str, str], epochs: Mapping[int, int]
) -> list[Entity]:
    """Return the records of a topic (name, id) that is only on disk, with the leader epoch of each partition."""
    name, topic_id = topic[0], uuid_from_text(topic[1])
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=(node_id,),
            isr=(node_id,),
            leader=node_id,
            leader_epoch=epoch,
            partition_epoch=0,
            directories=(default_directory(image, node_id),),
        )
        for index, epoch in sorted(epochs.items())
    ]
    return [TopicRecord(name=name, topic_id=topic_id), *partitions]
