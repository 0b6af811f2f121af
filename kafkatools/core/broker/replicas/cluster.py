"""The parts of its node and of other brokers that replication needs, and the replica.* settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.server.channels import ControllerChannel, PeerChannel
from kafkatools.core.broker.server.timer import TimerTask
from kafkatools.core.clock import Clock
from kafkatools.core.config import BROKER, Config


class ReplicationSettings(NamedTuple):
    """The replica.* settings of a broker in ms and bytes; `quota_windows` is (window in ms, number of windows)."""

    lag_time_max_ms: int = BROKER.default_number("replica.lag.time.max.ms")
    fetch_max_bytes: int = BROKER.default_number("replica.fetch.max.bytes")
    fetch_min_bytes: int = BROKER.default_number("replica.fetch.min.bytes")
    fetch_response_max_bytes: int = BROKER.default_number("replica.fetch.response.max.bytes")
    fetch_wait_max_ms: int = BROKER.default_number("replica.fetch.wait.max.ms")
    fetch_backoff_ms: int = BROKER.default_number("replica.fetch.backoff.ms")
    socket_timeout_ms: int = BROKER.default_number("replica.socket.timeout.ms")
    quota_windows: tuple[int, int] = (1000, 11)
    selects_by_rack: bool = False

    @classmethod
    def of(cls, config: Config) -> ReplicationSettings:
        """Read the settings from a broker's configuration."""
        return cls(
            lag_time_max_ms=config.replica_lag_time_max_ms,
            fetch_max_bytes=config.replica_fetch_max_bytes,
            fetch_min_bytes=config.replica_fetch_min_bytes,
            fetch_response_max_bytes=config.replica_fetch_response_max_bytes,
            fetch_wait_max_ms=config.replica_fetch_wait_max_ms,
            fetch_backoff_ms=config.replica_fetch_backoff_ms,
            socket_timeout_ms=config.replica_socket_timeout_ms,
            quota_windows=(config.replication_quota_window_size_seconds * 1000, config.replication_quota_window_num),
            selects_by_rack=(config.replica_selector_class or "").endswith("RackAwareReplicaSelector"),
        )


class Cluster(NamedTuple):
    """The node's services that replication uses: image, clock, timer, channels to brokers and to the controller."""

    node_id: int
    image: MetadataImage
    clock: Clock
    peers: PeerChannel
    controller: ControllerChannel
    broker_epoch: Callable[[], int]
    """The epoch of this broker's registration, -1 before it has one."""
    schedule: Callable[[int, Callable[[int], None]], TimerTask]
    """`Timer.schedule` from now on: (delay in ms, callback)."""
    limit_of: Callable[[str], int | None]
    """The current rate of a throttle in bytes per second, by the setting's name; None when it was never set."""
    note_failure: Callable[[Exception], None] | None = None
    """Called with the error of a log that could not be written."""
    has_contact: Callable[[], bool] = lambda: True
    """Whether the controller answers this broker's heartbeats."""
