"""Acknowledged records are never lost, doubled or out of order while the nodes of a cluster are killed, paused,
restarted and cut off one by one; replicas end up the same byte for byte.

KT_SOAK_SECONDS: how long (60; `make soak`: 600). KT_SOAK_SEED repeats the decisions of a run, not its exact timing.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import time
from collections.abc import Iterator

import pytest
from support.cluster_rehearsal import ClusterRehearsal
from support.rehearsal import CLIENTS_PYTHON
from support.requirements import require

SECONDS = float(os.environ.get("KT_SOAK_SECONDS", "60"))
SEED = int(os.environ.get("KT_SOAK_SEED") or random.SystemRandom().randrange(1_000_000))


@pytest.fixture
def rehearsal(tmp_path: pathlib.Path) -> Iterator[ClusterRehearsal]:
    if subprocess.run([CLIENTS_PYTHON, "-c", "import confluent_kafka"], capture_output=True, check=False).returncode:
        require(f"{CLIENTS_PYTHON} has no confluent_kafka")
    made = ClusterRehearsal(tmp_path, "none", SEED, is_long=SECONDS > 120)
    try:
        made.start()
        yield made
    finally:
        made.chaos.close()


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.timeout(600 + 3 * SECONDS)
def test_nothing_is_lost_or_doubled_while_nodes_fail(rehearsal: ClusterRehearsal) -> None:
    print(f"KT_SOAK_SEED={SEED} KT_SOAK_SECONDS={SECONDS:.0f}", flush=True)
    began = time.monotonic()
    chaos = rehearsal.chaos
    chaos.watch(3)
    chaos.run(SECONDS)
    try:
        rehearsal.wait_until_in_sync()
        ends = rehearsal.come_to_rest()
    except AssertionError:
        print(" ".join(chaos.faults), rehearsal.told(), sep="\n", flush=True)
        raise
    problems, counts = rehearsal.check(ends)
    rehearsal.wait_until_in_sync()
    problems += rehearsal.differing_replicas() + rehearsal.problems
    print(f"{time.monotonic() - began:.0f} s, {counts}, {chaos.tally}, {' '.join(chaos.faults)}", flush=True)
    problems += rehearsal.damage()
    assert problems == [], "\n".join(problems[:20])
    assert max(chaos.tally.resident_kib) < 250_000
