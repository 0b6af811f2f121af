"""Type aliases of JSON values: what `json.loads` returns and `json.dumps` accepts. For annotations only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonValue: TypeAlias = "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"
"""Any JSON value. A parsed one is made of dict, list, str, int, float, bool and None."""

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""A JSON object; an object of known fields has a TypedDict of its own."""
