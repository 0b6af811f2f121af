"""Registrations of brokers and controllers: validation and the resulting records.

Source: ClusterControlManager of Apache Kafka 4.3. Functions are pure. A broker epoch is the metadata offset at which
the registration was decided. Every request of a broker names it, so that an earlier incarnation is recognized.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkatools.core.broker.metadata.batches import SUPPORTED_FEATURES
from kafkatools.core.broker.metadata.controller.partition_change import DIRECTORIES_SINCE
from kafkatools.core.broker.metadata.directory_ids import is_reserved
from kafkatools.core.broker.metadata.feature_levels import METADATA_LEVELS, METADATA_VERSION
from kafkatools.core.broker.metadata.image import BrokerState, MetadataImage
from kafkatools.core.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.schemas.metadata import RegisterBrokerRecord, RegisterControllerRecord
from kafkatools.core.protocol.uuids import uuid_text

CONTROLLERS_SINCE = METADATA_LEVELS["3.7-IV0"]
CORDONED_SINCE = METADATA_LEVELS["4.3-IV0"]
_ENDPOINT = ("name", "host", "port", "security_protocol")
_FEATURE = ("name", "min_supported_version", "max_supported_version")


def supported_features() -> list[Fields]:
    """Return the supported feature levels as the features field of a registration."""
    return [
        {"name": name, "min_supported_version": low, "max_supported_version": high}
        for name, (low, high) in SUPPORTED_FEATURES.items()
    ]


def check_broker_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerState:
    """Return the registered broker. Raises StaleBrokerEpoch if it is not registered, or has another epoch."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"No broker registration found for broker id {broker_id}")
    if broker.epoch != epoch:
        raise StaleBrokerEpoch(f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")
    return broker


def check_registration(image: MetadataImage, cluster_id: str, entity: Entity, *, has_session: bool) -> None:
    """Check that a broker may register, where `has_session` says whether the registered incarnation has a valid
    session. Raises InconsistentClusterId, DuplicateBrokerRegistration, BrokerIdNotRegistered, InvalidRegistration,
    UnsupportedVersion."""
    if entity.cluster_id != cluster_id:
        raise InconsistentClusterId(f"Expected cluster ID {cluster_id}, but got cluster ID {entity.cluster_id}")
    registered = image.brokers.get(entity.broker_id)
    if registered is not None and has_session and registered.incarnation_id != entity.incarnation_id:
        raise DuplicateBrokerRegistration(
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session."
        )
    if getattr(entity, "is_migrating_zk_broker", False):
        raise BrokerIdNotRegistered("Controller does not support registering ZK brokers.")
    if image.features.get(METADATA_VERSION, 0) >= DIRECTORIES_SINCE:
        _check_directories(image, entity.broker_id, getattr(entity, "log_dirs", ()))
    _check_features(image.features, entity.features)


def _check_directories(image: MetadataImage, broker_id: int, directories: Sequence[uuid.UUID | None]) -> None:
    if not directories:
        raise InvalidRegistration("No directories specified in request")
    if any(is_reserved(directory) for directory in directories):
        raise InvalidRegistration("Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise InvalidRegistration("Duplicate directory ID in request")
    for directory in directories:
        for broker in image.brokers.values():
            if broker.broker_id != broker_id and directory in broker.log_dirs:
                assert directory is not None
                raise InvalidRegistration(
                    f"Broker {broker.broker_id} is already registered with directory {uuid_text(directory)}"
                )


def _check_features(levels: Mapping[str, int], supported: Iterable[Any]) -> None:
    ranges = {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in supported}
    for name, (lowest, highest) in ranges.items():
        _check_feature(name, levels.get(name, 0), lowest, highest)
    if METADATA_VERSION not in ranges:
        raise InvalidRegistration(f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in levels.items():
        if name not in ranges:
            _check_feature(name, level, 0, 0)


def _check_feature(name: str, level: int, lowest: int, highest: int) -> None:
    if not lowest <= level <= highest:
        raise UnsupportedVersion(
            f"Unable to register because the broker does not support finalized version {level} of {name}. The broker "
            f"wants a version between {lowest} and {highest}, inclusive."
        )


def registration_record(image: MetadataImage, entity: Entity, epoch: int) -> Any:
    """Return the RegisterBrokerRecord of a broker. A new incarnation is fenced and gets `epoch`; the same one keeps its
    state and epoch."""
    current = image.brokers.get(entity.broker_id)
    if current is not None and current.incarnation_id != entity.incarnation_id:
        current = None
    version = _register_version(image.features.get(METADATA_VERSION, 0))
    fields: Fields = {
        "broker_id": entity.broker_id,
        "incarnation_id": entity.incarnation_id,
        "broker_epoch": epoch if current is None else current.epoch,
        "end_points": [_picked(listener, _ENDPOINT) for listener in entity.listeners],
        "features": [_picked(feature, _FEATURE) for feature in entity.features],
        "rack": entity.rack,
        "fenced": current is None or current.is_fenced,
    }
    if current is not None:
        fields["in_controlled_shutdown"] = current.in_controlled_shutdown
    if version >= 3:
        fields["log_dirs"] = tuple(entity.log_dirs)
    return RegisterBrokerRecord(version=version, **fields)


def _register_version(level: int) -> int:
    """Return the version of RegisterBrokerRecord at a metadata version level (registerBrokerRecordVersion)."""
    if level >= CORDONED_SINCE:
        return 4
    if level >= DIRECTORIES_SINCE:
        return 3
    return 2 if level >= METADATA_LEVELS["3.4-IV0"] else 1


def _picked(entity: Any, names: Sequence[str]) -> Fields:
    return {name: getattr(entity, name) for name in names}


def controller_record(image: MetadataImage, entity: Entity) -> Any:
    """Return the record of a controller's registration (KIP-919). Raises UnsupportedVersion."""
    if image.features.get(METADATA_VERSION, 0) < CONTROLLERS_SINCE:
        raise UnsupportedVersion("The current MetadataVersion is too old to support controller registrations.")
    return RegisterControllerRecord(
        controller_id=entity.controller_id,
        incarnation_id=entity.incarnation_id,
        end_points=[_picked(listener, _ENDPOINT) for listener in entity.listeners],
        features=[_picked(feature, _FEATURE) for feature in entity.features],
    )
