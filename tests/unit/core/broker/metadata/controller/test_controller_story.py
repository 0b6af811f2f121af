"""A story of four brokers that Apache Kafka 4.3.1 lived through (tests/golden/controller/story.json, recorded with
tests/support/controller_stories.py), told again with our controller: every answer, and every state of the partitions.
"""

from __future__ import annotations

import json
from typing import Any

from support.controller_stories import STEPS, STORY, Player

PLACED_BY_LOT = ("b", "wide")


def _comparable(told: Any) -> Any:
    """Without the topics that were placed by lot, and without the order of hash maps."""
    if isinstance(told, dict):
        kept = {name: _comparable(each) for name, each in told.items() if name.rsplit("-", 1)[0] not in PLACED_BY_LOT}
        return kept
    if isinstance(told, list) and told and isinstance(told[0], dict):
        items = [_comparable(each) for each in told if each.get("topic") not in PLACED_BY_LOT]
        return sorted(items, key=lambda each: json.dumps(each, sort_keys=True))
    return told


def test_the_story_is_the_one_apache_kafka_told() -> None:
    told = json.loads(STORY.read_text())["steps"]
    assert len(told) == len(STEPS)
    player = Player()
    for number, step in enumerate(told):
        expected = step.get("state", step.get("answer"))
        ours = json.loads(json.dumps(player.play(step)))
        assert _comparable(ours) == _comparable(expected), f"step {number}: {step}"
