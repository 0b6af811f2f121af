"""What was found wrong in a file, and where."""

from __future__ import annotations

from dataclasses import dataclass


class Damage(Exception):
    """Kafka's reader gives up here. `reason` is Kafka's wording where there is one; `position` the byte in the file."""

    def __init__(self, reason: str, position: int = -1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True)
class Finding:
    """One thing found wrong: the file, the byte (-1 for the whole file), what it is and what was lost by it."""

    file: str
    position: int
    problem: str
    lost: str = ""

    def text(self) -> str:
        place = f" at byte {self.position}" if self.position >= 0 else ""
        if not self.lost:
            return f"{self.file}{place}: {self.problem}"
        return f"{self.file}{place}: {self.problem.removesuffix('.')}; {self.lost}"

    @property
    def headline(self) -> str:
        """Kafka's own line where its tool prints one for this; empty otherwise."""
        return self.problem if self.problem.startswith("Snapshot ") else ""
