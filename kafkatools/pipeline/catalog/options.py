"""The options of the record tables of a catalog. This module does not import PySpark: options are checked before Spark
starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.spec import registry_address

PARTS = ("key", "value")
_FORMATS = ("binary", "string")


@dataclass(frozen=True)
class TableOptions:
    """The options of all record tables: the schema registry with its user and password, the formats of keys and values
    without a schema, and options of the source."""

    registry: str | None = None
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    formats: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, registry: str | None, key: str, value: str, source: Mapping[str, str]) -> TableOptions:
        """Check and return the options. Raises PipelineError."""
        for part, form in zip(PARTS, (key, value), strict=True):
            if form not in _FORMATS:
                raise PipelineError(f"--{part} must be {' or '.join(_FORMATS)}, not '{form}'")
        return cls(*registry_address(registry), {"key": key, "value": value}, source)
