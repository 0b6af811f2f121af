"""kt reassign-partitions against the recordings of kafka-reassign-partitions.sh, as far as one broker can answer them.

The others need three brokers: tests/real_kafka/test_real_reassign.py replays all of them against Apache Kafka.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import admin_tools
import pytest
import reassign_replay
import transcripts
from reassign_replay import TOOL
from support.kt import run_kt

_NEEDS_THREE = {f"{number:03}" for number in (*range(2, 7), 11, 14, *range(17, 46), 49, 64, 69, 70, 72, 73, 76)}
"""Replicas on other brokers, or their names in the text."""


@pytest.mark.slow
def test_reassign_partitions_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "orders", 4, [])
    admin_tools.send(bootstrap, "pay", 2, [])
    found = json.loads(run_kt("log-dirs", "--bootstrap-server", bootstrap, "--describe", "--json").out)
    addresses = {"UNREACHABLE": "127.0.0.1:9", "BOOTSTRAP": bootstrap, "CONTROLLER": "127.0.0.1:9"}
    cases = [case for case in transcripts.load(TOOL) if case.number not in _NEEDS_THREE]
    failures = reassign_replay.replay(cases, tmp_path, addresses, [found["log_dir"]])
    assert not failures, "\n".join(failures)


def test_every_difference_is_documented() -> None:
    assert {one.key for one in reassign_replay.DIFFERENCES.values()} <= transcripts.documented_keys()
