"""The controller.quorum.* settings as numbers (Kafka's QuorumConfig)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, fields

from kafkatools.core.broker.metadata.quorum.voter_set import EndPoint
from kafkatools.core.config import BROKER, Config
from kafkatools.core.errors import ConfigError


@dataclass(frozen=True)
class RaftSettings:
    """Times in ms and sizes in bytes, with Kafka's defaults. A `cluster_id` of None matches every cluster.
    `end_points` are the listeners of this node's controller, of which `listener_name` is the first."""

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
    end_points: tuple[EndPoint, ...] = ()
    bootstrap: tuple[tuple[str, int], ...] = ()
    is_controller: bool = False
    auto_join_enable: bool = False

    @property
    def bootstrap_addresses(self) -> dict[int, tuple[str, int]]:
        """The addresses of controller.quorum.bootstrap.servers, without this node's own, by ids below 0: the ids of
        their nodes are not known."""
        own = [point.address for point in self.end_points]
        return {-2 - index: address for index, address in enumerate(self.bootstrap) if address not in own}

    @classmethod
    def of(
        cls,
        config: Config,
        cluster_id: str | None,
        directory_id: uuid.UUID | None = None,
        end_points: tuple[EndPoint, ...] = (),
    ) -> RaftSettings:
        """Read the settings from a node's configuration; `end_points` are the listeners of its controller."""
        names = config["controller.listener.names"]
        settings = {field.name: f"controller.quorum.{field.name.replace('_', '.')}" for field in fields(cls)}
        numbers = {name: config[setting] for name, setting in settings.items() if setting in config.table}
        listener_name = names[0].upper() if names else cls.listener_name
        return cls(
            cluster_id,
            **numbers,
            listener_name=listener_name,
            directory_id=directory_id,
            end_points=end_points,
            bootstrap=tuple(map(_address, config.controller_quorum_bootstrap_servers)),
            is_controller=bool(end_points),
        )


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()):
        raise ConfigError(f"Invalid url in controller.quorum.bootstrap.servers: {text}")
    return host.strip("[]"), int(port)
