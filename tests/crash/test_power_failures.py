"""Power failures of a whole broker at every operation of its disk.

With log.durability=fsync all that was acknowledged is there after the next start: records, transactions, commits,
topics, settings. Without it the broker starts, and of every log the end may be missing, nothing else.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import Any

import pytest
from support.crash.states import States

STEPS = 60
OPERATIONS_PER_COURSE = 1000
PARTS = {"fsync-1": ("fsync", 0.35), "fsync-2": ("fsync", 0.35), "none": ("none", 0.3)}


@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", PARTS)
def test_a_loss_of_power_takes_nothing_that_was_promised(run: Any, tmp_path: pathlib.Path, part: str) -> None:
    durability, portion = PARTS[part]
    wanted = max(1, round(run.states * portion))
    count = operations = courses = 0
    kinds: Counter[str] = Counter()
    broken: list[str] = []
    while count < wanted and len(broken) < 20:
        states = States(f"{run.seed}-{part}-{courses}", durability, str(tmp_path))
        states.shares = max(1, OPERATIONS_PER_COURSE * states.modes_per_operation // wanted)
        states.most = wanted - count
        states.run(STEPS)
        count += states.count
        operations += states.operations
        courses += 1
        kinds += states.kinds
        broken += [str(each) for each in states.broken]
    shown = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    run.tell(f"{part}: {count} states of {operations} operations in {courses} courses ({shown}), {len(broken)} broken")
    assert broken == []
