"""Requests that are asked of a real Apache Kafka and of the embedded broker, and answers in a form that compares.

A trace is a file in tests/golden/broker: settings for a fresh broker, and steps that are asked one after the other on
one connection, each with the answer of Apache Kafka 4.3.1. In requests the text `$id:topic` stands for that topic's id,
`$dir` for the broker's log directory, `hex:...` for bytes, `uuid:...` for an id. In answers topic ids, directories,
addresses, times and sizes are replaced by words; where Kafka gives a list in the order of a hash map, order does not
count.
"""

from __future__ import annotations

import json
import pathlib
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from support.raw_client import RawClient

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "broker"
Step = tuple[str, ApiKey, int, Mapping[str, Any]]
MASKED = (
    "cluster_id",
    "total_bytes",
    "usable_bytes",
    "throttle_time",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "log_end_offset",
    "high_watermark",
    "finalized_features_epoch",
    "client_instance_id",
    "subscription_id",
)
POINTS_IN_TIME = ("log_append_time", "issue_timestamp", "expiry_timestamp", "max_timestamp", "transaction_start_time")
ABOUT = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "partition_index",
    "user",
    "resource_name",
    "entity",
    "group_id",
    "key",
)
# In the order of Kafka's hash maps:
UNORDERED = (
    "resources",
    "acls",
    "matching_acls",
    "replica_election_results",
    "results",
    "credential_infos",
    "entries",
    "entity",
    "values",
    "partitions",
    "topics",
    "finalized_features",
    "supported_features",
    "responses",
    "configs",
    "config_resources",
    "coordinators",
    "groups",
    "results_by_topic_v3_and_below",
)


class Tracer:
    """Asks the steps of a trace and keeps the answers."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = RawClient(bootstrap)
        described = self.client.call(ApiKey.DESCRIBE_LOG_DIRS, 1, {"topics": None})
        self.directory: str = described.results[0].log_dir
        self.topic_ids: dict[uuid.UUID, str] = {}

    def close(self) -> None:
        """Close the connection."""
        self.client.__exit__()

    def ask(self, steps: Sequence[Step], pause_s: float = 0) -> dict[str, Any]:
        """label -> answer as JSON; a connection that the broker closed is the answer "closed". Apache Kafka's brokers
        learn of a change a moment after it was made: `pause_s` between the steps."""
        answers: dict[str, Any] = {}
        for label, api, version, fields in steps:
            assert label not in answers, label
            if pause_s:
                time.sleep(pause_s)
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
        if isinstance(value, str) and value.startswith("hex:"):
            return bytes.fromhex(value[4:])
        if isinstance(value, str) and value.startswith("uuid:"):
            return uuid.UUID(value[5:])
        return self.directory if value == "$dir" else value

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic, now or when it could last be seen."""
        answer = self.client.call(
            ApiKey.METADATA, 12, {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False}
        )
        found = answer.topics[0].topic_id
        if found is None:  # hidden by an ACL since it was asked for first
            return next(topic_id for topic_id, known in self.topic_ids.items() if known == name)
        self.topic_ids[found] = name
        return uuid.UUID(str(found))

    def plain(self, value: Any) -> Any:
        """An answer as JSON."""
        if isinstance(value, Entity):
            fields = dict(zip(value.__layout__.names, value, strict=True))
            is_node = "port" in fields
            return {name: self._field(name, each, is_node=is_node) for name, each in fields.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(each) for each in value]
        if isinstance(value, uuid.UUID):
            return f"$id:{self.topic_ids.get(value, '?')}"
        if isinstance(value, bytes | memoryview):
            return value.hex()
        if isinstance(value, int) and not isinstance(value, bool):
            return int(value)
        return value

    def _field(self, name: str, value: Any, *, is_node: bool) -> Any:
        if name in POINTS_IN_TIME:
            return None if name == "log_append_time" and value == -1 else "$time"
        if name in MASKED or (is_node and name in ("host", "port")) or (name == "session_id" and value):
            return f"${name}"
        text = self.plain(value)
        if isinstance(text, str) and text.startswith("Request Request("):
            return "Cluster authorization failed."  # Kafka shows the request as a Java object
        if isinstance(text, str) and self.directory in text:
            text = text.replace(self.directory, "$dir")
        return text


def _ordered(value: Any) -> Any:
    """Lists that come in the order of a hash map, sorted."""
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    inner = {name: _ordered(each) for name, each in value.items()}
    return {
        name: sorted(each, key=_order) if name in UNORDERED and isinstance(each, list) else each
        for name, each in inner.items()
    }


def _order(item: Any) -> list[str]:
    """Items by what they are about, whatever is said of them."""
    about = [item.get(name) for name in ABOUT] if isinstance(item, dict) else []
    return [json.dumps(about), json.dumps(item, sort_keys=True)]


class Trace(NamedTuple):
    """Settings of the broker, what it is asked, and what Apache Kafka answered, by label."""

    settings: dict[str, str]
    steps: list[Step]
    answers: dict[str, Any]


TRACES = sorted(path.stem.removeprefix("trace-") for path in GOLDEN.glob("trace-*.json"))


def load_trace(name: str) -> Trace:
    """A trace by name."""
    found = json.loads((GOLDEN / f"trace-{name}.json").read_text())
    steps = [(step["label"], ApiKey[step["api"]], step["version"], step["request"]) for step in found["steps"]]
    return Trace(found["settings"], steps, {step["label"]: step["answer"] for step in found["steps"]})


def write_trace(name: str, trace: Trace) -> None:
    """Write a trace, a step a line."""
    lines = [
        json.dumps(
            {"label": label, "api": api.name, "version": version, "request": fields, "answer": trace.answers[label]}
        )
        for label, api, version, fields in trace.steps
    ]
    head = f'{{"origin": "recorded from Apache Kafka 4.3.1",\n"settings": {json.dumps(trace.settings)},\n"steps": [\n'
    (GOLDEN / f"trace-{name}.json").write_text(head + ",\n".join(lines) + "\n]}\n")


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """What differs, a line each; steps called setup are asked, not compared."""
    lines = []
    for label in theirs:
        if label.startswith("setup "):
            continue
        _compare(label, _ordered(ours.get(label)), _ordered(theirs[label]), lines)
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
