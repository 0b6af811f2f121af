"""Requests that are asked of a real Apache Kafka and of the embedded broker, and answers in a form that compares.

A trace is a list of steps `(label, api, version, fields)`, asked one after the other on one connection. In fields the
text `$id:topic` stands for that topic's id, `$dir` for the broker's log directory. An answer becomes plain JSON: topic
ids, directories, addresses, times and sizes are replaced by words, so that two brokers can agree.
"""

from __future__ import annotations

import json
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from support.raw_client import RawClient

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.plans import plan_of

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "broker"
Step = tuple[str, ApiKey, int, Mapping[str, Any]]
MASKED = ("cluster_id", "total_bytes", "usable_bytes", "throttle_time")
UNORDERED = ("resources", "acls", "matching_acls")  # in the order of Kafka's hash maps


class Tracer:
    """Asks the steps of a trace and keeps the answers."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = RawClient(bootstrap)
        self.directory = ""
        self.topic_ids: dict[uuid.UUID, str] = {}

    def close(self) -> None:
        """Close the connection."""
        self.client.__exit__()

    def ask(self, steps: Sequence[Step]) -> dict[str, Any]:
        """label -> answer as JSON; a connection that the broker closed is the answer "closed"."""
        answers: dict[str, Any] = {}
        for label, api, version, fields in steps:
            assert label not in answers, label
            try:
                answer = self.client.call(api, version, self._filled(fields))
            except (AssertionError, ConnectionError, OSError):
                answers[label] = "closed"
                self.client.__exit__()
                self.client = RawClient(self.bootstrap)
                continue
            answers[label] = self.plain(answer)
        return answers

    def _filled(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._filled(each) for each in value]
        if isinstance(value, str) and value.startswith("$id:"):
            return self.topic_id(value[4:])
        if value == "$dir":
            return self.log_directory()
        return value

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic, now."""
        answer = self.client.call(
            ApiKey.METADATA, 12, {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False}
        )
        found = answer.topics[0].topic_id
        assert found is not None, name
        self.topic_ids[found] = name
        return uuid.UUID(str(found))

    def log_directory(self) -> str:
        """The broker's first log directory."""
        if not self.directory:
            self.directory = self.client.call(ApiKey.DESCRIBE_LOG_DIRS, 1, {"topics": None}).results[0].log_dir
        return self.directory

    def plain(self, value: Any) -> Any:
        """An answer as JSON."""
        if hasattr(type(value), "__dataclass_fields__"):
            fields = {plan.name: getattr(value, plan.name) for plan in plan_of(type(value)).all_fields()}
            is_node = "port" in fields
            return {name: self._field(name, each, is_node=is_node) for name, each in fields.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(each) for each in value]
        if isinstance(value, uuid.UUID):
            return f"$id:{self.topic_ids.get(value, '?')}"
        if isinstance(value, timedelta):
            return value // timedelta(milliseconds=1)
        if isinstance(value, datetime):
            return "$time"
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, int) and not isinstance(value, bool):
            return int(value)
        return value

    def _field(self, name: str, value: Any, *, is_node: bool) -> Any:
        if name in MASKED or (is_node and name in ("host", "port")):
            return f"${name}"
        text = self.plain(value)
        if name in UNORDERED and isinstance(text, list):
            text.sort(key=lambda each: json.dumps(each, sort_keys=True))
        if isinstance(text, str) and self.directory and self.directory in text:
            text = text.replace(self.directory, "$dir")
        return text


def recorded(name: str) -> dict[str, Any]:
    """The answers of Apache Kafka 4.3.1."""
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())["answers"]
    return found


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """What differs, a line each."""
    lines = []
    for label in theirs:
        _compare(label, ours.get(label), theirs[label], lines)
    return lines


def _compare(path: str, ours: Any, theirs: Any, lines: list[str]) -> None:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            _compare(f"{path}.{key}", ours.get(key), theirs.get(key), lines)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            _compare(f"{path}[{index}]", *pair, lines)
    elif ours != theirs:
        lines.append(f"{path}: ours {ours!r}, Kafka's {theirs!r}")
