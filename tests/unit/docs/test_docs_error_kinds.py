"""docs/json/README.md: the kinds of errors that are no errors of Kafka's protocol."""

from __future__ import annotations

import pathlib
import re

from kafkatools.core.admin.groups import NotConsumers
from kafkatools.core.consumer.range_reader import RangeLost
from kafkatools.core.errors import KafkaError
from kafkatools.errors import EndUnreachable
from kafkatools.tools.lines.line_reader import MalformedLine

ELSEWHERE = (NotConsumers, RangeLost, EndUnreachable, MalformedLine)
"""Errors that are defined beside the code that raises them."""
PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "json" / "README.md"


def local_kinds() -> set[str]:
    """The names of all local errors that this process has imported; tests define none with a name of their own."""
    kinds: set[str] = set()
    classes = [KafkaError]
    while classes:
        classes += (found := classes.pop()).__subclasses__()
        if found.code == -1 and found.__module__.startswith("kafkatools."):
            kinds.add(found.name)
    return kinds - {"UNKNOWN_SERVER_ERROR"}


def test_each_kind_is_described() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Kinds of errors")[2].partition("## Schemas")[0]
    described = set(re.findall(r"`([A-Z_]+)`", table))
    assert {error.name for error in ELSEWHERE} <= local_kinds() <= described
