"""The connection to a group's coordinator, which is looked up when unknown. Fetches use other connections.

The thread that holds the client's lock calls `tick`, which looks up the coordinator and sends due heartbeats. Only the
steps of `poll` wait.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.network import ConsumerNetworkClient, Steps
from kafkatools.core.errors import CoordinatorNotAvailable, KafkaError, with_group
from kafkatools.core.group.coordinator import CoordinatorLookup
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.metrics.membership import CoordinatorMetrics
from kafkatools.core.protocol.entities import Entity


class CoordinatorChannel:
    """Sends requests to one group's coordinator."""

    def __init__(
        self, client: ConsumerNetworkClient, lookup: CoordinatorLookup, clock: Clock, metrics: CoordinatorMetrics
    ) -> None:
        self.client = client
        self._metrics = metrics
        self.lookup = lookup
        self.clock = clock
        self.failure: KafkaError | None = None
        self.on_tick: Callable[[int], None] | None = None
        self.lock = self.client.lock
        self.poll_limit_ms = self.client.poll_limit_ms

    def tick(self, now_ms: int) -> None:
        """Look up an unknown coordinator, then call `on_tick`, if set, to send due heartbeats."""
        with self.lock:
            self.maybe_find(now_ms)
            if self.on_tick is not None:
                self.on_tick(now_ms)

    def maybe_find(self, now_ms: int) -> None:
        """Send FindCoordinator when the coordinator is unknown and no lookup is in flight. Does nothing during the
        back-off, without a usable node, or while `failure` holds a fatal lookup error."""
        lookup = self.lookup
        if self.failure is not None or not lookup.should_send(now_ms):
            return
        node = self.client.any_node()
        if node is None:
            return
        lookup.note_sent()
        request = GroupRequest(
            lookup.API_KEY, lookup.request_fields, self._handle_response, self._handle_failure, is_background=True
        )
        self.client.send_request(node, request)

    def _handle_response(self, entity: Entity, now_ms: int) -> None:
        error = self.lookup.handle_response(entity, now_ms)
        self.failure = None if error is None else with_group(error, self.lookup.key)

    def _handle_failure(self, error: KafkaError, now_ms: int) -> None:
        self.failure = self.lookup.handle_failure(error, now_ms)

    def take_failure(self) -> KafkaError | None:
        """Return and clear the fatal error of the coordinator lookup, or None; the next tick retries."""
        failure, self.failure = self.failure, None
        return failure

    def send(self, request: GroupRequest) -> None:
        """Send a request to the coordinator; fail it at once with CoordinatorNotAvailable when the coordinator is
        unknown. The heartbeat thread may have lost the coordinator since the caller checked."""
        endpoint, sent_ms = self.lookup.endpoint, self.clock.now_ms()
        if endpoint is None:
            request.failed(CoordinatorNotAvailable(), sent_ms)
            return

        def answered(entity: Entity, now_ms: int) -> None:
            is_refusal = bool(getattr(entity, "error_code", 0))
            self._metrics.answered(request.api_key, now_ms - sent_ms, now_ms, is_refusal=is_refusal)
            request.answered(entity, now_ms)

        self._metrics.sent(request.api_key, sent_ms)
        self.client.send_request(self.client.coordinator_node(endpoint), request._replace(answered=answered))

    def poll(self, timeout_ms: int) -> Steps[None]:
        """Send due heartbeats, then wait up to `timeout_ms`, but at most 100 ms, for network events."""
        self.tick(self.clock.now_ms())
        yield max(0, min(timeout_ms, self.poll_limit_ms))
