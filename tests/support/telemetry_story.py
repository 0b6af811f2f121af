"""Requests of client metrics (KIP-714) to one broker, and its answers: tests/golden/broker/telemetry.json has those of
Apache Kafka 4.3.1 with a plugin that takes metrics."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

from kafkatools.core.protocol.api_versions import ApiKey

from .raw_client import RawClient

METRICS_KIND = 16
INTERVAL_MS = 700
LIMIT_S = 30
GZIP, UNKNOWN_CODEC = 1, 9


class Teller:
    """A client of the protocol with an id of its own for each chapter."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.instance_id: uuid.UUID | None = None
        self.subscription_id = 0

    def get(self, instance_id: uuid.UUID | None = None) -> Any:
        answer = self.client.call(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, {"client_instance_id": instance_id})
        if not int(answer.error_code):
            self.instance_id, self.subscription_id = answer.client_instance_id, answer.subscription_id
        return answer

    def push(self, metrics: bytes = b"", compression: int = 0, *, wrong: int = 0, terminating: bool = False) -> int:
        fields = {
            "client_instance_id": self.instance_id,
            "subscription_id": self.subscription_id + wrong,
            "terminating": terminating,
            "compression_type": compression,
            "metrics": metrics,
        }
        return int(self.client.call(ApiKey.PUSH_TELEMETRY, 0, fields).error_code)

    def subscribe(self, name: str, **configs: str) -> None:
        """Set, or without configs remove, a client metrics resource."""
        changes = [
            {"name": key.replace("_", "."), "config_operation": 0, "value": value} for key, value in configs.items()
        ]
        if not configs:
            changes = [
                {"name": key, "config_operation": 1, "value": None} for key in ("metrics", "interval.ms", "match")
            ]
        resource = {"resource_type": METRICS_KIND, "resource_name": name, "configs": changes}
        fields = {"resources": [resource], "validate_only": False}
        (result,) = self.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields).responses
        assert int(result.error_code) == 0, result


def wait_for(teller: Teller, metrics: list[str]) -> Any:
    """The answer to a new client when the broker knows the subscriptions."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        answer = teller.get()
        if sorted(answer.requested_metrics) == sorted(metrics):
            return answer
    raise AssertionError(f"the broker does not request {metrics}")


def tell(bootstrap: str) -> Iterator[list[Any]]:
    """Yields the name and the outcome of each step."""
    with RawClient(bootstrap) as client:
        software = {"client_software_name": "test-client", "client_software_version": "1.2"}
        client.call(ApiKey.API_VERSIONS, 3, software)
        teller = Teller(client)
        first = teller.get()
        yield ["no subscription", *described(first)]
        yield ["asked again", int(teller.get(first.client_instance_id).error_code)]
        teller.subscribe("s1", metrics="org.apache.kafka.producer.,a.b", interval_ms=str(INTERVAL_MS))
        teller.subscribe(
            "s2", metrics="a.b", interval_ms="900", match="client_id=ra.*,client_software_name=test-client"
        )
        teller.subscribe("s3", metrics="c.d", interval_ms="100", match="client_id=ra")
        expected = ["org.apache.kafka.producer.", "a.b"]
        yield ["subscription", *described(wait_for(teller, expected))]
        yield ["asked again after a change", int(teller.get(first.client_instance_id).error_code)]
        yield from pushes(teller)
        teller.subscribe("s2", metrics="*")
        yield ["all metrics", *described(wait_for(teller, ["*"]))]
        for name in ("s1", "s2", "s3"):
            teller.subscribe(name)
        wait_for(teller, [])


def pushes(teller: Teller) -> Iterator[list[Any]]:
    def pause() -> None:
        time.sleep(1.2 * INTERVAL_MS / 1000)

    teller.get()
    yield ["no id", push_as(teller, None)]
    yield ["reserved id", push_as(teller, uuid.UUID(int=1))]
    yield ["wrong subscription", teller.push(wrong=1)]
    yield ["asked again after an error", int(teller.get(teller.instance_id).error_code)]
    yield ["pushed too early", teller.push()]
    pause()
    yield ["pushed", teller.push()]
    yield ["pushed too early again", teller.push()]
    pause()
    yield ["unknown compression", teller.push(b"x", UNKNOWN_CODEC)]
    pause()
    yield ["too large", teller.push(bytes(1_048_577))]
    pause()
    yield ["not compressed as it says", teller.push(b"no gzip", GZIP)]
    yield ["last push", teller.push(terminating=True)]
    yield ["push after the last one", teller.push()]
    pause()
    yield ["asked after the last push", int(teller.get(teller.instance_id).error_code)]
    teller.get()
    yield ["pushed at once", teller.push()]


def push_as(teller: Teller, instance_id: uuid.UUID | None) -> int:
    own_id, teller.instance_id = teller.instance_id, instance_id
    code = teller.push()
    teller.instance_id = own_id
    return code


def described(answer: Any) -> list[Any]:
    """An answer to GetTelemetrySubscriptions without the ids."""
    return [
        int(answer.error_code),
        sorted(answer.requested_metrics),
        list(answer.accepted_compression_types),
        duration_ms(answer.push_interval),
        answer.telemetry_max_bytes,
        answer.delta_temporality,
    ]


def duration_ms(value: Any) -> int:
    return int(value) if isinstance(value, int) else int(value.total_seconds() * 1000)
