"""Look up assignors by the names used in partition.assignment.strategy."""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.consumer.assignors.assignor import Assignor, RangeAssignor, RoundRobinAssignor
from kafkatools.core.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from kafkatools.core.errors import ConfigError

_PACKAGE = "org.apache.kafka.clients.consumer."


def assignor_for_name(name: str) -> Assignor:
    """Return a new assignor by its Java class name or protocol name. Raises ConfigError for an unknown name."""
    assignors: tuple[Callable[[], Assignor], ...] = (
        RangeAssignor,
        RoundRobinAssignor,
        StickyAssignor,
        CooperativeStickyAssignor,
    )
    for assignor in assignors:
        class_name = getattr(assignor, "__name__", "")
        if name.strip() in (class_name, _PACKAGE + class_name, getattr(assignor, "name", None)):
            return assignor()
    names = ", ".join(_PACKAGE + getattr(assignor, "__name__", "") for assignor in assignors)
    raise ConfigError(f"Unknown assignor {name} in partition.assignment.strategy. Known ones: {names}")
