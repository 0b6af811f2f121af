"""The way to a group's coordinator: looked up when it is not known, on a connection of its own.

`tick` belongs to whichever thread holds the client's lock: it looks the coordinator up and lets the membership send its
heartbeat. Nothing here waits but `poll`, which is the application's thread's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.errors import CoordinatorNotAvailable, GroupAuthorizationFailed, KafkaError
from kafkatools.core.group.coordinator import CoordinatorLookup
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.protocol.entities import Entity


@dataclass(eq=False, repr=False)
class CoordinatorChannel:
    """Sends requests to the coordinator of one group."""

    client: ConsumerNetworkClient
    lookup: CoordinatorLookup
    clock: Clock
    lock: threading.RLock = field(init=False)
    poll_limit_ms: int = field(init=False)
    failure: KafkaError | None = field(default=None, init=False)
    on_tick: Callable[[int], None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.lock = self.client.lock
        self.poll_limit_ms = self.client.poll_limit_ms

    def tick(self, now_ms: int) -> None:
        """What is due in the background."""
        with self.lock:
            self.maybe_find(now_ms)
            if self.on_tick is not None:
                self.on_tick(now_ms)

    def maybe_find(self, now_ms: int) -> None:
        """Asks for the coordinator when it is not known and nobody asked yet."""
        lookup = self.lookup
        if self.failure is not None or not lookup.should_ask(now_ms):
            return
        node = self.client.any_node()
        if node is None:
            return
        lookup.asked()
        request = GroupRequest(lookup.API_KEY, lookup.request_fields, self._found, self._not_found, is_background=True)
        self.client.send_request(node, request)

    def _found(self, entity: Entity, now_ms: int) -> None:
        error = self.lookup.handle_response(entity, now_ms)
        if isinstance(error, GroupAuthorizationFailed):
            error = GroupAuthorizationFailed(f"Not authorized to access group: {self.lookup.key}")
        self.failure = error

    def _not_found(self, error: KafkaError, now_ms: int) -> None:
        self.failure = self.lookup.handle_failure(error, now_ms)

    def take_failure(self) -> KafkaError | None:
        """Why the coordinator cannot be found at all, once; the next call may try again."""
        failure, self.failure = self.failure, None
        return failure

    def send(self, request: GroupRequest) -> None:
        """Sends to the coordinator; fails at once when it is not known any more: the heartbeat thread may have lost it
        since the caller looked."""
        endpoint = self.lookup.endpoint
        if endpoint is None:
            request.failed(CoordinatorNotAvailable(), self.clock.now_ms())
        else:
            self.client.send_request(self.client.coordinator_node(endpoint), request)

    def poll(self, timeout_ms: int) -> None:
        """Waits for something to happen, heartbeats included."""
        self.tick(self.clock.now_ms())
        self.client.poll(max(0, min(timeout_ms, self.poll_limit_ms)))
