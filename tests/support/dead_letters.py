"""Dead-letter records that the frameworks wrote (tests/golden/redrive)."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import NamedTuple

_RECORDED = pathlib.Path(__file__).parent.parent / "golden" / "redrive" / "dead-letters.json"


class DeadLetterRecord(NamedTuple):
    """A record of a dead-letter topic."""

    timestamp: int
    key: bytes | None
    value: bytes
    headers: list[tuple[bytes, bytes | None]]


def dead_letters(topic: str) -> list[DeadLetterRecord]:
    """The recorded records of a topic."""
    return [
        DeadLetterRecord(
            row["timestamp"],
            None if row["key"] is None else base64.b64decode(row["key"]),
            base64.b64decode(row["value"]),
            [(name.encode(), base64.b64decode(value)) for name, value in row["headers"]],
        )
        for row in json.loads(_RECORDED.read_text())[topic]
    ]
