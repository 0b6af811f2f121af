"""The comparison operators of `--fail-if` conditions, such as `lag>100`, as functions of two values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        ">": operator.gt,
        ">=": operator.ge,
        "<": operator.lt,
        "<=": operator.le,
        "=": operator.eq,
        "==": operator.eq,
        "!=": operator.ne,
    }
)
