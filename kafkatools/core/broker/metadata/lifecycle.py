"""A broker's registration, heartbeats and controlled shutdown (Kafka's BrokerLifecycleManager).

States: STARTING registers and replays the metadata up to the registration. RECOVERY opens the partitions and listeners
and asks to be unfenced. RUNNING is unfenced. In PENDING_CONTROLLED_SHUTDOWN the controller moves the leaderships away.

Rules: one request is under way at a time. A registration that the controller no longer knows is repeated with the same
incarnation id. A permanent error, such as a wrong cluster id, ends the start at once. Other errors end it after
initial.broker.registration.timeout.ms. In both cases the failure names the reason.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, unique
from typing import Any

from kafkatools.core.broker.server.channels import ControllerChannel
from kafkatools.core.clock import Clock
from kafkatools.core.errors import (
    BrokerIdNotRegistered,
    ConfigError,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    KafkaError,
    StaleBrokerEpoch,
    UnsupportedVersion,
    error_from_code,
)
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.uuids import random_uuid

STARTING_INTERVAL_MS = 20
RETRY_MS = 100
SHUTDOWN_INTERVAL_MS = 20
SILENCE_MS = 3000
HOPELESS_MS = 300
FINAL_ERRORS = (InconsistentClusterId.code, InvalidRegistration.code, UnsupportedVersion.code)


@unique
class State(Enum):
    """The lifecycle states of a broker (Kafka's BrokerState)."""

    STARTING = "STARTING"
    RECOVERY = "RECOVERY"
    RUNNING = "RUNNING"
    PENDING_CONTROLLED_SHUTDOWN = "PENDING_CONTROLLED_SHUTDOWN"
    SHUTTING_DOWN = "SHUTTING_DOWN"


@dataclass(frozen=True)
class Identity:
    """The ids, listeners, features and log directories that a broker registers."""

    node_id: int
    cluster_id: str
    listeners: Sequence[Fields]
    features: Sequence[Fields]
    log_dirs: Sequence[uuid.UUID]
    rack: str | None = None
    previous_epoch: int = -1


@dataclass(eq=False, repr=False)
class BrokerLifecycle:
    """The worker that registers a broker, sends its heartbeats and performs its controlled shutdown. `on_caught_up` is
    called when the metadata reaches this broker's registration; the broker then opens its partitions and listeners.
    `on_running` is called when the controller has unfenced it. `on_failure` gets the error that must end the node."""

    identity: Identity
    link: ControllerChannel
    clock: Clock
    metadata_offset: Callable[[], int]
    _: KW_ONLY
    heartbeat_interval_ms: int
    registration_timeout_ms: int
    on_caught_up: Callable[[], None] = lambda: None
    on_running: Callable[[], None] = lambda: None
    on_failure: Callable[[KafkaError], None] = lambda error: None
    is_hopeless: Callable[[], bool] = lambda: False
    report: Callable[[str], None] = lambda line: None
    state: State = field(default=State.STARTING, init=False)
    epoch: int = field(default=-1, init=False)
    incarnation_id: uuid.UUID = field(default_factory=random_uuid, init=False)
    offline_log_dirs: list[uuid.UUID] = field(default_factory=list, init=False)
    cordoned_log_dirs: list[uuid.UUID] = field(default_factory=list, init=False)
    is_fenced: bool = field(default=True, init=False)
    _is_registered: bool = field(default=False, init=False)
    _is_in_flight: bool = field(default=False, init=False)
    _is_urgent: bool = field(default=False, init=False)
    _has_reported_duplicate: bool = field(default=False, init=False)
    _wants_clients: bool = field(default=False, init=False)
    _last_error: KafkaError | None = field(default=None, init=False)
    _shutdown_ends_ms: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._next_ms = self._last_answer_ms = self.clock.now_ms()
        self._registration_ends_ms: int | None = self._next_ms + self.registration_timeout_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms at which `tick` must run next; None after the shutdown."""
        if self.state is State.SHUTTING_DOWN:
            return None
        deadlines = [] if self._is_in_flight else [self._next_ms]
        if self._registration_ends_ms is not None:
            deadlines.append(self._registration_ends_ms)
        if self.state is State.PENDING_CONTROLLED_SHUTDOWN:
            deadlines += [self._shutdown_ends_ms, self.clock.now_ms() + HOPELESS_MS]
        return min(deadlines, default=None)

    @property
    def has_contact(self) -> bool:
        """Return whether the controller has answered a heartbeat within the last two heartbeat intervals."""
        return self.clock.now_ms() - self._last_answer_ms <= 2 * self.heartbeat_interval_ms

    def tick(self, now_ms: int) -> None:
        """Send a registration or heartbeat when it is due, and check the registration and shutdown time-outs."""
        if self.state is State.SHUTTING_DOWN:
            return
        if self._registration_ends_ms is not None and now_ms >= self._registration_ends_ms:
            self._registration_ends_ms = None
            self.on_failure(self._never_registered())
            return
        if self.state is State.PENDING_CONTROLLED_SHUTDOWN:
            reason = self._pending_hand_over_reason(now_ms)
            if reason:
                self.report(
                    f"WARN The controlled shutdown of broker {self.identity.node_id} was not completed: {reason}"
                )
                self.state = State.SHUTTING_DOWN
                return
        if not self._is_in_flight and now_ms >= self._next_ms:
            self._is_in_flight = True
            if self._is_registered:
                self._send_heartbeat()
            else:
                self._send_registration()

    def _pending_hand_over_reason(self, now_ms: int) -> str:
        """Return why a controlled shutdown cannot complete, empty while it still can."""
        silence_ms = now_ms - self._last_answer_ms
        if silence_ms >= HOPELESS_MS and self.is_hopeless():
            return "most of the controllers are unreachable"
        if silence_ms >= SILENCE_MS:
            return "no controller responds"
        return "it timed out" if now_ms >= self._shutdown_ends_ms else ""

    def may_be_unfenced(self) -> None:
        """Ask to be unfenced from now on: the broker's partitions and listeners are open."""
        self._wants_clients = True
        self.heartbeat_now()

    def heartbeat_now(self) -> None:
        """Send the next heartbeat at once, to report a failed directory or a ready broker. If a heartbeat is under way,
        which lacks the news, the next one follows its response."""
        self._is_urgent = self._is_in_flight
        self._next_ms = self.clock.now_ms()

    def register_again(self) -> None:
        """Send the registration again with the next request; the same incarnation keeps its epoch."""
        self._is_registered = False
        self.heartbeat_now()

    def _send_registration(self) -> None:
        identity = self.identity
        fields = {
            "broker_id": identity.node_id,
            "cluster_id": identity.cluster_id,
            "incarnation_id": self.incarnation_id,
            "listeners": list(identity.listeners),
            "features": list(identity.features),
            "rack": identity.rack,
            "is_migrating_zk_broker": False,
            "log_dirs": sorted(identity.log_dirs, key=lambda directory_id: directory_id.bytes),
            "previous_broker_epoch": self.epoch if self.epoch >= 0 else identity.previous_epoch,
        }
        self.link.send(ApiKey.BROKER_REGISTRATION, fields, self._registered)

    def _registered(self, response: Any | None) -> None:
        self._is_in_flight = False
        now_ms = self.clock.now_ms()
        if response is None:
            self._next_ms = now_ms + RETRY_MS
            return
        code = int(response.error_code)
        if code == 0:
            self.epoch = response.broker_epoch
            self._is_registered = True
            self._registration_ends_ms = None
            self._last_answer_ms = self._next_ms = now_ms
            return
        self._last_error = error_from_code(code)
        if code in FINAL_ERRORS:
            self._registration_ends_ms = None
            self.on_failure(self._never_registered())
            return
        if code == DuplicateBrokerRegistration.code and not self._has_reported_duplicate:
            self._has_reported_duplicate = True
            self.report(
                f"WARN Another broker is registered with id {self.identity.node_id}; waiting until its session expires"
            )
        self._next_ms = now_ms + RETRY_MS

    def _never_registered(self) -> ConfigError:
        identity, error = self.identity, self._last_error
        start = f"Broker {identity.node_id} cannot register"
        if isinstance(error, DuplicateBrokerRegistration):
            return ConfigError(f"{start}: another broker with this id is running. Stop it, or use another node.id.")
        if isinstance(error, InconsistentClusterId):
            return ConfigError(
                f"{start}: its log directories belong to cluster {identity.cluster_id}, but the controllers to another "
                "one. Check controller.quorum.voters and log.dirs."
            )
        if isinstance(error, InvalidRegistration):
            return ConfigError(f"{start}: {error}. Check that no other broker uses a copy of its log directories.")
        return ConfigError(f"{start}: {error or 'no active controller responded'}")

    def _send_heartbeat(self) -> None:
        self._is_urgent = False
        fields = {
            "broker_id": self.identity.node_id,
            "broker_epoch": self.epoch,
            "current_metadata_offset": self.metadata_offset() - 1,
            "want_fence": not self._wants_clients,
            "want_shut_down": self.state is State.PENDING_CONTROLLED_SHUTDOWN,
            "offline_log_dirs": list(self.offline_log_dirs),
            "cordoned_log_dirs": None if self.state is State.STARTING else list(self.cordoned_log_dirs),
        }
        self.link.send(
            ApiKey.BROKER_HEARTBEAT, fields, self._handle_response, timeout_ms=max(1000, self.heartbeat_interval_ms)
        )

    def _handle_response(self, response: Any | None) -> None:
        self._is_in_flight = False
        now_ms = self.clock.now_ms()
        code = None if response is None else int(response.error_code)
        if code != 0 or response is None:
            self._next_ms = now_ms + RETRY_MS
            if code in (StaleBrokerEpoch.code, BrokerIdNotRegistered.code):
                self._is_registered = False
            return
        self._last_answer_ms = now_ms
        self.is_fenced = bool(response.is_fenced)
        self._next_ms = now_ms + self.heartbeat_interval_ms
        if self.state is State.STARTING:
            self._next_ms = now_ms + STARTING_INTERVAL_MS
            if response.is_caught_up:
                self.state = State.RECOVERY
                self._next_ms = now_ms
                self.on_caught_up()
        elif self.state is State.RECOVERY:
            self._next_ms = now_ms + STARTING_INTERVAL_MS
            if not self.is_fenced:
                self.state = State.RUNNING
                self._next_ms = now_ms + self.heartbeat_interval_ms
                self.on_running()
        elif self.state is State.PENDING_CONTROLLED_SHUTDOWN:
            self._next_ms = now_ms + SHUTDOWN_INTERVAL_MS
            if response.should_shut_down:
                self.state = State.SHUTTING_DOWN
        if self._is_urgent:
            self._next_ms = now_ms

    def begin_controlled_shutdown(self, timeout_ms: int) -> None:
        """Ask the controller to move this broker's leaderships, for at most `timeout_ms`. It ends earlier when no
        controller responds. A broker that is not RUNNING shuts down at once."""
        if self.state is not State.RUNNING:
            self.state = State.SHUTTING_DOWN
            return
        self.state = State.PENDING_CONTROLLED_SHUTDOWN
        now_ms = self.clock.now_ms()
        self._next_ms = self._last_answer_ms = now_ms
        self._shutdown_ends_ms = now_ms + timeout_ms

    def begin_farewell(self, timeout_ms: int) -> None:
        """Begin a controlled shutdown whose heartbeats also ask the controller to fence this broker, for at most
        `timeout_ms`. A broker that is not RUNNING shuts down at once."""
        self._wants_clients = False
        self.begin_controlled_shutdown(timeout_ms)

    @property
    def is_gone(self) -> bool:
        """Return whether the shutdown is over, completed or given up, so that the broker may stop now."""
        return self.state is State.SHUTTING_DOWN
