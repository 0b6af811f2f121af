"""The examples of docs/asyncio.md run as they stand there, against the embedded broker."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

from support.waiting import PATIENCE_S

import kafkatools

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "asyncio.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
# A topic that was just made: brokers know its leader before the leader does.
NOT_LED_YET = r".*Got error produce response from node .* Error: (NOT_LEADER_OR_FOLLOWER|UNKNOWN_TOPIC_OR_PARTITION)"


def test_each_example_runs_and_leaves_nothing_open() -> None:
    assert len(PROGRAMS) >= 3
    with kafkatools.EmbeddedBroker() as broker:
        for code in PROGRAMS:
            done = subprocess.run(
                [sys.executable, "-W", "error", "-c", code.replace("localhost:9092", broker.bootstrap)],
                capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            told = [line for line in done.stderr.splitlines() if not re.match(NOT_LED_YET, line)]
            assert (done.returncode, told) == (0, []), f"{code}\n{done.stderr}"
            assert bool(done.stdout) == ("print(" in code), code
