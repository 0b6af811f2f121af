"""All three nodes are killed at once and come back: every client library goes on, as producer and in groups.

KT_KILL_ALLS: how often (1, with room for a busy machine; `make history`: 20, with 30 s from the moment that all nodes
take connections).
KT_HISTORY_SEED: repeats the pauses and orders.
KT_HISTORY_AGAINST=kafka: the baseline, three nodes of Apache Kafka.
"""

from __future__ import annotations

import os
import pathlib
import random

import pytest
from support.apache_kafka import Unavailable
from support.kill_all import ROLES, KillAll
from support.requirements import require

KILLS = int(os.environ.get("KT_KILL_ALLS", "1"))
LIMIT_S = 30 if KILLS > 1 else 150
SEED = int(os.environ.get("KT_HISTORY_SEED") or random.SystemRandom().randrange(1_000_000))
IS_BASELINE = os.environ.get("KT_HISTORY_AGAINST") == "kafka"

pytestmark = [pytest.mark.clients, pytest.mark.real_kafka, pytest.mark.slow, pytest.mark.timeout(300 + 90 * KILLS)]


def test_every_client_goes_on_after_all_nodes_were_killed(tmp_path: pathlib.Path) -> None:
    run = KillAll(tmp_path, SEED, LIMIT_S, apache=IS_BASELINE)
    try:
        run.start(list(ROLES))
        for number in range(1, KILLS + 1):
            run.run_once()
            print(f"\nseed {SEED}, kill {number}: {run.report()}", flush=True)
    except Unavailable as missing:
        require(str(missing))
    finally:
        run.close()
    assert run.silent == [], f"seed {SEED}: {run.report()}"
