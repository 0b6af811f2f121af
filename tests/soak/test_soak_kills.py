"""Acknowledged records are never lost or doubled: producers, transactional copiers, groups and a compacted topic while
the broker and its clients are killed and stopped at random moments.

KT_SOAK_KILLS: kills in all (10; `make soak`: 200). KT_SOAK_SEED repeats the decisions of a run, not its exact timing.
KT_CLIENTS_PYTHON: an interpreter that has confluent-kafka (default: this one).
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import apache_kafka
from support.rehearsal import CLIENTS_PYTHON, Rehearsal
from support.requirements import require

KILLS = int(os.environ.get("KT_SOAK_KILLS", "10"))
SEED = int(os.environ.get("KT_SOAK_SEED") or random.SystemRandom().randrange(1_000_000))
IS_LONG = KILLS > 20


def has_java() -> bool:
    """Whether Apache Kafka's own clients can take part."""
    try:
        apache_kafka.java_executable()
        return bool(apache_kafka.jars())
    except apache_kafka.Unavailable:
        return False


@pytest.fixture
def make_rehearsal(tmp_path: pathlib.Path) -> Iterator[Callable[[str, int], Rehearsal]]:
    made: list[Rehearsal] = []

    def make(durability: str, seed: int) -> Rehearsal:
        made.append(Rehearsal(tmp_path, durability, seed, is_long=IS_LONG, is_java=IS_LONG and has_java()))
        made[-1].start()
        return made[-1]

    yield make
    for rehearsal in made:
        rehearsal.chaos.close()


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.timeout(600 + 15 * KILLS)
@pytest.mark.parametrize("durability", ["none", "fsync"])
def test_nothing_is_lost_or_doubled_through_kills(make_rehearsal: Any, durability: str) -> None:
    if subprocess.run([CLIENTS_PYTHON, "-c", "import confluent_kafka"], capture_output=True, check=False).returncode:
        require(f"{CLIENTS_PYTHON} has no confluent_kafka")
    print(f"KT_SOAK_SEED={SEED} KT_SOAK_KILLS={KILLS}", flush=True)
    began = time.monotonic()
    rehearsal = make_rehearsal(durability, SEED + (durability == "fsync"))
    chaos = rehearsal.chaos
    chaos.watch(1.5)
    chaos.run(KILLS // 2)
    ends = rehearsal.come_to_rest()
    problems, counts = rehearsal.check(ends)
    problems += rehearsal.damage() + rehearsal.problems
    print(f"{durability}: {time.monotonic() - began:.0f} s, {counts}, {chaos.tally}", flush=True)
    assert problems == [], "\n".join(problems[:20])
    assert max(chaos.tally.resident_kib) < 200_000
    assert max(chaos.tally.descriptors) < 512 + 100  # of files the broker keeps 512 open at most
