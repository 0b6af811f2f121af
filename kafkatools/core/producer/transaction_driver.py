"""TransactionDriver: sends the requests of a transactional producer, one at a time, without blocking
(maybeSendAndPollTransactionalRequest of Kafka's Sender).

The sender calls `step` once in each turn, before it drains batches. A request returns to its place in the queue while
its coordinator is unknown or not ready, or its retry back-off is not over. Batches are sent meanwhile as far as the
manager allows. A failed connection causes a new coordinator lookup at most every retry.backoff.ms, because the
coordinator may have moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkatools.core.clock import Clock
from kafkatools.core.errors import Disconnected, KafkaError, TransactionAborted
from kafkatools.core.group.coordinator import CoordinatorKind, CoordinatorLookup
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.requests import build_request
from kafkatools.core.producer.transaction_reactions import Reaction, reaction_to
from kafkatools.core.producer.transaction_requests import FIRST_INIT_PRODUCER_ID_WITH_BUMP, TxnRequest
from kafkatools.core.producer.transactions import TRANSACTION_VERSION, TransactionalManager
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.net.network_client import NetworkClient
    from kafkatools.core.producer.producer_metadata import ProducerMetadata
    from kafkatools.core.producer.record_accumulator import RecordAccumulator

FOREVER_MS = 300_000


@dataclass(eq=False, repr=False)
class TransactionDriver:
    """Sends the queued requests of a TransactionalManager, on the sender's thread."""

    manager: TransactionalManager
    client: NetworkClient
    metadata: ProducerMetadata
    accumulator: RecordAccumulator
    clock: Clock
    request_timeout_ms: int
    _rediscover_ms: int = field(default=0, init=False)

    def step(self, now_ms: int, is_flushed: Callable[[], bool]) -> int:
        """Send the next transactional request if possible; return how long poll may wait, in ms. `is_flushed` returns
        whether no batch is queued or in flight. Also resolves sequences and fails the unsent batches of a transaction
        that is aborted."""
        manager = self.manager
        manager.maybe_resolve_sequences()
        if manager.has_fatal_error or manager.in_flight is not None:
            return FOREVER_MS
        if manager.has_abortable_error or manager.is_aborting:
            self._abort_unsent(manager.last_error)
        was_completing = manager.is_completing
        request = manager.next_request(is_flushed)
        if request is None:
            # The transaction ended without EndTxn: a closing producer may wait for that, so poll must not block.
            return 0 if was_completing and not manager.is_completing else FOREVER_MS
        wait_ms = self._send_or_wait(request, now_ms)
        if wait_ms is None:
            return FOREVER_MS
        if not request.result.is_completed:
            manager.enqueue(request)
        return max(0, wait_ms)

    def _abort_unsent(self, reason: Exception | None) -> None:
        """Fail the batches without a sequence number with TransactionAborted, caused by `reason`."""
        if not self.accumulator.has_incomplete:
            return
        message = "Failing batch since transaction was aborted"
        error = TransactionAborted(message if reason is None else f"{message}: {reason}")
        error.__cause__ = reason
        self.accumulator.abort_unsequenced(error)

    def _send_or_wait(self, request: TxnRequest, now_ms: int) -> int | None:
        """Send a transactional request and return None. Without a ready coordinator, look it up or connect, and return
        the milliseconds to wait before the next try."""
        lookup = self.manager.lookup(request)
        node = lookup.node
        if node is None:
            return self._find(lookup, request, now_ms)
        if not self.client.ready(node, now_ms):
            if self.metadata.cluster.node(node) is None:
                self.metadata.request_update(reset_backoff=False)
            if self.client.connection_failed(node) and now_ms >= self._rediscover_ms:
                lookup.mark_unknown()
                self._rediscover_ms = now_ms + self.manager.retry_backoff_ms
                return 0
            return min(self.client.poll_delay_ms(node, now_ms), self.manager.retry_backoff_ms)
        if now_ms < request.not_before_ms:
            return request.not_before_ms - now_ms
        if request.coordinator is CoordinatorKind.TRANSACTION:
            self._note_coordinator(node)
        self._send(node, request, now_ms)
        return None

    def _note_coordinator(self, node: int) -> None:
        versions = self.client.broker_versions(node)
        if versions is None:
            return
        transaction_version = versions.finalized_features.get(TRANSACTION_VERSION)
        self.manager.note_coordinator(
            versions.supports(ApiKey.INIT_PRODUCER_ID, FIRST_INIT_PRODUCER_ID_WITH_BUMP),
            versions.finalized_features_epoch,
            0 if transaction_version is None else transaction_version.max_version,
        )

    def _send(self, node: int, request: TxnRequest, now_ms: int) -> None:
        self.manager.log.debug("Sending %r to node %d", request, node)
        self.manager.in_flight = request
        self.client.send(
            ClientRequest(
                node,
                request.api_key,
                lambda version: build_request(request.api_key, version, request.fields(version)),
                lambda response: self._complete(request, response),
                self.request_timeout_ms,
                min_version=request.min_version,
                max_version=request.max_version,
            ),
            now_ms,
        )

    def _complete(self, request: TxnRequest, response: ClientResponse) -> None:
        manager = self.manager
        with manager.lock:
            manager.in_flight = None
            if manager.has_fatal_error:
                request.fail(manager.last_error or KafkaError("The producer failed"))
            elif response.disconnected:
                self.manager.log.debug("Disconnected from node %d. Will retry %r", response.request.node, request)
                manager.lookup(request).mark_unknown()
                manager.enqueue(request)
            elif response.error is not None:
                request.fatal(response.error)
            else:
                request.handle(response.body, self.clock.now_ms())

    # -- coordinators --

    def _find(self, lookup: CoordinatorLookup, request: TxnRequest, now_ms: int) -> int:
        """Send FindCoordinator for a request to the least loaded node, if a lookup is due and that node is ready;
        return how long poll may wait, in ms."""
        if not lookup.should_send(now_ms):
            return lookup.delay_ms(now_ms) or FOREVER_MS
        node = self.client.least_loaded_node(now_ms)
        if node is None:
            return self.manager.retry_backoff_ms
        if not self.client.ready(node, now_ms):
            return min(self.client.poll_delay_ms(node, now_ms), self.manager.retry_backoff_ms)
        lookup.note_sent()
        self.client.send(
            ClientRequest(
                node,
                ApiKey.FIND_COORDINATOR,
                lambda version: build_request(ApiKey.FIND_COORDINATOR, version, lookup.request_fields(version)),
                lambda response: self._handle_coordinator(lookup, request, response),
                self.request_timeout_ms,
            ),
            now_ms,
        )
        return FOREVER_MS

    def _handle_coordinator(self, lookup: CoordinatorLookup, request: TxnRequest, response: ClientResponse) -> None:
        now_ms = self.clock.now_ms()
        if response.body is None:
            error = lookup.handle_failure(response.error or Disconnected(), now_ms)
        else:
            error = lookup.handle_response(response.body, now_ms)
        if error is None:
            request.result.obstacle = lookup.problem
            return
        with self.manager.lock:
            if reaction_to(ApiKey.FIND_COORDINATOR, error) is Reaction.ABORTABLE:
                request.fail(error)
                self.manager.transition_to_abortable_error(error)
                return
            if reaction_to(ApiKey.FIND_COORDINATOR, error) is None:
                error = KafkaError(
                    f"Could not find a coordinator with type {lookup.kind.name} with key {lookup.key} due to "
                    f"unexpected error: {error}"
                )
            self.manager.fail(error)
