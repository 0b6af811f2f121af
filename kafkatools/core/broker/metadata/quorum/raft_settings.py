"""How a quorum behaves: the settings controller.quorum.* (Kafka's QuorumConfig), as numbers."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kafkatools.core.config import BROKER, Config


@dataclass(frozen=True)
class RaftSettings:
    """Times and sizes; the defaults are Kafka's. `cluster_id` None is never compared."""

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
        """From a node's settings."""
        names = config["controller.listener.names"]
        return cls(
            cluster_id,
            config["controller.quorum.election.timeout.ms"],
            config["controller.quorum.election.backoff.max.ms"],
            config["controller.quorum.fetch.timeout.ms"],
            config["controller.quorum.request.timeout.ms"],
            config["controller.quorum.retry.backoff.ms"],
            fetch_max_bytes=config["controller.quorum.fetch.max.bytes"],
            fetch_snapshot_max_bytes=config["controller.quorum.fetch.snapshot.max.bytes"],
            listener_name=names[0] if names else cls.listener_name,
            directory_id=directory_id,
        )
