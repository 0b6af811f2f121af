"""Conversations of group members with a coordinator, as data: what is asked, and what Apache Kafka 4.3.1 answered.

A scenario is a JSON file: the topics it needs and its steps. A step is a request of a member, each of which has a
connection of its own:

    {"as": "a", "api": "JOIN_GROUP", "version": 9, "request": {...}, "answer": {...}}

`"later": true` sends only; `{"as": "a", "receive": true, "answer": {...}}` waits for that answer. `{"wait_ms": n}` lets
time pass, `{"grow": "t", "to": n}` gives a topic more partitions. `"save": {"m": "member_id"}` names a value of the
answer; `$m` stands for it from then on, in requests and in recorded answers. `$topic:t` is the id of a topic, `$group`
the id of the group (new for each run), `$subscription:t,u` and `$assignment:t=0,1` are bytes of ConsumerProtocol. What
differs from run to run is left out of answers.
"""

from __future__ import annotations

import json
import pathlib
import re
import struct
import time
import uuid
from collections.abc import Mapping
from enum import Enum
from typing import Any

from support.raw_client import RawClient

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.frames import decode_response_header, encode_request
from kafkatools.core.protocol.messages import build, decode, request_type, response_type
from kafkatools.core.protocol.uuids import uuid_text

DIRECTORY = pathlib.Path(__file__).parents[1] / "golden" / "groups" / "traces"
UNTOLD = {"throttle_time", "client_host"}
UNORDERED = {"members", "topics", "partitions", "topic_partitions", "groups", "subscribed_topic_names"}


def names() -> list[str]:
    """Every scenario."""
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    """One scenario."""
    found: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text())
    return found


def save(name: str, scenario: Mapping[str, Any]) -> None:
    """Write a recording, one step a line."""
    steps = ",\n  ".join(json.dumps(step) for step in scenario["steps"])
    head = json.dumps({key: value for key, value in scenario.items() if key != "steps"})[:-1]
    (DIRECTORY / f"{name}.json").write_text(f'{head}, "steps": [\n  {steps}\n]}}\n')


