"""The decoder of a column's values, as tasks get it from the Avro and Protobuf decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ValueDecoder:
    """Decodes one value at a call. `decode` raises ValueError for a value that cannot be decoded.
    `has_unknown_fields` returns whether the writer's schema of a decoded value has fields that the column lacks, which
    are left out; None if the writer's schema is not available."""

    decode: Callable[[bytes], object]
    has_unknown_fields: Callable[[bytes], bool] | None = None

    def __call__(self, data: bytes) -> object:
        """Decode a value. Raises ValueError."""
        return self.decode(data)
