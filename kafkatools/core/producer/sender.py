"""Sender: takes batches from the accumulator, sends them to the partition leaders, and processes the responses.

`run_once` is one turn (Kafka's Sender.runOnce): producer id, ready nodes, drain, expiry in queues and in flight, one
Produce request for each node, poll. The thread in producer.py only calls it. Rules:

- A batch is acknowledged, failed, retried or split, never dropped silently.
- A batch that expires in flight fails at once, but its memory returns to the pool only after its request has ended.
- A request has one batch for each partition, which brokers require since version 3.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.client_log import ClientLog
from kafkatools.core.clock import Clock
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    DeliveryTimeout,
    DuplicateSequenceNumber,
    FencedLeaderEpoch,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    NetworkException,
    NotLeaderOrFollower,
    TopicAuthorizationFailed,
    UnsupportedVersion,
    error_for_code,
)
from kafkatools.core.metrics.producer import ProducerMetrics, SentBatch
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import DEFAULT_WINDOW
from kafkatools.core.net.bodies import build_body
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.producer.futures import BatchError, TopicPartition
from kafkatools.core.producer.produce_request import FIRST_TOPIC_ID_VERSION, produce_request_body
from kafkatools.core.producer.produce_response import read_produce_response
from kafkatools.core.producer.producer_batch import ProducerBatch
from kafkatools.core.producer.record_accumulator import FOREVER_MS, RecordAccumulator
from kafkatools.core.producer.transaction_manager import ProduceOutcome, TransactionManager
from kafkatools.core.producer.transactional import as_transactional
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from kafkatools.core.net.metadata import NodeEndpoint
    from kafkatools.core.net.network_client import NetworkClient
    from kafkatools.core.producer.broker_watch import BrokerWatch
    from kafkatools.core.producer.producer_metadata import ProducerMetadata
    from kafkatools.core.producer.transaction_driver import TransactionDriver
    from kafkatools.core.protocol.entities import Entity
    from kafkatools.core.records.columns import Buffer

_log = logging.getLogger(__name__)

LAST_PRODUCE_BEFORE_V2 = 11
MAX_POLL_MS = 300_000
MORE_REQUESTS = 4
"""Produce requests to one node in a turn, beside the first: with it max.in.flight.requests.per.connection."""
WRITE_BYTES = 1 << 17
"""Bytes of batches at which the requests of a node are written: a write for each small request costs a switch between
the producer's threads, and a large request should be on its way while the next one is compressed."""


class _Outgoing:
    """The unwritten Produce requests of a turn to one node. `room`: how many more requests the node takes."""

    __slots__ = ("queued", "room", "size_bytes")

    def __init__(self, room: int) -> None:
        self.room = room
        self.size_bytes = 0
        self.queued: list[ClientRequest] = []


class SenderSettings(NamedTuple):
    """The producer settings of the sender; times in ms. `acks` is -1 for all. `guarantee_message_order`: drain no batch
    of a partition while one is in flight (max.in.flight.requests.per.connection=1)."""

    acks: int
    retries: int
    max_request_size: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    retry_backoff_ms: int
    guarantee_message_order: bool
    log_prefix: str = ""
    max_in_flight: int = 5


