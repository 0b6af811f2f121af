"""Long random histories of a quorum with fresh seeds, for as long as it is worth; a failure names its seed.

KT_SOAK_SECONDS / 10 is how long (3 s; in `make soak` a minute).
"""

from __future__ import annotations

import os
import random
import time

import pytest
from support.quorum_simulation import random_schedule

SECONDS = float(os.environ.get("KT_SOAK_SECONDS", "30")) / 10
LONG_MS = 30_000


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_long_histories_of_a_quorum_keep_its_rules() -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        seed = random.SystemRandom().randrange(1 << 40)
        try:
            random_schedule(seed, LONG_MS)
        except BaseException as error:
            error.add_note(f"random_schedule({seed}, {LONG_MS})")
            raise
