"""Several brokers on loopback that answer as a cluster would about replicas, their sizes, their moves and throttles.

The state is plain attributes that a test sets and looks at. A reassignment takes as many questions for it as `steps`
says; the new replicas grow with every one. No broker stores a record.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from support.scripted_broker import CLOSE, ScriptedBroker

from kafkatools.core.protocol.api_versions import ApiKey

TopicPartition = tuple[str, int]
CLUSTER_ID = "scripted-cluster-id-00"
_DYNAMIC = {2: 1, 4: 2}  # type of resource -> source of a value set on it


class ScriptedCluster:
    """`replicas`: topic -> replicas of each partition. `brokers`: id -> rack; each has an address of its own."""

    def __init__(self, brokers: Mapping[int, str | None], replicas: Mapping[str, list[list[int]]]) -> None:
        self.racks = dict(brokers)
        self.replicas = {(topic, n): list(ids) for topic, lists in replicas.items() for n, ids in enumerate(lists)}
        self.size_bytes = 1000
        self.sizes: dict[TopicPartition, int] = {}  # of partitions with another size
        self.volumes: dict[int, tuple[int, int]] = {}  # node -> total and usable bytes
        self.silent: set[int] = set()  # nodes that answer questions for their log directories with an error
        self.out_of_sync: dict[TopicPartition, set[int]] = {}
        self.moving: dict[TopicPartition, list[int]] = {}
        self.steps = 3
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.refused: dict[TopicPartition, tuple[int, str]] = {}
        self.failed_alterations: list[int] = []  # error codes with which the next requests fail as a whole
        self.hides_nodes = False  # requests for metadata close the connection
        self.alterations: list[dict[TopicPartition, list[int] | None]] = []
        self.rates: list[str] = []
        self.on_alteration: Callable[[], object] = lambda: None
        self.stale_answers = 0  # how many times more settings are not shown
        self.log_dir_errors: dict[tuple[str, int, int], list[int]] = {}  # (topic, partition, broker) -> coming codes
        self.future_dirs: dict[tuple[str, int, int], str] = {}  # directories to which replicas are on their way
        self.away: set[int] = set()  # brokers that the others do not see
        self.most_at_once = 0
        self._done: dict[TopicPartition, int] = {}
        self._brokers = {node: ScriptedBroker() for node in brokers}
        ports = {node: broker.port for node, broker in self._brokers.items()}
        for node, broker in self._brokers.items():
            broker.nodes = ports
            broker.answers.update(self._answers(node))

    @property
    def bootstrap(self) -> str:
        """All brokers."""
        return ",".join(broker.bootstrap for broker in self._brokers.values())

    def values(self, name: str) -> set[str]:
        """The values of a setting, wherever it is set."""
        return {values[name] for values in self.configs.values() if name in values}

    @property
    def throttles(self) -> dict[tuple[int, str], dict[str, str]]:
        """What is set of resources that have anything set."""
        return {key: values for key, values in self.configs.items() if values}

    @contextmanager
    def running(self) -> Iterator[ScriptedCluster]:
        """Answers until the end of the block."""
        stop = threading.Event()

        def turn() -> None:
            while not stop.is_set():
                for broker in self._brokers.values():
                    broker.run_once(0.001)

        thread = threading.Thread(target=turn)
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()
            for broker in self._brokers.values():
                broker.close()

    def _answers(self, node: int) -> dict[int, Any]:
        return {
            ApiKey.METADATA: self._metadata,
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self._describe_topics,
            ApiKey.DESCRIBE_LOG_DIRS: lambda header, request: self._describe_log_dirs(node, request),
            ApiKey.ALTER_REPLICA_LOG_DIRS: lambda header, request: self._alter_log_dirs(node, request),
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self._list_reassignments,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self._alter_reassignments,
            ApiKey.DESCRIBE_CONFIGS: self._describe_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter_configs,
        }

    def _nodes(self, name: str) -> list[dict[str, Any]]:
        return [
            {name: node, "host": "127.0.0.1", "port": broker.port, "rack": self.racks[node]}
            for node, broker in self._brokers.items()
            if node not in self.away
        ]

    def _metadata(self, header: Any, request: Any) -> Any:
        if self.hides_nodes:
            return CLOSE
        topics = [
            {"name": name, "topic_id": uuid.uuid5(uuid.NAMESPACE_DNS, name), "partitions": ()}
            for name in sorted({topic for topic, _ in self.replicas})
        ]
        wanted = topics if request.topics is None else ()
        brokers = self._nodes("node_id")
        return {"brokers": brokers, "topics": wanted, "controller_id": brokers[0]["node_id"], "cluster_id": CLUSTER_ID}

    def _describe_cluster(self, header: Any, request: Any) -> Any:
        return {"cluster_id": CLUSTER_ID, "controller_id": 1, "brokers": self._nodes("broker_id")}

    def _present(self, key: TopicPartition) -> list[int]:
        """The replicas, those being added included."""
        return list(dict.fromkeys([*self.moving.get(key, ()), *self.replicas[key]]))

    def _describe_topics(self, header: Any, request: Any) -> Any:
        known = {topic for topic, _ in self.replicas}
        topics = [
            {
                "name": name,
                "topic_id": uuid.uuid5(uuid.NAMESPACE_DNS, name),
                "partitions": self._parts(name),
            }
            if name in known
            else {"name": name, "error_code": 3, "partitions": ()}
            for name in [one.name for one in request.topics] or sorted(known)
        ]
        return {"topics": topics, "next_cursor": None}

    def _parts(self, topic: str) -> list[dict[str, Any]]:
        found = []
        for (name, number), ids in sorted(self.replicas.items()):
            if name != topic:
                continue
            away = self.out_of_sync.get((name, number), set())
            isr = [each for each in ids if each in self._brokers and each not in away]
            present = self._present((name, number))
            found.append(
                {
                    "partition_index": number,
                    "leader_id": isr[0] if isr else -1,
                    "leader_epoch": 0,
                    "replica_nodes": present,
                    "isr_nodes": isr,
                    "offline_replicas": [each for each in present if each not in self._brokers],
                }
            )
        return found

    def _describe_log_dirs(self, node: int, request: Any) -> Any:
        if node in self.silent:
            return {"error_code": 31, "results": ()}
        wanted = None
        if request.topics is not None:
            wanted = {(one.topic, number) for one in request.topics for number in one.partitions}
        topics: dict[str, list[dict[str, Any]]] = {}
        for key in self.replicas:
            if node not in self._present(key) or (wanted is not None and key not in wanted):
                continue
            size = self.sizes.get(key, self.size_bytes)
            if node not in self.replicas[key]:
                size = size * self._done.get(key, 0) // (self.steps + 1)
            topics.setdefault(key[0], []).append({"partition_index": key[1], "partition_size": size, "offset_lag": 0})
        rows = [{"name": name, "partitions": parts} for name, parts in topics.items()]
        total, usable = self.volumes.get(node, (-1, -1))
        results = [{"log_dir": f"/data{node}", "topics": rows, "total_bytes": total, "usable_bytes": usable}]
        for (topic, number, broker), path in self.future_dirs.items():
            part = {"partition_index": number, "partition_size": 10, "offset_lag": 1, "is_future_key": True}
            if broker == node:
                results.append({**results[0], "log_dir": path, "topics": [{"name": topic, "partitions": [part]}]})
        return {"results": results}

    def _alter_log_dirs(self, node: int, request: Any) -> Any:
        results = []
        for directory in request.dirs:
            for topic in directory.topics:
                parts = []
                for number in topic.partitions:
                    codes = self.log_dir_errors.get((topic.name, number, node), [])
                    code = codes.pop(0) if codes else 0
                    if code == 0:
                        self.future_dirs[topic.name, number, node] = directory.path
                    parts.append({"partition_index": number, "error_code": code})
                results.append({"topic_name": topic.name, "partitions": parts})
        return {"results": results}

    def _list_reassignments(self, header: Any, request: Any) -> Any:
        wanted = None
        if request.topics is not None:
            wanted = {(one.name, number) for one in request.topics for number in one.partition_indexes}
        self.advance()
        topics: dict[str, list[dict[str, Any]]] = {}
        for key, target in self.moving.items():
            if wanted is None or key in wanted:
                adding = [each for each in target if each not in self.replicas[key]]
                removing = [each for each in self.replicas[key] if each not in target]
                row = {"partition_index": key[1], "replicas": self._present(key), "adding_replicas": adding}
                topics.setdefault(key[0], []).append(row | {"removing_replicas": removing})
        return {"topics": [{"name": name, "partitions": parts} for name, parts in topics.items()]}

    def advance(self) -> None:
        """One step of all moves."""
        for key, target in list(self.moving.items()):
            self._done[key] = self._done.get(key, 0) + 1
            if self._done[key] > self.steps:
                self.replicas[key] = target
                del self.moving[key], self._done[key]

    def _alter_reassignments(self, header: Any, request: Any) -> Any:
        self.alterations.append({})
        self.on_alteration()
        if self.failed_alterations:
            return {"error_code": self.failed_alterations.pop(0), "responses": ()}
        responses = []
        for topic in request.topics:
            rows = []
            for part in topic.partitions:
                key = (topic.name, part.partition_index)
                code, message = self.refused.get(key, (0, None))
                rows.append({"partition_index": part.partition_index, "error_code": code, "error_message": message})
                self.alterations[-1][key] = None if part.replicas is None else list(part.replicas)
                if code == 0:
                    self._alter(key, part.replicas)
            responses.append({"name": topic.name, "partitions": rows})
        self.most_at_once = max(self.most_at_once, len(self.moving))
        return {"responses": responses}

    def _alter(self, key: TopicPartition, target: Any) -> None:
        if target is None:
            self.moving.pop(key, None)
        elif list(target) != self.replicas[key]:
            self.moving[key] = list(target)
        self._done.pop(key, None)

    def _describe_configs(self, header: Any, request: Any) -> Any:
        results = []
        for one in request.resources:
            values = self.configs.get((one.resource_type, one.resource_name), {}) if self.stale_answers <= 0 else {}
            source = _DYNAMIC[one.resource_type]
            configs = [{"name": name, "value": value, "config_source": source} for name, value in values.items()]
            results.append({"resource_type": one.resource_type, "resource_name": one.resource_name, "configs": configs})
        self.stale_answers -= 1
        return {"results": results}

    def _alter_configs(self, header: Any, request: Any) -> Any:
        responses = []
        for one in request.resources:
            values = self.configs.setdefault((one.resource_type, one.resource_name), {})
            for config in one.configs:
                if config.config_operation == 1:
                    values.pop(config.name, None)
                else:
                    values[config.name] = config.value
                    if config.name == "leader.replication.throttled.rate" and config.value not in self.rates[-1:]:
                        self.rates.append(config.value)
            responses.append({"resource_type": one.resource_type, "resource_name": one.resource_name})
        return {"responses": responses}
