"""The controller.quorum.* settings as numbers (Kafka's QuorumConfig)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, fields

from kafkatools.core.config import BROKER, Config


@dataclass(frozen=True)
class RaftSettings:
    """Times in ms and sizes in bytes, with Kafka's defaults. A `cluster_id` of None matches every cluster."""

    cluster_id: str | None = None
    election_timeout_ms: int = BROKER.default_number("controller.quorum.election.timeout.ms")
    election_backoff_max_ms: int = BROKER.default_number("controller.quorum.election.backoff.max.ms")
    fetch_timeout_ms: int = BROKER.default_number("controller.quorum.fetch.timeout.ms")
    request_timeout_ms: int = BROKER.default_number("controller.quorum.request.timeout.ms")
    retry_backoff_ms: int = BROKER.default_number("controller.quorum.retry.backoff.ms")
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = BROKER.default_number("controller.quorum.fetch.max.bytes")
    fetch_snapshot_max_bytes: int = BROKER.default_number("controller.quorum.fetch.snapshot.max.bytes")
    listener_name: str = "CONTROLLER"
    directory_id: uuid.UUID | None = None

    @classmethod
    def of(cls, config: Config, cluster_id: str | None, directory_id: uuid.UUID | None = None) -> RaftSettings:
        """Read the settings from a node's configuration."""
        names = config["controller.listener.names"]
        settings = {field.name: f"controller.quorum.{field.name.replace('_', '.')}" for field in fields(cls)}
        numbers = {name: config[setting] for name, setting in settings.items() if setting in config.table}
        listener_name = names[0] if names else cls.listener_name
        return cls(cluster_id, **numbers, listener_name=listener_name, directory_id=directory_id)