class Sender:
    """Sends a producer's batches; belongs to one thread, except `wakeup`. `watch`: reports connection outages to the
    user; None for no report. `collect(now_ms)`, called in each turn, appends the records that wait for it, and returns
    the ms until it must be called again, or None."""

    def __init__(
        self,
        settings: SenderSettings,
        client: NetworkClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        clock: Clock,
        transactions: TransactionManager | None = None,
        metrics: ProducerMetrics | None = None,
        collect: Callable[[int], int | None] = lambda now_ms: None,
    ) -> None:
        self.settings = settings
        self._log = ClientLog(_log, settings.log_prefix)
        self._collect = collect
        self.client = client
        self.metadata = metadata
        self.accumulator = accumulator
        self.transactions = transactions
        self.metrics = metrics or ProducerMetrics(MetricsRegistry("", DEFAULT_WINDOW, clock))
        self._clock = clock
        self._transactional = as_transactional(transactions)
        self.watch: BrokerWatch | None = None
        self._driver: TransactionDriver | None = None
        if self._transactional is not None:
            from kafkatools.core.producer.transaction_driver import TransactionDriver

            self._driver = TransactionDriver(
                self._transactional, client, metadata, accumulator, clock, settings.request_timeout_ms
            )
        self._inflight: dict[TopicPartition, list[ProducerBatch]] = {}
        self._init_producer_id_inflight = False
        self._init_producer_id_retry_ms = 0
        self._is_signalled = False
        self._is_polling = False
        self.next_turn_ms = 0
        """The time of the next turn if nothing happens before; 0 during a turn, until its poll."""
        self.is_saturated = False
        """Whether every node has max.in.flight.requests.per.connection requests, so that nothing can be sent before the
        next response; False during a turn. Then a new batch needs no wake-up."""

    # -- one turn --

    def run_once(self, now_ms: int, max_poll_ms: int = MAX_POLL_MS) -> None:
        """Run one turn: send what is ready, then poll for at most `max_poll_ms`, or until something is due. After a
        fatal error of the producer it fails the batches that are not in flight."""
        poll_ms = min(max_poll_ms, self.prepare(now_ms))
        self.next_turn_ms = now_ms + poll_ms
        self._is_polling = True
        self.client.poll(0 if self._is_signalled else poll_ms, now_ms)
        self._is_polling = False

    def prepare(self, now_ms: int) -> int:
        """Send what is ready, without the poll that must follow; return how long that poll may wait, in ms."""
        self._is_signalled = self.is_saturated = False
        self.next_turn_ms = 0
        poll_ms = MAX_POLL_MS
        delay_ms = self._collect(now_ms)
        if delay_ms is not None:
            poll_ms = delay_ms
        if self._driver is not None:
            poll_ms = min(poll_ms, self._driver.step(now_ms, lambda: self.is_idle))
        elif self.transactions is not None:
            poll_ms = min(poll_ms, self._prepare_producer_id(self.transactions, now_ms))
        if self.transactions is not None and self.transactions.has_fatal_error:
            self.accumulator.abort_undrained(self.transactions.last_error or KafkaError("The producer failed"))
        poll_ms = min(poll_ms, self._send_producer_data(now_ms))
        if self.watch is not None:
            wait_ms = self.watch.check(now_ms, self._is_waiting)
            poll_ms = poll_ms if wait_ms is None else min(poll_ms, wait_ms)
        nodes, limit = self.metadata.cluster.nodes, self.settings.max_in_flight
        self.is_saturated = bool(nodes) and all(self.client.in_flight_count(node) >= limit for node in nodes)
        return poll_ms

    @property
    def _is_waiting(self) -> bool:
        """Return whether batches, transactional requests or threads wait for a broker."""
        has_requests = self._transactional is not None and self._transactional.has_pending_requests
        return has_requests or self.accumulator.has_incomplete or self.metadata.waiting > 0

    @property
    def is_idle(self) -> bool:
        """Return whether no batch is queued or in flight."""
        return not self.accumulator.has_incomplete and not self._inflight

    def wakeup(self) -> None:
        """End the current or next poll. May be called from any thread.

        Most calls come while the sender is busy and need no system call. The caller sets `_is_signalled`, then reads
        `_is_polling`; the sender sets and reads them in the opposite order, so at least one side sees the other's flag.
        """
        if self._is_signalled:
            return  # an earlier caller has ended the poll; the turn after it sees what both have done
        self._is_signalled = True
        if self._is_polling:
            self.client.wakeup()

    # -- the producer id --

    def _prepare_producer_id(self, transactions: TransactionManager, now_ms: int) -> int:
        """Resolve sequence numbers and request a producer id if one is needed; return how long poll may wait, in ms."""
        transactions.maybe_resolve_sequences()
        if transactions.has_fatal_error or not transactions.bump_epoch_and_reset_id_if_needed():
            return MAX_POLL_MS
        if self._init_producer_id_inflight:
            return MAX_POLL_MS
        if now_ms < self._init_producer_id_retry_ms:
            return self._init_producer_id_retry_ms - now_ms
        node = self.client.least_loaded_node(now_ms)
        if node is None or not self.client.ready(node, now_ms):
            return self.settings.retry_backoff_ms
        self._init_producer_id_inflight = True
        self.client.send(
            ClientRequest(
                node,
                ApiKey.INIT_PRODUCER_ID,
                _build_init_producer_id,
                self._handle_init_producer_id,
                self.settings.request_timeout_ms,
            ),
            now_ms,
        )
        return MAX_POLL_MS

    def _handle_init_producer_id(self, response: ClientResponse) -> None:
        self._init_producer_id_inflight = False
        transactions = self.transactions
        assert transactions is not None
        if response.error is not None and not response.disconnected:
            transactions.fail(response.error)
            return
        entity: Entity = response.body
        code = -1 if entity is None else int(entity.error_code)
        if code == 0:
            transactions.handle_init_producer_id(entity.producer_id, entity.producer_epoch)
            return
        error = NetworkException() if entity is None else error_for_code(code)()
        if error.retriable:
            self._init_producer_id_retry_ms = self._clock.now_ms() + self.settings.retry_backoff_ms
        else:
            transactions.fail(error)

    # -- sending --

    def _send_producer_data(self, now_ms: int) -> int:
        """Expire old batches, drain ready ones and send Produce requests, as many as the nodes take; return how long
        poll may wait, in ms.

        Ready nodes, expired batches and leaders are determined once in a turn. Later requests of the turn only need a
        full batch, and a node that takes more requests in flight.
        """
        accumulator = self.accumulator
        cluster = self.metadata.cluster
        ready = accumulator.ready(cluster, now_ms)
        if ready.unknown_leader_topics:
            for topic in ready.unknown_leader_topics:
                self.metadata.add(topic, now_ms)
            self.metadata.request_update(reset_backoff=False)
        not_ready_ms = MAX_POLL_MS
        nodes = set()
        for node in ready.ready_nodes:
            is_ready = self.client.ready(node, now_ms)
            accumulator.update_node_latency(node, now_ms, is_ready)
            if is_ready:
                nodes.add(node)
            else:
                not_ready_ms = min(not_ready_ms, self.client.poll_delay_ms(node, now_ms))
        drained = accumulator.drain(cluster, nodes, self.settings.max_request_size, now_ms) if nodes else {}
        has_failed = self._take_drained(drained)
        has_failed |= self._expire_batches(now_ms)
        if not drained:
            if has_failed:
                return 0  # the next turn ends the transaction of a failed batch
            poll_ms = min(ready.next_ready_check_ms, not_ready_ms, accumulator.next_expiry_ms - now_ms, MAX_POLL_MS)
            return max(0, poll_ms)
        outgoing = {node: _Outgoing(self._room(node)) for node in drained}
        for _ in range(MORE_REQUESTS):
            self._queue_requests(drained, outgoing, now_ms)
            nodes = {node for node in drained if outgoing[node].room > 0 and self.client.ready(node, now_ms)}
            drained = accumulator.drain_full(cluster, nodes, self.settings.max_request_size, now_ms) if nodes else {}
            self._take_drained(drained)
            if not drained:
                break
        self._queue_requests(drained, outgoing, now_ms)
        for requests in outgoing.values():
            self._send_together(requests, now_ms)
        return 0

    def _room(self, node: int) -> int:
        """The number of requests that the node takes now."""
        return self.settings.max_in_flight - self.client.in_flight_count(node)

    def _queue_requests(
        self, drained: dict[int, list[ProducerBatch]], outgoing: dict[int, _Outgoing], now_ms: int
    ) -> None:
        """Make the Produce requests of drained batches, and send those of a node once they are large enough."""
        for node, batches in drained.items():
            requests = outgoing[node]
            requests.room -= 1
            requests.size_bytes += sum(batch.estimated_size_bytes for batch in batches)
            requests.queued.append(self._produce_request(node, batches, now_ms))
            if requests.size_bytes >= WRITE_BYTES or self.settings.acks == 0:
                self._send_together(requests, now_ms)

    def _send_together(self, requests: _Outgoing, now_ms: int) -> None:
        queued, requests.queued, requests.size_bytes = requests.queued, [], 0
        if len(queued) > 1:
            self.client.send_together(queued, now_ms)
        elif queued:
            self.client.send(queued[0], now_ms)

    def _take_drained(self, drained: dict[int, list[ProducerBatch]]) -> bool:
        """Track the drained batches, and fail those that could not be encoded; return whether there were any."""
        unencodable, self.accumulator.unencodable = self.accumulator.unencodable, []
        for batch, cause in unencodable:
            self._fail_unencodable(batch, cause)
        for batches in drained.values():
            for batch in batches:
                batch.is_inflight = True
                self._inflight.setdefault(batch.topic_partition, []).append(batch)
                if self.settings.guarantee_message_order:
                    self.accumulator.mute_partition(batch.topic_partition)
        return bool(unencodable)

    def _remove_inflight(self, batch: ProducerBatch) -> None:
        batches = self._inflight.get(batch.topic_partition)
        if batches is None:
            return
        remaining = [item for item in batches if item is not batch]
        if remaining:
            self._inflight[batch.topic_partition] = remaining
        else:
            del self._inflight[batch.topic_partition]

    def _expire_batches(self, now_ms: int) -> bool:
        """Fail the batches whose delivery.timeout.ms is over; return whether there were any."""
        accumulator = self.accumulator
        accumulator.next_expiry_ms = FOREVER_MS
        expired = self._expired_inflight(now_ms) + accumulator.expired_batches(now_ms)
        for batch in expired:
            error = DeliveryTimeout(
                f"Expiring {batch.record_count} record(s) for {batch.topic_partition}:{now_ms - batch.created_ms} ms "
                "has passed since batch creation. "
                "The request has not been sent, or no server response has been received yet."
            )
            self._fail_batch(batch, BatchError(error), adjust_sequences=False)
            if self._transactional is not None and batch.has_sequence:
                self._transactional.mark_sequence_unresolved(batch)
        return bool(expired)

    def _expired_inflight(self, now_ms: int) -> list[ProducerBatch]:
        expired: list[ProducerBatch] = []
        for batches in self._inflight.values():
            for batch in batches:
                if batch.is_done:
                    continue
                if batch.has_reached_delivery_timeout(self.settings.delivery_timeout_ms, now_ms):
                    expired.append(batch)
                else:
                    self.accumulator.maybe_update_next_expiry(batch)
                    break
        return expired

    def _produce_request(self, node: int, batches: list[ProducerBatch], now_ms: int) -> ClientRequest:
        by_partition = {batch.topic_partition: batch for batch in batches}
        topics: dict[str, list[tuple[int, Buffer]]] = {}
        for batch in batches:
            topics.setdefault(batch.topic_partition.topic, []).append(
                (batch.topic_partition.partition, batch.records())
            )
        settings = self.settings
        ids = {topic: self.metadata.cluster.topic_id(topic) for topic in topics}
        max_version = None if all(ids.values()) else FIRST_TOPIC_ID_VERSION - 1
        transactional_id = None
        if self._transactional is not None:
            transactional_id = self._transactional.transactional_id
            max_version = max_version if self._transactional.is_v2 else LAST_PRODUCE_BEFORE_V2
        topic_ids = {topic: topic_id.bytes for topic, topic_id in ids.items() if topic_id is not None}
        names = {topic_id: topic for topic, topic_id in ids.items()}

        def build(version: int) -> list[Buffer]:
            return produce_request_body(
                version, settings.acks, settings.request_timeout_ms, topics, topic_ids, transactional_id
            )

        self.metrics.sent([_figures(batch) for batch in batches], now_ms)
        return ClientRequest(
            node,
            ApiKey.PRODUCE,
            build,
            lambda response: self._handle_produce_response(response, by_partition, names),
            settings.request_timeout_ms,
            settings.acks != 0,
            max_version=max_version,
            decode=False,
        )

    # -- responses --

    def _handle_produce_response(
        self, response: ClientResponse, batches: dict[TopicPartition, ProducerBatch], names: dict[UUID | None, str]
    ) -> None:
        now_ms = self._clock.now_ms()
        for batch in batches.values():
            batch.is_inflight = False
        outcomes: dict[TopicPartition, ProduceOutcome] = {}
        if response.disconnected:
            reason = f"Disconnected from node {response.request.node}"
            missing = ProduceOutcome(NetworkException, message=reason)
        elif response.error is not None:
            missing = ProduceOutcome(type(response.error), message=str(response.error))
        elif response.raw is None:
            missing = ProduceOutcome(None)  # acks=0: the request was sent, there is no response
        else:
            outcomes, missing = self._read_outcomes(response, names, now_ms)
        for partition, batch in batches.items():
            self._complete_batch(batch, outcomes.get(partition, missing), response.request.node, now_ms)

    def _read_outcomes(
        self, response: ClientResponse, names: dict[UUID | None, str], now_ms: int
    ) -> tuple[dict[TopicPartition, ProduceOutcome], ProduceOutcome]:
        """Decode a Produce response: the outcome of each partition, and the outcome for a partition that it lacks. An
        undecodable response gives its error for all. Also applies the throttle time and new leaders."""
        assert response.raw is not None
        try:
            produced = read_produce_response(response.raw, response.api_version, names)
        except KafkaError as error:
            return {}, ProduceOutcome(type(error), message=str(error))
        self.metrics.answered(response.latency_ms, produced.throttle_ms, now_ms)
        self.client.throttle(response.request.node, produced.throttle_ms, now_ms)
        self._take_new_leaders(produced.outcomes, produced.endpoints)
        return produced.outcomes, ProduceOutcome(
            UnsupportedVersion, message="The Produce response does not contain the partition"
        )

    def _take_new_leaders(
        self, outcomes: dict[TopicPartition, ProduceOutcome], endpoints: tuple[NodeEndpoint, ...]
    ) -> None:
        leaders: dict[tuple[str, int], tuple[int, int]] = {
            partition: (outcome.leader_id, outcome.leader_epoch)
            for partition, outcome in outcomes.items()
            if outcome.error in (NotLeaderOrFollower, FencedLeaderEpoch)
            and outcome.leader_id >= 0
            and outcome.leader_epoch >= 0
        }
        if leaders:
            self.metadata.update_partition_leadership(leaders, endpoints)

    def _complete_batch(self, batch: ProducerBatch, outcome: ProduceOutcome, node: int, now_ms: int) -> None:
        error = outcome.error
        self._remove_inflight(batch)
        if batch.is_done:
            self._complete_expired(batch, outcome)
        elif error is None or error is DuplicateSequenceNumber:
            # The brokers have the batch but no longer know its offset: success without an offset.
            self._complete_successfully(batch, outcome if error is None else ProduceOutcome(None))
        elif error is MessageTooLarge and batch.record_count > 1:
            self._split_batch(batch, node, now_ms)
        elif self._can_retry(batch, outcome, now_ms):
            self._log.warning(
                "Got error produce response from node %d on topic-partition %s, retrying (%d attempts left). "
                "Error: %s%s",
                node,
                batch.topic_partition,
                self.settings.retries - batch.attempts - 1,
                getattr(error, "name", error.__name__),
                f". Error Message: {outcome.message}" if outcome.message else "",
            )
            self.metrics.retried(batch.topic_partition.topic, batch.record_count, now_ms)
            self.accumulator.reenqueue(batch, now_ms)
        else:
            self._fail_batch(batch, _batch_error(batch, outcome), batch.attempts < self.settings.retries)
        if error is not None and getattr(error, "stale_metadata", False):
            self.metadata.request_update(reset_backoff=False)
        if self.settings.guarantee_message_order:
            self.accumulator.unmute_partition(batch.topic_partition)

    def _complete_expired(self, batch: ProducerBatch, outcome: ProduceOutcome) -> None:
        """Handle the Produce response for a batch that expired in flight: free its memory, and record its sequence
        after a success."""
        if outcome.error is None:
            self._log.debug("%s was acknowledged after it had been reported as failed", batch)
            if self.transactions is not None:
                self.transactions.handle_completed_batch(batch, outcome)
        self.accumulator.deallocate(batch)

    def _complete_successfully(self, batch: ProducerBatch, outcome: ProduceOutcome) -> None:
        if self.transactions is not None:
            self.transactions.handle_completed_batch(batch, outcome)
        batch.complete(outcome.base_offset, outcome.log_append_time)
        self.accumulator.deallocate(batch)

    def _split_batch(self, batch: ProducerBatch, node: int, now_ms: int) -> None:
        self._log.warning(
            "Got error produce response from node %d on topic-partition %s, splitting and retrying "
            "(%d attempts left). Error: MESSAGE_TOO_LARGE",
            node,
            batch.topic_partition,
            self.settings.retries - batch.attempts,
        )
        try:
            self.accumulator.split_and_reenqueue(batch)
        except Exception as error:  # noqa: BLE001 - such as a MemoryError of the codec; it fails the batch's records
            self._fail_batch(batch, BatchError(_unencodable(batch, error)), adjust_sequences=True)
            return
        if self.transactions is not None:
            self.transactions.remove_inflight_batch(batch)
        self.accumulator.deallocate(batch)
        self.metrics.split(now_ms)

    def _can_retry(self, batch: ProducerBatch, outcome: ProduceOutcome, now_ms: int) -> bool:
        if batch.has_reached_delivery_timeout(self.settings.delivery_timeout_ms, now_ms):
            return False
        if batch.attempts >= self.settings.retries:
            return False
        if self.transactions is None:
            return bool(getattr(outcome.error, "retriable", False))
        return self.transactions.can_retry(outcome, batch)

    def _fail_unencodable(self, batch: ProducerBatch, cause: Exception) -> None:
        error = _unencodable(batch, cause)
        self.metrics.failed(batch.topic_partition.topic, batch.record_count, self._clock.now_ms())
        if batch.complete_exceptionally(BatchError(error)):
            if self._transactional is not None:
                self._transactional.handle_failed_batch(batch, error, adjust_sequences=True)
            elif self.transactions is not None:
                self.transactions.handle_unsent_batch(batch)
        self.accumulator.deallocate(batch)

    def _fail_batch(self, batch: ProducerBatch, error: BatchError, adjust_sequences: bool) -> None:
        self.metrics.failed(batch.topic_partition.topic, batch.record_count, self._clock.now_ms())
        if batch.complete_exceptionally(error) and self.transactions is not None:
            self.transactions.handle_failed_batch(batch, error.error, adjust_sequences)
        self.accumulator.deallocate(batch)


