"""The active faults of a node: their random choices, hits and ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from random import Random

from kafkatools.sandbox.faults.spec import FaultSpec, Row, read_spec


class ActiveFault:
    """A fault of a node, with its random generator and the number of its hits."""

    def __init__(self, spec: FaultSpec) -> None:
        self.spec = spec
        self.api_keys = spec.api_keys
        self.hits = 0
        self._random = Random(spec.seed)  # noqa: S311 - repeatable choices

    def remaining_ms(self) -> int | None:
        """Milliseconds until its end by the system's wall clock, None without an end."""
        if self.spec.until_ms is None:
            return None
        return max(0, self.spec.until_ms - time.time_ns() // 1_000_000)

    def chooses(self) -> bool:
        """Return whether it hits a request or write that it concerns, by its rate."""
        return self.spec.rate >= 1 or self._random.random() < self.spec.rate


def activated(rows: Sequence[Row], before: Mapping[int, ActiveFault]) -> dict[int, ActiveFault]:
    """The faults of the faults file by id, without those that have ended. Those of `before` are kept."""
    faults = {}
    for row in rows:
        fault = ActiveFault(read_spec(row))
        earlier = before.get(row["id"])
        if earlier is not None and earlier.spec == fault.spec:
            fault = earlier
        if fault.remaining_ms() != 0:
            faults[int(row["id"])] = fault
    return faults
