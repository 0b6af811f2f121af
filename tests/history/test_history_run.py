"""Recorded histories of clients on three nodes under faults hold what the cluster promises.

KT_HISTORY_SECONDS: how long there are faults (`make history`: 600; in `make test` each of four kinds comes once).
KT_HISTORY_SEED: repeats the choices of a run, not its exact timing.
KT_HISTORY_AGAINST=kafka: the baseline, three nodes of Apache Kafka.
KT_HISTORY_WORKLOADS, KT_HISTORY_FAULTS: a choice of them, separated by commas. With the fault `voter` the quorum is
dynamic: voters are removed and join again.
KT_HISTORY_PROGRESS_SECONDS: how long a client may take to go on after the last fault (30).
KT_HISTORY_DIR: where histories and logs are kept.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from support.history.course import WORKLOADS, Course, shown, summary
from support.history.nemesis import DEFAULT
from support.requirements import require

IS_LONG = "KT_HISTORY_SECONDS" in os.environ
SECONDS = float(os.environ.get("KT_HISTORY_SECONDS", "1"))
SEED = int(os.environ.get("KT_HISTORY_SEED") or (random.SystemRandom().randrange(1_000_000) if IS_LONG else 7))
IS_BASELINE = os.environ.get("KT_HISTORY_AGAINST") == "kafka"
SHORT = ("kill", "cut", "pause", "wipe")


def choice(name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(os.environ[name].split(",")) if name in os.environ else default


@pytest.fixture
def course() -> Iterator[Course]:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        require("confluent_kafka is not installed: pip install '.[clients]'")
    kept = pathlib.Path(os.environ.get("KT_HISTORY_DIR") or tempfile.mkdtemp(prefix="kt-history-"))
    made = Course(
        kept / f"seed-{SEED}{'-kafka' if IS_BASELINE else ''}",
        SEED,
        is_baseline=IS_BASELINE,
        workloads=choice("KT_HISTORY_WORKLOADS", WORKLOADS),
        faults=choice("KT_HISTORY_FAULTS", DEFAULT if IS_LONG else SHORT),
        is_long=IS_LONG,
    )
    try:
        yield made
    finally:
        made.close()
        if made.is_sound and "KT_HISTORY_DIR" not in os.environ:
            shutil.rmtree(kept)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.timeout(900 + 4 * SECONDS)
def test_histories_hold_what_the_cluster_promises(course: Course) -> None:
    print(f"\nKT_HISTORY_SEED={SEED} KT_HISTORY_SECONDS={SECONDS:.0f}, histories in {course.histories}", flush=True)
    findings = course.run(SECONDS)
    course.keep(course.histories, findings, SEED)
    print(summary(findings, course.nemesis), flush=True)
    course.is_sound = not findings.problems
    assert course.is_sound, (
        f"{len(findings.problems)} anomalies; KT_HISTORY_SEED={SEED}, histories in {course.histories}\n"
        f"{shown(findings.problems)}"
    )
