"""Changes of finalized feature levels: validation and the resulting records.

Source: FeatureControlManager and QuorumFeatures of Apache Kafka 4.3. Functions are pure: they take the current levels
and return records. A request changes all of its features or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kafkatools.core.broker.metadata.batches import SUPPORTED_FEATURES
from kafkatools.core.broker.metadata.feature_levels import DEPENDENCIES, METADATA_LEVELS, METADATA_VERSION
from kafkatools.core.errors import InvalidUpdateVersion
from kafkatools.core.protocol.entities import Entity

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
KRAFT_VERSION = "kraft.version"
METADATA_CHANGED = frozenset((8, 11, 13, 14, 15, 17, 23, 30))
"""Metadata versions that brought records or fields: going below one of them might lose metadata (MetadataVersion)."""


class FeatureUpdate(NamedTuple):
    """One feature of an UpdateFeatures request."""

    name: str
    level: int
    upgrade_type: int = UPGRADE


Supported = Mapping[str, Mapping[str, tuple[int, int]]]
"""Who (`Broker 2`, `Controller 3`) -> feature -> lowest and highest level."""


class Registrations(Protocol):
    """The registrations of a cluster's brokers and controllers (`MetadataImage`)."""

    registrations: dict[int, Any]
    controllers: dict[int, Any]


def supported_levels(image: Registrations, node_id: int) -> Supported:
    """Return the feature levels that the registered nodes support, without this controller (QuorumFeatures,
    ClusterSupportDescriber)."""
    members = [(f"Broker {broker_id}", each) for broker_id, each in sorted(image.registrations.items())]
    members += [(f"Controller {i}", each) for i, each in sorted(image.controllers.items()) if i != node_id]
    return {
        name: {each.name: (each.min_supported_version, each.max_supported_version) for each in member.features}
        for name, member in members
    }


def update(
    levels: Mapping[str, int], node_id: int, updates: Sequence[FeatureUpdate], supported: Supported | None = None
) -> list[Entity]:
    """Return the records that change feature levels. Raises InvalidUpdateVersion if any of them may not change."""
    from kafkatools.core.protocol.schemas.metadata import FeatureLevelRecord

    wanted = {each.name: each for each in updates}
    proposed = {**levels, **{each.name: each.level for each in wanted.values()}}
    records = []
    for each in wanted.values():
        problem = _problem(levels, proposed, node_id, each, supported or {})
        if problem is not None:
            raise InvalidUpdateVersion(
                f"The update failed for all features since the following feature had an error: {problem}"
            )
        if each.level != levels.get(each.name, 0) and each.name != KRAFT_VERSION:
            records.append(FeatureLevelRecord(name=each.name, feature_level=each.level))
    return records


def _problem(
    levels: Mapping[str, int],
    proposed: Mapping[str, int],
    node_id: int,
    wanted: FeatureUpdate,
    supported: Supported,
) -> str | None:
    """Return the error message of one update, None if it is valid (updateFeature)."""
    reason = _reason(levels, proposed, node_id, wanted) or _unsupported(wanted, supported)
    if reason is not None:
        return f"Invalid update version {wanted.level} for feature {wanted.name}. {reason}"
    current = levels.get(wanted.name, 0)
    if wanted.name == METADATA_VERSION and wanted.level < current:
        return _metadata_downgrade(current, wanted)
    return None


def _reason(levels: Mapping[str, int], proposed: Mapping[str, int], node_id: int, wanted: FeatureUpdate) -> str | None:
    name, level, upgrade_type = wanted
    current = levels.get(name, 0)
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    lowest, highest = SUPPORTED_FEATURES.get(name, (0, 0))
    if not lowest <= level <= highest:
        if name not in SUPPORTED_FEATURES:
            return f"Local controller {node_id} does not support this feature."
        return f"Local controller {node_id} only supports versions {lowest}-{highest}"
    if name not in SUPPORTED_FEATURES:
        return f"Feature {name} not found."
    if level < current and upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > current and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    if name == KRAFT_VERSION and level != current:
        return "This broker serves a static quorum only."
    needed = DEPENDENCIES.get((name, level))
    if needed is not None and proposed.get(METADATA_VERSION, 0) < METADATA_LEVELS[needed]:
        lowest = METADATA_LEVELS[needed]
        return f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {lowest}"
    return None


def _unsupported(wanted: FeatureUpdate, supported: Supported) -> str | None:
    """Return which node does not support a level, None if all do (reasonNotSupported). Every node supports level 0."""
    for member, features in supported.items():
        lowest, highest = features.get(wanted.name, (0, 0))
        if wanted.level == 0 or lowest <= wanted.level <= highest:
            continue
        if wanted.name not in features:
            return f"{member} does not support this feature."
        return f"{member} only supports versions {lowest}-{highest}"
    return None


def _metadata_downgrade(current: int, wanted: FeatureUpdate) -> str | None:
    if not any(level in METADATA_CHANGED for level in range(wanted.level + 1, current + 1)):
        return None
    text = f"Unsupported metadata.version downgrade from {current} to {wanted.level}. "
    if wanted.upgrade_type == UNSAFE_DOWNGRADE:
        return text + "Unsafe metadata downgrade is not supported in this version."
    return text + "Refusing to perform the requested downgrade because it might delete metadata information."


def records(levels: Mapping[str, int]) -> Iterator[Entity]:
    """Yield the records of all levels for a snapshot. The metadata version comes first, since later records depend on
    it."""
    from kafkatools.core.protocol.schemas.metadata import FeatureLevelRecord

    for name in sorted(levels, key=lambda name: (name != METADATA_VERSION, name)):
        if levels[name] > 0:
            yield FeatureLevelRecord(name=name, feature_level=levels[name])