def _unencodable(batch: ProducerBatch, cause: Exception) -> KafkaError:
    error = KafkaError(f"{batch.record_count} record(s) for {batch.topic_partition} could not be encoded: {cause!r}")
    error.__cause__ = cause
    return error


def _figures(batch: ProducerBatch) -> SentBatch:
    """The figures of a batch for the metrics. A batch of rows counts with the average size of its records."""
    return SentBatch(
        batch.topic_partition.topic,
        batch.record_count,
        batch.estimated_size_bytes,
        batch.max_record_bytes or batch.estimated_size_bytes // max(1, batch.record_count),
        batch.builder.compression_ratio,
        max(0, batch.drained_ms - batch.created_ms),
    )


def _build_init_producer_id(version: int) -> list[bytes]:
    fields = {"transactional_id": None, "transaction_timeout": 0x7FFFFFFF}
    return build_body(ApiKey.INIT_PRODUCER_ID, version, fields)


def _batch_error(batch: ProducerBatch, outcome: ProduceOutcome) -> BatchError:
    """The error of a failed batch, with individual errors of records where the response has them (Sender.failBatch,
    KIP-467)."""
    kind = outcome.error
    assert kind is not None
    if kind is TopicAuthorizationFailed:
        return BatchError(TopicAuthorizationFailed(f"Not authorized to access topics: [{batch.topic_partition.topic}]"))
    if kind is ClusterAuthorizationFailed:
        return BatchError(ClusterAuthorizationFailed("The producer is not authorized to do idempotent sends"))
    error = kind(outcome.message) if outcome.message else kind()
    if not outcome.record_errors:
        return BatchError(error)
    single = len(outcome.record_errors) == 1
    by_index: dict[int, Exception] = {}
    for index, message in outcome.record_errors:
        text = message or outcome.message or str(error)
        by_index[index] = kind(text) if single else InvalidRecord(text)
    default_error = KafkaError(
        "Failed to append record because it was part of a batch which had one more more invalid records"
    )
    return BatchError(error, by_index, default_error)
