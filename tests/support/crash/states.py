"""States of the disk after a loss of power at every operation of a course, each opened and checked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from support.crash.check import check
from support.crash.course import Course
from support.crash.disk import MODES, SOME, PowerDisk
from support.crash.facts import Facts, Lost


class Broken(NamedTuple):
    """A state in which a promise is broken."""

    seed: str
    durability: str
    operation: int
    mode: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.durability}, course {self.seed}, loss of power after operation {self.operation} ({self.kind}), "
            f"keeping {self.mode}: {self.reason}"
        )


@dataclass
class States:
    """The states of one course. `share` of `shares` takes every so-manieth operation, `modes_per_operation` of the
    modes at each; after some starts the power fails again."""

    seed: str
    durability: str
    directory: str
    share: int = 0
    shares: int = 1
    modes_per_operation: int = len(MODES)
    most: int | None = None
    only: tuple[int, str] | None = None
    count: int = 0
    operations: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)

    def run(self, steps: int) -> None:
        """Run the course; ends early after `most` states."""
        course = Course(self.seed, self.durability, self.directory)

        def on_operation(kind: str, path: str) -> None:
            self.operations += 1
            if self.most is not None and self.count >= self.most:
                raise _Over
            if self.only is not None and self.operations != self.only[0]:
                return
            if self.only is None and self.operations % self.shares != self.share:
                return
            self.kinds[kind] += 1
            self._look(course.disk, course.facts, f"{kind} {path}")

        try:
            course.run(steps, on_operation)
            course.broker.abandon()
        except _Over:
            course.broker.abandon()

    def _look(self, disk: PowerDisk, facts: Facts, kind: str) -> None:
        rng = Random(f"{self.seed}-{self.operations}")
        modes = rng.sample(MODES, min(self.modes_per_operation, len(MODES)))
        for mode in [self.only[1]] if self.only is not None else modes:
            rng = Random(f"{self.seed}-{self.operations}-{mode}")
            survivor = disk.after_power_loss(mode, rng)
            try:
                self._open(survivor, facts, rng)
            except Lost as lost:
                self.broken.append(Broken(self.seed, self.durability, self.operations, mode, kind, str(lost)))

    def _open(self, disk: PowerDisk, facts: Facts, rng: Random) -> None:
        """Check a state; in some of them the power fails once more while the broker starts."""
        self.count += 1
        if rng.random() < 0.15:
            again: list[PowerDisk] = []
            at = rng.randint(1, 40)

            def on_operation(kind: str, path: str) -> None:
                if disk.operations == at:
                    again.append(disk.after_power_loss(SOME, rng))

            disk.on_operation = on_operation
            check(disk, facts, self.durability, self.directory, rng)
            for each in again:
                self.count += 1
                check(each, facts, self.durability, self.directory, rng)
        else:
            check(disk, facts, self.durability, self.directory, rng)


class _Over(BaseException):
    """Enough states; nothing in the broker may catch it."""