class Connection(RawClient):
    """One member's connection; sending and receiving may lie apart."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._waiting: list[tuple[ApiKey, int]] = []

    def send(self, api: ApiKey, version: int, request: Mapping[str, Any]) -> None:
        """Send only."""
        entity = build(request_type(api, version), request)
        self._socket.sendall(b"".join(bytes(part) for part in encode_request(api, version, 1, "raw", entity)))
        self._waiting.append((api, version))

    def receive(self) -> Any:
        """The next answer."""
        api, version = self._waiting.pop(0)
        (size,) = struct.unpack(">i", self._receive(4))
        frame = self._receive(size)
        _, body = decode_response_header(api, version, frame)
        return decode(response_type(api, version), frame, body)[0]


class Run:
    """Plays a scenario against a broker."""

    def __init__(self, bootstrap: str, scenario: Mapping[str, Any], settle_s: float = 0) -> None:
        """`settle_s`: how long the coordinator may take to hear of a topic that was made."""
        self._bootstrap = bootstrap
        self._settle_s = settle_s
        self._scenario = scenario
        self._names: dict[str, str] = {"group": f"group-{uuid.uuid4()}"}
        self._connections: dict[str, Connection] = {}

    def answers(self) -> list[dict[str, Any] | None]:
        """The answer of each step, None where there is none."""
        try:
            with RawClient(self._bootstrap) as client:
                self._wait_for_coordinator(client)
                self._make_topics(client, self._scenario.get("topics", {}))
            return [self._step(step) for step in self._scenario["steps"]]
        finally:
            for connection in self._connections.values():
                connection.__exit__()

    def _wait_for_coordinator(self, client: RawClient) -> None:
        """The topic of offsets is made when a group is first asked for, and read before it is served."""
        group_id = self._names["group"]
        while True:
            client.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group_id]})
            described = client.call(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [group_id]})
            if described.groups[0].error_code not in (14, 15, 16):
                return

    def _make_topics(self, client: RawClient, topics: Mapping[str, int]) -> None:
        for name, partitions in topics.items():
            real = f"{name}-{uuid.uuid4().hex[:8]}"
            client.create_topic(real, partitions)
            described = client.call(
                ApiKey.METADATA, 12, {"topics": [{"name": real}], "allow_auto_topic_creation": False}
            )
            self._names[f"topic:{name}"] = uuid_text(described.topics[0].topic_id)
            self._names[f"name:{name}"] = real
        time.sleep(self._settle_s)

    def _grow(self, topic: str, partitions: int) -> None:
        request = {"topics": [{"name": topic, "count": partitions, "assignments": None}], "timeout": 30000}
        with RawClient(self._bootstrap) as client:
            answer = client.call(ApiKey.CREATE_PARTITIONS, 3, {**request, "validate_only": False})
            assert int(answer.results[0].error_code) == 0, answer
        time.sleep(self._settle_s)

    def _step(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        if "wait_ms" in step:
            time.sleep(step["wait_ms"] / 1000)
            return None
        if "grow" in step:
            self._grow(self._names[f"name:{step['grow']}"], step["to"])
            return None
        member = step["as"]
        if member not in self._connections:
            self._connections[member] = Connection(self._bootstrap)
        connection = self._connections[member]
        if not step.get("receive"):
            connection.send(ApiKey[step["api"]], step["version"], self._filled(step["request"]))
        if step.get("later"):
            return None
        answer = plain(connection.receive())
        for name, path in step.get("save", {}).items():
            found = _at(answer, path)
            assert isinstance(found, str) and found, answer
            self._names[name] = found
        told: dict[str, Any] = self._named(answer)
        return told

    # -- names for values ------------------------------------------------------------------------------------------
    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if not isinstance(value, str):
            return value
        if value.startswith("$hex:"):
            return bytes.fromhex(value[5:])
        if value.startswith("$subscription:"):
            return subscription([self._names[f"name:{name}"] for name in value[14:].split(",") if name])
        if value.startswith("$assignment:"):
            topic, _, partitions = value[12:].partition("=")
            return assignment(self._names[f"name:{topic}"], [int(each) for each in partitions.split(",") if each])
        if value.startswith("$topic:"):
            return _uuid(self._names[value[1:]])
        return re.sub(r"\$([a-z]+(?::[a-z0-9]+)?)", lambda found: self._names.get(found[1], found[0]), value)

    def _named(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._named(item, name) for name, item in sorted(value.items()) if name not in UNTOLD}
        if isinstance(value, list):
            items = [self._named(item) for item in value]
            return sorted(items, key=json.dumps) if key in UNORDERED else items
        if isinstance(value, str):
            for name, real in self._names.items():
                value = value.replace(real, f"${name}")
                value = value.replace(real.encode().hex(), f"<${name}>")
        return value


def plain(value: Any) -> Any:
    """An entity as JSON has it."""
    if isinstance(value, Entity):
        return {name: plain(item) for name, item in zip(value.__layout__.names, value, strict=True)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, bytes | memoryview):
        return f"$hex:{bytes(value).hex()}"
    if isinstance(value, uuid.UUID):
        return uuid_text(value)
    return value.value if isinstance(value, Enum) else value


def subscription(topics: list[str]) -> bytes:
    """ConsumerProtocol's subscription, version 1."""
    data = struct.pack(">hi", 1, len(topics))
    for topic in topics:
        data += struct.pack(">h", len(topic)) + topic.encode()
    return data + struct.pack(">ii", -1, 0)


def assignment(topic: str, partitions: list[int]) -> bytes:
    """ConsumerProtocol's assignment, version 1."""
    data = struct.pack(">hih", 1, 1, len(topic)) + topic.encode()
    return data + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions) + struct.pack(">i", -1)


def _at(answer: Any, path: str) -> Any:
    for part in path.split("."):
        answer = answer[int(part)] if part.isdigit() else answer[part]
    return answer


def _uuid(text: str) -> uuid.UUID:
    from kafkatools.core.protocol.uuids import uuid_from_text

    found = uuid_from_text(text)
    assert found is not None
    return found
