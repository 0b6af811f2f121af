"""Damage in log files: the exception for readers, and the finding that is reported to the user."""

from __future__ import annotations

from dataclasses import dataclass


class Damage(Exception):
    """Damage at which Kafka's reader gives up. `reason` has Kafka's wording where there is one; `position` is the byte
    in the file, -1 if unknown."""

    def __init__(self, reason: str, position: int = -1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True)
class Finding:
    """A problem in a file: the byte position (-1 for the whole file), the problem, and the loss that it causes."""

    file: str
    position: int
    problem: str
    loss: str = ""

    def text(self) -> str:
        """Return the finding as one line: file, position, problem and loss."""
        place = f" at byte {self.position}" if self.position >= 0 else ""
        if not self.loss:
            return f"{self.file}{place}: {self.problem}"
        return f"{self.file}{place}: {self.problem.removesuffix('.')}; {self.loss}"

    @property
    def headline(self) -> str:
        """The line that Kafka's tool prints for this problem, empty if it prints none."""
        return self.problem if self.problem.startswith("Snapshot ") else ""
