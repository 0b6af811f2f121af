"""The workload `metadata`: topics that are created, altered, given more partitions, deleted and described, each by all
clients of the workload for a few seconds, then the next. Own argument: prefix of the names.

kafkatools' client asks one broker, once, so that an operation is one request: a retry would be a second one. librdkafka
repeats requests itself, so it only asks for what is harmless twice: more partitions, and to describe.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from common import COMMON, OURS, Arguments, complain

PERIOD_S = 5
ANSWER_S = 6
REPLICAS = 3
TOPIC = 2
PARTITION_ERRORS = {
    "INVALID_PARTITIONS": "INVALID_PARTITIONS",
    "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION",
}
"""librdkafka's names and Kafka's."""


def current_topic(prefix: str) -> str:
    """The name whose turn it is: the machine's monotonic clock is the same for all processes."""
    return f"{prefix}-{int(time.monotonic() // PERIOD_S)}"


class OurAdmin:
    """One request to one broker for each operation."""

    def __init__(self, arguments: Arguments, source: random.Random) -> None:
        from kafkatools.core.admin.client import AdminClient
        from kafkatools.core.clock import SystemClock
        from kafkatools.core.errors import KafkaError

        settings = {**COMMON, "request.timeout.ms": str(ANSWER_S * 1000), "default.api.timeout.ms": "7000"}
        self._admin = AdminClient(arguments.bootstrap, settings, SystemClock())
        self._source = source
        self._error = KafkaError
        self.kinds = ("create", "delete", "alter", "alter", "partitions", "describe", "describe", "configs", "configs")
        self._number = 0
        self._name = f"{arguments.run}{''.join(filter(str.isdigit, arguments.name))}"

    def choose(self, topic: str) -> tuple[str, dict[str, Any]]:
        """An operation and its arguments."""
        kind = self._source.choice(self.kinds)
        self._number += 1
        if self._source.random() < 0.1:  # what was made is cleared away again
            prefix, _, number = topic.rpartition("-")
            kind, topic = "delete", f"{prefix}-{int(number) - 2}"
        values: dict[str, Any] = {"topic": topic, "broker": self._source.choice((1, 2, 3))}
        if kind in ("create", "alter"):
            values["value"] = int(f"{9_000_000 + self._number}{self._name}")
        if kind in ("create", "partitions"):
            values["count"] = 1 if kind == "create" else self._source.randint(2, 4)
        return kind, values

    def run(self, kind: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The outcome and what was answered."""
        from kafkatools.core.errors import Timeout

        try:
            self._admin.refresh_cluster(2000)
        except self._error as error:
            return "fail", {"error": "not sent", "reason": repr(error)}
        try:
            return getattr(self, f"_{kind}")(**values)  # type: ignore[no-any-return]
        except Timeout as error:
            return "unknown", {"error": repr(error)}
        except self._error as error:
            return "unknown", {"error": repr(error)}

    def _ask(self, broker: int, api_key: int, fields: Any) -> Any:
        from kafkatools.core.net.requests import BrokerRequest

        answer = self._admin.send_all(
            [BrokerRequest(broker, api_key, fields)], self._admin.deadline_ms(ANSWER_S * 1000)
        )[0]
        if answer.error is not None:
            raise answer.error
        return answer.entity

    @staticmethod
    def _outcome(code: int) -> tuple[str, dict[str, Any]]:
        from kafkatools.core.errors import error_for_code

        if int(code) == 0:
            return "ok", {}
        name = error_for_code(int(code)).name
        is_final = name in ("TOPIC_ALREADY_EXISTS", "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_PARTITIONS")
        return "fail" if is_final else "unknown", {"error": name}

    def _create(self, topic: str, broker: int, value: int, count: int) -> tuple[str, dict[str, Any]]:
        configs = [{"name": "retention.ms", "value": str(value)}]
        wanted = {"name": topic, "num_partitions": count, "replication_factor": REPLICAS, "assignments": ()}
        fields = {"topics": [{**wanted, "configs": configs}], "timeout": ANSWER_S * 1000, "validate_only": False}
        return self._outcome(self._ask(broker, 19, fields).topics[0].error_code)

    def _delete(self, topic: str, broker: int) -> tuple[str, dict[str, Any]]:
        def fields(version: int) -> dict[str, Any]:
            return {"topics": [{"name": topic, "topic_id": None}], "timeout": ANSWER_S * 1000}

        return self._outcome(self._ask(broker, 20, fields).responses[0].error_code)

    def _alter(self, topic: str, broker: int, value: int) -> tuple[str, dict[str, Any]]:
        configs = [{"name": "retention.ms", "config_operation": 0, "value": str(value)}]
        resources = [{"resource_type": TOPIC, "resource_name": topic, "configs": configs}]
        answer = self._ask(broker, 44, {"resources": resources, "validate_only": False})
        return self._outcome(answer.responses[0].error_code)

    def _partitions(self, topic: str, broker: int, count: int) -> tuple[str, dict[str, Any]]:
        topics = [{"name": topic, "count": count, "assignments": None}]
        answer = self._ask(broker, 37, {"topics": topics, "timeout": ANSWER_S * 1000, "validate_only": False})
        return self._outcome(answer.results[0].error_code)

    def _describe(self, topic: str, broker: int) -> tuple[str, dict[str, Any]]:
        fields = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
        fields["include_topic_authorized_operations"] = False
        found = self._ask(broker, 3, fields).topics[0]
        exists = int(found.error_code) != 3
        return "ok", {"exists": exists, "count": len(found.partitions) if exists else 0}

    def _configs(self, topic: str, broker: int) -> tuple[str, dict[str, Any]]:
        resources = [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["retention.ms"]}]
        fields = {"resources": resources, "include_synonyms": False, "include_documentation": False}
        found = self._ask(broker, 32, fields).results[0]
        if int(found.error_code) == 3:
            return "ok", {"exists": False}
        if int(found.error_code) != 0:
            return "unknown", {"error": int(found.error_code)}
        return "ok", {"exists": True, "value": int(found.configs[0].value)}


class LibrdkafkaAdmin:
    """More partitions, and descriptions by any broker."""

    def __init__(self, arguments: Arguments, source: random.Random) -> None:
        from confluent_kafka.admin import AdminClient

        settings = {"bootstrap.servers": arguments.bootstrap, "socket.timeout.ms": "5000"}
        self._admin = AdminClient({**COMMON, **settings, "metadata.recovery.strategy": "none"})
        self._source = source

    def choose(self, topic: str) -> tuple[str, dict[str, Any]]:
        kind = self._source.choice(("partitions", "configs", "configs"))
        values: dict[str, Any] = {"topic": topic}
        if kind == "partitions":
            values["count"] = self._source.randint(2, 4)
        return kind, values

    def run(self, kind: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        from confluent_kafka import KafkaException

        try:
            return getattr(self, f"_{kind}")(**values)  # type: ignore[no-any-return]
        except KafkaException as error:
            name = error.args[0].name()
            if kind == "configs" and name in ("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_OR_PARTITION"):
                return "ok", {"exists": False}
            if kind == "partitions" and name in PARTITION_ERRORS:
                return "fail", {"error": PARTITION_ERRORS[name]}
            return "unknown", {"error": name}

    def _partitions(self, topic: str, count: int) -> tuple[str, dict[str, Any]]:
        from confluent_kafka.admin import NewPartitions

        requested = self._admin.create_partitions([NewPartitions(topic, count)], request_timeout=ANSWER_S)
        requested[topic].result()
        return "ok", {}

    def _configs(self, topic: str) -> tuple[str, dict[str, Any]]:
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self._admin.describe_configs([resource], request_timeout=ANSWER_S)[resource].result()
        return "ok", {"exists": True, "value": int(found["retention.ms"].value)}


def main() -> None:
    arguments = Arguments()
    (prefix,) = arguments.more
    source = random.Random(f"{arguments.name} {arguments.run}")
    admin: Any = (OurAdmin if arguments.library == OURS else LibrdkafkaAdmin)(arguments, source)
    while not arguments.stopping.is_set():
        kind, values = admin.choose(current_topic(prefix))
        operation = arguments.recorder.invoke(kind, **values)
        outcome, answer = admin.run(kind, values)
        if outcome == "unknown":
            complain(arguments, (kind, values, answer))
        arguments.recorder.complete(operation, outcome, **answer)
        arguments.stopping.wait(source.uniform(0.1, 0.5))


sys.exit(main())
