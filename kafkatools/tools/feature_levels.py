"""Feature levels for `kt features` and `kt storage`: checks, and rows and lines to print."""

from __future__ import annotations

from kafkatools.core.broker.metadata import feature_levels as table
from kafkatools.exit_status import CommandError

Shown = tuple[list[dict[str, object]], list[str]]
"""The rows for --json, and the text lines."""


NOT_SUPPORTED = "Feature level {level} is not supported for feature {name}"


def ensure_supported(name: str, level: int, not_supported: str = NOT_SUPPORTED) -> None:
    """Raise CommandError with Kafka's message if this release does not have the feature or its level. `not_supported`
    is the message about a level, which differs between Kafka's tools."""
    if name == table.METADATA_VERSION:
        if level not in table.METADATA_LEVELS.values():
            raise CommandError(f"Unknown metadata.version {level}")
    elif name not in table.FEATURES:
        raise CommandError(f"Unknown feature: {name}")
    elif not 0 <= level <= table.FEATURES[name].highest:
        raise CommandError(not_supported.format(name=name, level=level))


def release_levels(release: str, level: int) -> Shown:
    """The metadata.version level of a release and the default levels of its features, as JSON rows and text lines."""
    levels = table.default_levels(level)
    lines = [f"{table.METADATA_VERSION}={level} ({release})", *(f"{name}={number}" for name, number in levels.items())]
    return [{"release": release, table.METADATA_VERSION: level, **levels}], lines


def dependencies(name: str, level: int, not_supported: str = NOT_SUPPORTED) -> Shown:
    """The feature levels that a level requires, as JSON rows and text. Raises CommandError as `ensure_supported`."""
    ensure_supported(name, level, not_supported)
    needs = table.required_levels(name, level)
    release = f" ({table.release_of(level)})" if name == table.METADATA_VERSION else ""
    lines = table.dependency_lines(f"{name}={level}{release}", needs)
    return [{"feature": name, "level": level, "requires": needs}], lines
