"""Apache Kafka releases, their metadata versions, and the default level of each feature.

Sources: org.apache.kafka.server.common.MetadataVersion and Feature of Apache Kafka 4.3. A release such as `4.0` means
its last metadata version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

METADATA_VERSION = "metadata.version"
LATEST_RELEASE = "4.3-IV0"
_LOWEST_LEVEL = 7
_RELEASES = (
    "3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 "
    "3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0"
)
METADATA_LEVELS = {name: _LOWEST_LEVEL + index for index, name in enumerate(_RELEASES.split())}
UNSTABLE_LEVELS = {"4.4-IV0": 31}
"""The metadata versions that Apache Kafka 4.3 has for tests only."""


class Feature(NamedTuple):
    """A feature but metadata.version: its highest level, and the first metadata version with a level as default."""

    highest: int
    default_from: Mapping[int, str]


FEATURES = {
    "kraft.version": Feature(1, {1: "3.9-IV0"}),
    "transaction.version": Feature(2, {2: "4.0-IV2"}),
    "group.version": Feature(1, {1: "4.0-IV0"}),
    "eligible.leader.replicas.version": Feature(1, {1: "4.1-IV0"}),
    "share.version": Feature(1, {1: "4.2-IV0"}),
    "streams.version": Feature(1, {1: "4.2-IV1"}),
}
DEPENDENCIES = {("eligible.leader.replicas.version", 1): "4.0-IV1"}
"""Feature and level -> the lowest metadata version that it requires."""


def metadata_level(release: str) -> int | None:
    """Return the metadata version level of a release such as `4.0` or `4.0-IV3`, None for an unknown release."""
    if release in METADATA_LEVELS:
        return METADATA_LEVELS[release]
    made_for = [level for name, level in METADATA_LEVELS.items() if name.split("-")[0] == release]
    return max(made_for, default=None)


def release_of(level: int) -> str:
    """Return the release of a metadata version level: 25 gives `4.0-IV3`. Raises KeyError for an unknown level."""
    return {number: name for name, number in METADATA_LEVELS.items()}[level]


def required_levels(name: str, level: int) -> dict[str, int]:
    """Return the minimum levels of other features that a feature level depends on."""
    release = DEPENDENCIES.get((name, level))
    return {} if release is None else {METADATA_VERSION: METADATA_LEVELS[release]}


def dependency_lines(label: str, required: Mapping[str, int]) -> list[str]:
    """Return the lines in which Kafka's tools print the dependencies of a feature level."""
    if not required:
        return [f"{label} has no dependencies."]
    return [f"{label} requires:", *(f"    {name}={level} ({release_of(level)})" for name, level in required.items())]


def default_levels(level: int) -> dict[str, int]:
    """Return the default level of every feature for a metadata version level, in Kafka's order."""
    return {
        name: max(
            (number for number, since in feature.default_from.items() if METADATA_LEVELS[since] <= level), default=0
        )
        for name, feature in FEATURES.items()
    }
