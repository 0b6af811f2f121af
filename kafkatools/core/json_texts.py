"""Parse JSON that others wrote: lines, files, answers of servers, and tokens."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Parse JSON with the options of json.loads. Raises ValueError, also for JSON that is nested too deeply; its
    subclass json.JSONDecodeError has the position."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
