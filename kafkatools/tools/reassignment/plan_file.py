"""Plan files in JSON: topics to move, and replicas of partitions with their log directories.

Source: parseTopicsData, parsePartitionReassignmentData and formatAsReassignmentJson of ReassignPartitionsCommand, with
its only version 1. Errors have Kafka's message, with file and position as hint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kafkatools.core.admin.reassignments import Replica, TopicPartition
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import partition_hash
from kafkatools.core.json_values import JsonValue
from kafkatools.exit_status import CommandError
from kafkatools.tools.json_files import (
    json_array,
    json_entries,
    json_field,
    json_in_file,
    json_int,
    json_object,
    json_string,
    read_json,
)
from kafkatools.tools.reassignment.listings import names

T = TypeVar("T")

ANY_LOG_DIR = "any"
_VERSION = 1
_NOT_JSON = "The input string is not a valid JSON"


class Plan(NamedTuple):
    """A plan as it stands in a file: partitions in file order, also repeated ones, and log directories by replica,
    without those that are `any`."""

    partitions: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    log_dirs: Mapping[Replica, str]

    @property
    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """The target replicas of each partition; of a repeated partition the last."""
        return dict(self.partitions)

    @property
    def topics(self) -> list[str]:
        """The topic names in file order, each once."""
        return list(dict.fromkeys(topic for (topic, _), _ in self.partitions))


def read_topics(path: str) -> list[str]:
    """Read a topics file for --generate: {"version": 1, "topics": [{"topic": "orders"}]}. Raises CommandError."""
    topics = _entries(path, "topics", _topic)
    twice = _duplicates(topics)
    if twice:
        names = ", ".join(hash_order(twice))
        raise CommandError(f"List of topics to reassign contains duplicate entries: [{names}]", hint=path)
    return topics


def _topic(item: JsonValue) -> str:
    return str(json_field(item, "topic", json_string))


def read_plan(path: str) -> Plan:
    """Read a plan file. Raises CommandError. What Kafka checks for --execute only is left to `check_executable`."""
    partitions: list[tuple[TopicPartition, tuple[int, ...]]] = []
    log_dirs: dict[Replica, str] = {}
    for part, replicas, dirs in _entries(path, "partitions", _partition):
        partitions.append((part, replicas))
        log_dirs.update(
            {
                Replica(*part, broker): log_dir
                for broker, log_dir in zip(replicas, dirs, strict=True)
                if log_dir != ANY_LOG_DIR
            }
        )
    return Plan(tuple(partitions), log_dirs)


def _entries(path: str, field: str, convert: Callable[[JsonValue], T]) -> list[T]:
    data = json_in_file(path, json_object, read_json(path, _NOT_JSON))
    version = json_in_file(path, json_int, data.get("version", _VERSION))
    if version != _VERSION:
        raise CommandError(f"Not supported version field value {version}", hint=path)
    return json_entries(path, field, data.get(field, []), convert)


def _partition(item: JsonValue) -> tuple[TopicPartition, tuple[int, ...], list[str]]:
    part = (json_field(item, "topic", json_string), json_field(item, "partition", json_int))
    replicas = json_field(item, "replicas", lambda value: [json_int(entry) for entry in json_array(value)])
    dirs = [ANY_LOG_DIR] * len(replicas)
    if "log_dirs" in json_object(item):
        dirs = json_field(item, "log_dirs", lambda value: [json_string(entry) for entry in json_array(value)])
    if len(dirs) != len(replicas):
        raise CommandError(
            f"Size of replicas list {_list_text(replicas)} is different from size of log dirs list {_list_text(dirs)} "
            f"for partition {part[0]}-{part[1]}"
        )
    return part, tuple(replicas), dirs


def _list_text(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def _duplicates(items: Sequence[T]) -> list[T]:
    unique: set[T] = set()
    return list(dict.fromkeys(item for item in items if item in unique or unique.add(item)))  # type: ignore[func-returns-value]


def check_executable(plan: Plan) -> None:
    """Check a plan for --execute without contacting the cluster (parseExecuteAssignmentArgs). Raises CommandError."""
    if not plan.partitions:
        raise CommandError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.partitions):
        raise CommandError("Partition replica list cannot be empty")
    twice = hash_order(_duplicates([part for part, _ in plan.partitions]), partition_hash)
    if twice:
        raise CommandError(f"Partition reassignment contains duplicate topic partitions: {names(twice)}")
    duplicates = [(part, _duplicates(replicas)) for part, replicas in plan.partitions if _duplicates(replicas)]
    if duplicates:
        text = ". ".join(
            f"{topic}-{partition} contains multiple entries for {','.join(map(str, sorted(brokers)))}"
            for (topic, partition), brokers in duplicates
        )
        raise CommandError(f"Partition replica lists may not contain duplicate entries: {text}")


def plan_fields(
    replicas: Mapping[TopicPartition, Collection[int]], log_dirs: Mapping[Replica, str]
) -> dict[str, object]:
    """A plan as a JSON object, in order of topic and partition. An unknown log directory is `any`."""
    return {
        "version": _VERSION,
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "replicas": list(brokers),
                "log_dirs": [log_dirs.get((topic, partition, broker), ANY_LOG_DIR) for broker in brokers],  # type: ignore[call-overload]
            }
            for (topic, partition), brokers in sorted(replicas.items())
        ],
    }


def plan_text(replicas: Mapping[TopicPartition, Collection[int]], log_dirs: Mapping[Replica, str]) -> str:
    """A plan as one line of JSON, as Kafka's tool prints it."""
    return json.dumps(plan_fields(replicas, log_dirs), separators=(",", ":"), ensure_ascii=False)
