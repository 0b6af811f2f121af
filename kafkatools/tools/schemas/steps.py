"""Make the decoding step of a command from settings, with the cache of schemas in kt's directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkatools.tools.schemas.access import registry_access
from kafkatools.tools.schemas.decoding_step import RETRY_MS, DecodingStep, SchemaDecoders
from kafkatools.tools.schemas.registry import SchemaCache, SchemaRegistry

if TYPE_CHECKING:
    from kafkatools.core.clock import Clock

_TIMEOUT_MS = 5_000


def cached_registry(settings: Mapping[str, str], url: str | None, home: str, clock: Clock) -> SchemaRegistry:
    """Return the registry at `url` or of the settings, which stores schemas below `home`. Raises UsageError."""
    access = registry_access(settings, url, _TIMEOUT_MS)
    cache = SchemaCache(os.path.join(home, "schemas"), access)
    return SchemaRegistry(access, cache, retry_ms=RETRY_MS, clock=clock)


def schema_decoders(
    settings: Mapping[str, str], url: str | None, home: str, clock: Clock, report: Callable[[str], None]
) -> SchemaDecoders:
    """Return the decoders of the registry at `url` or of the settings. Raises UsageError."""
    return SchemaDecoders(cached_registry(settings, url, home, clock), clock, report)


def decoding_step(
    settings: Mapping[str, str],
    url: str | None,
    home: str,
    clock: Clock,
    report: Callable[[str], None],
    *,
    keys: bool,
    values: bool,
) -> DecodingStep:
    """Return the step that decodes keys, values or both by the registry at `url` or of the settings. `report` gets a
    line when the registry fails. Raises UsageError."""
    return DecodingStep(schema_decoders(settings, url, home, clock, report), keys=keys, values=values)
