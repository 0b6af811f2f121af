"""What a stream's progress says of offsets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkatools.pipeline.run.stream import _offsets
from kafkatools.pipeline.sources.live.offsets import with_beginning

START, END = {"orders": {"0": 3, "1": 0}}, {"orders": {"0": 9, "1": 4}}


@pytest.mark.parametrize(
    ("told", "offsets"),
    [
        (START, START),
        (json.dumps(END), END),
        (json.dumps(with_beginning(END, START)), END),  # the end of a stream's first batch
        (None, {}),
        ({"logOffset": 7}, {}),
        ("no JSON", {}),
    ],
)
def test_offsets_of_topics_and_nothing_else(told: Any, offsets: dict[str, Any]) -> None:
    assert _offsets(told) == offsets
