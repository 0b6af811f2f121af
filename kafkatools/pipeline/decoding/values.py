"""The decoder of a column's values, as tasks get it from the Avro and Protobuf decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _has_none(data: bytes) -> bool:
    return False


@dataclass(frozen=True)
class ValueDecoder:
    """Decodes one value at a call. `decode` raises ValueError for a value that cannot be decoded. `has_more_fields`
    returns whether a value that was decoded has fields that the column lacks, which are left out."""

    decode: Callable[[bytes], object]
    has_more_fields: Callable[[bytes], bool] = _has_none

    def __call__(self, data: bytes) -> object:
        """Decode a value. Raises ValueError."""
        return self.decode(data)
