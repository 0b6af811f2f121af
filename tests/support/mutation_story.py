"""A client that changes topics under a quota of changes (controller_mutation_rate), and what a broker answers."""

from __future__ import annotations

import time
from typing import NamedTuple

from kafkatools.core.protocol.api_versions import ApiKey

from .raw_client import RawClient

RATE = "controller_mutation_rate"
CLIENT_ID = "raw"
LIMIT_S = 30


class Step(NamedTuple):
    """The error of each topic, and whether the client is throttled."""

    errors: tuple[tuple[int, str | None], ...]
    is_throttled: bool


def set_rate(client: RawClient, rate: float | None) -> None:
    """Sets, or with None removes, the quota of this client id, and waits until the broker describes it so."""
    entity = [{"entity_type": "client-id", "entity_name": CLIENT_ID}]
    operation = {"key": RATE, "value": rate or 0.0, "remove": rate is None}
    fields = {"entries": [{"entity": entity, "ops": [operation]}], "validate_only": False}
    client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, fields)
    deadline = time.monotonic() + LIMIT_S
    component = {"entity_type": "client-id", "match_type": 0, "match": CLIENT_ID}
    while time.monotonic() < deadline:
        found = client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [component], "strict": True}).entries
        if bool(found) == (rate is not None):
            return
    raise AssertionError(f"the quota {rate} is not described")


def create(client: RawClient, version: int, names: list[str], partitions: int, *, only_check: bool = False) -> Step:
    """CreateTopics; from version 6 on the quota is strict."""
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        for name in names
    ]
    fields = {"topics": topics, "timeout": 30_000, "validate_only": only_check}
    answer = client.call(ApiKey.CREATE_TOPICS, version, fields)
    return Step(tuple((int(t.error_code), t.error_message) for t in answer.topics), answer.throttle_time > 0)


def tell(bootstrap: str, prefix: str) -> list[Step]:
    """Eleven partitions at once are free at a rate of 1 per second; then the quota is exceeded."""
    steps = []
    with RawClient(bootstrap) as client:
        set_rate(client, 1.0)
    with RawClient(bootstrap) as client:
        steps.append(create(client, 7, [f"{prefix}a"], 13))
        steps.append(create(client, 7, [f"{prefix}b", f"{prefix}c"], 1))
    with RawClient(bootstrap) as client:
        fields = {
            "topics": [{"name": f"{prefix}a", "count": 14, "assignments": None}],
            "timeout": 3000,
            "validate_only": False,
        }
        answer = client.call(ApiKey.CREATE_PARTITIONS, 3, fields)
        steps.append(
            Step(tuple((int(r.error_code), r.error_message) for r in answer.results), answer.throttle_time > 0)
        )
    with RawClient(bootstrap) as client:
        steps.append(create(client, 7, [f"{prefix}v"], 1, only_check=True))
    with RawClient(bootstrap) as client:
        fields = {"topics": [{"name": f"{prefix}a", "topic_id": None}], "timeout": 3000}
        answer = client.call(ApiKey.DELETE_TOPICS, 6, fields)
        steps.append(
            Step(tuple((int(r.error_code), r.error_message) for r in answer.responses), answer.throttle_time > 0)
        )
    with RawClient(bootstrap) as client:
        steps.append(create(client, 5, [f"{prefix}d"], 1))
    with RawClient(bootstrap) as client:
        set_rate(client, None)
    return steps
