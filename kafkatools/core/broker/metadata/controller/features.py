"""Changes of finalized feature levels: validation and the resulting records.

Source: FeatureControlManager and QuorumFeatures of Apache Kafka 4.3. Functions are pure: they take the current levels
and return records. A request changes all of its features or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.broker.metadata.batches import SUPPORTED_FEATURES
from kafkatools.core.broker.metadata.feature_levels import DEPENDENCIES, METADATA_LEVELS, METADATA_VERSION
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.errors import InvalidUpdateVersion
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import FeatureLevelRecord

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
KRAFT_VERSION = "kraft.version"
METADATA_CHANGED = frozenset((8, 11, 13, 14, 15, 17, 23, 30))
"""Metadata versions that added records or fields: a downgrade below one of them may lose metadata (MetadataVersion)."""


class FeatureUpdate(NamedTuple):
    """One feature of an UpdateFeatures request."""

    name: str
    level: int
    upgrade_type: int = UPGRADE


Supported = Mapping[str, Mapping[str, tuple[int, int]]]
"""Node (`Broker 2`, `Controller 3`) -> feature -> lowest and highest level."""


def supported_levels(image: MetadataImage, node_id: int) -> Supported:
    """Return the feature levels that the registered nodes support, except this controller (QuorumFeatures)."""
    nodes = [(f"Broker {broker_id}", broker) for broker_id, broker in sorted(image.registrations.items())]
    nodes += [(f"Controller {i}", controller) for i, controller in sorted(image.controllers.items()) if i != node_id]
    return {
        name: {
            feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in node.features
        }
        for name, node in nodes
    }


def update_records(
    levels: Mapping[str, int], node_id: int, updates: Sequence[FeatureUpdate], supported: Supported | None = None
) -> list[Entity]:
    """Return the records that change feature levels: none for a level that stays, or for kraft.version. Raises
    InvalidUpdateVersion if any of them may not change."""
    by_name = {update.name: update for update in updates}
    proposed = {**levels, **{update.name: update.level for update in by_name.values()}}
    records = []
    for name in hash_order(by_name):  # the first error is the one that is named
        update = by_name[name]
        problem = _problem(levels, proposed, node_id, update, supported or {})
        if problem is not None:
            raise refused(problem)
        if update.level != levels.get(update.name, 0) and update.name != KRAFT_VERSION:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return records


def refused(problem: str) -> InvalidUpdateVersion:
    """Return the error of an update of which one feature cannot be changed."""
    return InvalidUpdateVersion(
        f"The update failed for all features since the following feature had an error: {problem}"
    )


def _problem(
    levels: Mapping[str, int], proposed: Mapping[str, int], node_id: int, update: FeatureUpdate, supported: Supported
) -> str | None:
    """Return the error message of one update, None if it is valid (updateFeature)."""
    reason = _reason(levels, proposed, node_id, update) or _unsupported(update, supported)
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    current = levels.get(update.name, 0)
    if update.name == METADATA_VERSION and update.level < current:
        return _metadata_downgrade(current, update)
    return None


def _reason(levels: Mapping[str, int], proposed: Mapping[str, int], node_id: int, update: FeatureUpdate) -> str | None:
    name, level, upgrade_type = update
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
    if name == KRAFT_VERSION and level < current:
        return "Can't downgrade the version of this feature."
    needed = DEPENDENCIES.get((name, level))
    if needed is not None and proposed.get(METADATA_VERSION, 0) < METADATA_LEVELS[needed]:
        lowest = METADATA_LEVELS[needed]
        return f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {lowest}"
    return None


def _unsupported(update: FeatureUpdate, supported: Supported) -> str | None:
    """Return which node does not support a level, None if all do (reasonNotSupported). Every node supports level 0."""
    for member, features in supported.items():
        lowest, highest = features.get(update.name, (0, 0))
        if update.level == 0 or lowest <= update.level <= highest:
            continue
        if update.name not in features:
            return f"{member} does not support this feature."
        return f"{member} only supports versions {lowest}-{highest}"
    return None


def _metadata_downgrade(current: int, update: FeatureUpdate) -> str | None:
    if not any(level in METADATA_CHANGED for level in range(update.level + 1, current + 1)):
        return None
    text = f"Unsupported metadata.version downgrade from {current} to {update.level}. "
    if update.upgrade_type == UNSAFE_DOWNGRADE:
        return text + "Unsafe metadata downgrade is not supported in this version."
    return text + "Refusing to perform the requested downgrade because it might delete metadata information."


def records(levels: Mapping[str, int]) -> Iterator[Entity]:
    """Yield the records of all levels for a snapshot, the metadata version first: later records depend on it."""
    for name in sorted(levels, key=lambda name: (name != METADATA_VERSION, name)):
        if levels[name] > 0:
            yield FeatureLevelRecord(name=name, feature_level=levels[name])
