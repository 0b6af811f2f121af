"""ShareConsumerBase: what ShareConsumer and kafkatools.aio.ShareConsumer have in common, all but waiting (KIP-932,
KIP-1206, KIP-1222).

Rules: a poll sends the acknowledgements of the last one, then fetches, and waits for records; nothing is fetched ahead.
Acknowledgements are retried by the calls that follow, until default.api.timeout.ms. The callback of acknowledgements
runs inside polls, commits and `close`. A call that must wait is a generator of steps (core/steps.py). Records are put
in flight in the step that returns them, so an interrupted poll leaves them to the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from kafkatools.core import config as tables
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.config import Config
from kafkatools.core.config.client_settings import Settings, config_of, take_objects
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.group_subscription import valid_topics
from kafkatools.core.consumer.heartbeat_thread import HeartbeatThread
from kafkatools.core.consumer.network import ConsumerNetworkClient, Steps
from kafkatools.core.consumer.poison import (
    AnyDeserializer,
    PoisonPolicy,
    RecordDecoder,
)
from kafkatools.core.consumer.record_iterator import whole_ms
from kafkatools.core.consumer.share.acknowledgements import AcknowledgeType
from kafkatools.core.consumer.share.delivery import Delivery
from kafkatools.core.consumer.share.in_flight import InFlightRecords
from kafkatools.core.consumer.share.messages import PendingAcknowledgement, ShareRequest, ShareSettings, fetched_figures
from kafkatools.core.consumer.share.requests import ShareRequests
from kafkatools.core.consumer.share.share_group import ShareGroup
from kafkatools.core.consumer.single_thread import one_at_a_time
from kafkatools.core.errors import ConfigError, IllegalState, InvalidGroupId, KafkaError, Timeout
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.metrics.fetching import ShareFetchMetrics
from kafkatools.core.metrics.polls import SHARE_GROUP as POLL_GROUP
from kafkatools.core.metrics.polls import PollMetrics
from kafkatools.core.metrics.registry import MetricValues
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.topic_partition import TopicPartition, as_partition

DEFAULT_CLOSE_TIMEOUT_MS = 30_000
INTERRUPTED_CLOSE_MS = 3000
_OBJECTS = ("key.deserializer", "value.deserializer")
_NOT_WITH_SHARE_GROUPS = (
    "auto.offset.reset", "enable.auto.commit", "group.instance.id", "isolation.level", "partition.assignment.strategy",
    "interceptor.classes", "session.timeout.ms", "heartbeat.interval.ms", "group.protocol", "group.remote.assignor",
)  # fmt: skip
NO_GROUP = "You must provide a valid group.id in the consumer configuration."
NOT_SUBSCRIBED = "Consumer is not subscribed to any topics."
UNACKNOWLEDGED = "All records must be acknowledged in explicit acknowledgement mode."
IMPLICIT = "Implicit acknowledgement of delivery is being used."
IN_CALLBACK = "ShareConsumer methods are not accessible from user-defined acknowledgement commit callback."
CALLBACK_FAILED = "Exception thrown by acknowledgement commit callback"

AcknowledgementCallback = Callable[[dict[TopicPartition, set[int]], KafkaError | None], None]


def check_settings(config: Config) -> None:
    """Raise InvalidGroupId without group.id, and ConfigError for settings that a share consumer cannot have."""
    if not config.group_id:
        raise InvalidGroupId(NO_GROUP)
    unsupported = [name for name in _NOT_WITH_SHARE_GROUPS if config.is_explicit(name)]
    if unsupported:
        raise ConfigError(f"{', '.join(unsupported)} cannot be set when using a share group.")


class ShareConsumerBase:
    """The settings and parts of a share consumer, its calls that do not wait, and the steps of those that do."""

    def __init__(
        self,
        config: Settings | None,
        clock: Clock | None,
        new_client: Callable[[Config, Clock], ConsumerNetworkClient],
        *,
        deserializers: tuple[str | AnyDeserializer | None, str | AnyDeserializer | None],
        poison: PoisonPolicy | str,
        settings: Mapping[str, object],
    ) -> None:
        plain_settings, objects = take_objects(config, _OBJECTS)
        config = config_of(tables.CONSUMER, plain_settings, settings)
        check_settings(config)
        key_deserializer = deserializers[0] or objects.get("key.deserializer")
        value_deserializer = deserializers[1] or objects.get("value.deserializer")
        decoder = RecordDecoder.of(config, key_deserializer, value_deserializer, poison)
        self.config = config
        self.clock = self._clock = clock or SystemClock()
        self._is_explicit = config.share_acknowledgement_mode == "explicit"
        self._api_timeout_ms: int = config.default_api_timeout_ms
        self._request_timeout_ms: int = config.request_timeout_ms
        self._client = new_client(config, self._clock)
        self._metrics = ShareFetchMetrics(self._client.metrics)
        self._polls = PollMetrics(self._client.metrics, POLL_GROUP)
        self._group = ShareGroup(config, self._clock, self._client, self._start_heartbeats)
        self._client.push_metrics(config, lambda: self._group.member_id)
        self._requests = ShareRequests(ShareSettings.of(config, self._group.member_id), self._client.leaders)
        self._in_flight = InFlightRecords()
        self._delivery = Delivery(self._in_flight, decoder)
        self._callback: AcknowledgementCallback | None = None
        self._finished: list[PendingAcknowledgement] = []
        self._call_lock = threading.RLock()
        self._is_closed = self._is_in_callback = False

    @staticmethod
    def _start_heartbeats(run_once: Callable[[], int], name: str) -> HeartbeatThread | None:
        """Start the thread that sends heartbeats between the calls; None without a thread, as on an event loop."""
        return HeartbeatThread(run_once, name)

    # --- subscription

    @one_at_a_time
    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics; replaces the previous subscription, none: unsubscribe. The group is joined during the next
        polls. Raises ValueError for an empty topic name, InvalidTopic for one that no request can hold, TypeError for a
        single string."""
        self._ensure_outside_callback()
        if isinstance(topics, str):
            raise TypeError(f"topics is a collection of topic names, such as [{topics!r}]")
        names = valid_topics(topics)
        if names:
            self._group.subscribe(names)
        else:
            self.unsubscribe()

    @one_at_a_time
    def unsubscribe(self) -> None:
        """Leave the group. Records of the last poll stay acquired and can be acknowledged by a commit, until their
        locks end or the consumer is closed."""
        self._ensure_outside_callback()
        self._group.leave()
        self._requests.release_buffered(self._clock.now_ms() + self._api_timeout_ms)

    @one_at_a_time
    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        self._ensure_outside_callback()
        return set(self._group.topics)

    @one_at_a_time
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that the group has assigned to this member, as of the last heartbeat. Other members may
        read the same ones."""
        self._ensure_outside_callback()
        return sorted(self._group.assigned().values())

    # --- records

    def _poll_records(self, timeout_ms: int) -> Steps[ConsumerRecords]:
        columns = yield from self._poll(whole_ms(timeout_ms))
        return ConsumerRecords(columns, self._delivery.records(columns))

    def _poll_columns(self, timeout_ms: int) -> Steps[list[FetchedColumns]]:
        return list((yield from self._poll(whole_ms(timeout_ms), is_raw=True)))

    def _poll(self, timeout_ms: int, *, is_raw: bool = False) -> Steps[Sequence[FetchedColumns]]:
        self._begin()
        if self._is_explicit and not self._in_flight.is_acknowledged:
            raise IllegalState(UNACKNOWLEDGED)
        if not self._group.topics:
            raise IllegalState(NOT_SUBSCRIBED)
        now_ms = self._clock.now_ms()
        deadline_ms = now_ms + timeout_ms
        self._queue(now_ms + self._api_timeout_ms, accept_all=not self._is_explicit)
        with self._polls.time():
            return (yield from self._poll_until(deadline_ms, is_raw=is_raw))

    def _poll_until(self, deadline_ms: int, *, is_raw: bool) -> Steps[Sequence[FetchedColumns]]:
        now_ms = self._clock.now_ms()
        while True:
            self._raise_failure()
            self._group.advance(now_ms)
            columns = self._collect(now_ms, is_raw=is_raw)
            self._send(now_ms, wants_records=not columns and not self._in_flight.is_renewing)
            if columns:
                return columns
            remaining_ms = deadline_ms - now_ms
            yield max(0, min(remaining_ms, self._client.poll_limit_ms))
            self._note_outcomes()
            if remaining_ms <= 0:
                return self._collect(now_ms, is_raw=is_raw)
            now_ms = self._clock.now_ms()
            self._client.ensure_contact(now_ms)

    def _begin(self) -> None:
        self._ensure_outside_callback()
        self._note_outcomes()
        self._run_callbacks()

    def _collect(self, now_ms: int, *, is_raw: bool) -> Sequence[FetchedColumns]:
        """Put buffered records, or those with a renewed lock, in flight and return them. Commit callbacks run before:
        their error must not hide records that the next poll would accept."""
        self._run_callbacks()
        self._in_flight.take_renewed()
        while not self._in_flight.count and not self._in_flight.is_renewing:
            self._delivery.raise_error()
            acquired = self._requests.take_buffered()
            if not acquired:
                return ()
            self._delivery.deliver(acquired, is_raw=is_raw)
            if not self._in_flight.count:  # gaps and damage only
                self._queue(now_ms + self._api_timeout_ms, accept_all=False)
        return self._in_flight.columns() if self._in_flight.count else ()

    # --- acknowledgements

    @one_at_a_time
    def acknowledge(self, record: ConsumerRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge a record of the last poll, in explicit mode; sent by the next poll or commit. The last type
        before that counts. Raises IllegalState in implicit mode, and for a record that is not in flight."""
        self._acknowledge(TopicPartition(record.topic, record.partition), record.offset, kind)

    @one_at_a_time
    def acknowledge_offset(
        self, partition: tuple[str, int], offset: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge a record of the last poll by its place; otherwise as `acknowledge`."""
        self._acknowledge(as_partition(partition), offset, kind)

    def _acknowledge(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        self._ensure_outside_callback()
        if not self._is_explicit:
            raise IllegalState(IMPLICIT)
        self._in_flight.acknowledge(partition, offset, AcknowledgeType(kind))

    def _commit(self, timeout_ms: int | None) -> Steps[dict[TopicPartition, KafkaError | None]]:
        self._begin()
        now_ms = self._clock.now_ms()
        deadline_ms = now_ms + (self._api_timeout_ms if timeout_ms is None else whole_ms(timeout_ms))
        pending = self._queue(deadline_ms, accept_all=not self._is_explicit)
        while not all(item.is_done for item in pending):
            self._send(now_ms, wants_records=False)
            if now_ms >= deadline_ms:
                break
            yield max(0, min(deadline_ms - now_ms, self._client.poll_limit_ms))
            self._note_outcomes()
            now_ms = self._clock.now_ms()
            self._group.tick(now_ms)
        self._run_callbacks()
        results: dict[TopicPartition, KafkaError | None] = {}
        for item in pending:
            late = Timeout(f"Acknowledgements of {item.partition} were not confirmed in time")
            results[item.partition] = results.get(item.partition) or (item.error if item.is_done else late)
        return results

    @one_at_a_time
    def commit_async(self) -> None:
        """Send acknowledgements without waiting; results go to the commit callback in a later call. In implicit mode,
        accepts the records of the last poll first. Raises KafkaError caused by a commit callback."""
        self._begin()
        now_ms = self._clock.now_ms()
        if self._queue(now_ms + self._api_timeout_ms, accept_all=not self._is_explicit):
            self._send(now_ms, wants_records=False)

    @one_at_a_time
    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set the function that gets the result of sent acknowledgements: `callback({partition: offsets}, error)`, once
        for each partition and request, with error None after success. None removes it. It runs in a later `poll`,
        commit or `close`, where calls of the consumer raise IllegalState."""
        self._ensure_outside_callback()
        self._callback = callback
        self._finished.clear()

    @one_at_a_time
    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return how long the broker locks acquired records, in ms, as of the last response; None before the first."""
        self._ensure_outside_callback()
        return self._requests.lock_ms

    def _queue(self, deadline_ms: int, *, accept_all: bool) -> list[PendingAcknowledgement]:
        pending = [
            PendingAcknowledgement(item.node, item.place, item.content, deadline_ms)
            for item in self._in_flight.take(accept_all=accept_all)
        ]
        self._requests.queue(pending)
        return pending

    def _note_outcomes(self) -> None:
        completed, self._requests.completed = self._requests.completed, []
        for item in completed:
            if item.error is not None:
                self._metrics.refused(item.content.record_count, self._clock.now_ms())
            self._in_flight.handle_outcome(item.node, item.id, item.content, is_confirmed=item.error is None)
        if self._callback is not None:
            self._finished += completed

    def _run_callbacks(self) -> None:
        """Call the commit callback for finished acknowledgements; raise its first error after all calls."""
        finished, self._finished = self._finished, []
        first: Exception | None = None
        for item in finished:
            if self._callback is None:
                return
            self._is_in_callback = True
            try:
                self._callback({item.partition: item.content.offsets()}, item.error)
            except Exception as error:  # noqa: BLE001 (an application's code; raised below)
                first = first or error
            finally:
                self._is_in_callback = False
        if isinstance(first, KafkaError):
            raise first
        if first is not None:
            raise KafkaError(CALLBACK_FAILED) from first

    def _ensure_outside_callback(self) -> None:
        if self._is_in_callback:
            raise IllegalState(IN_CALLBACK)

    # --- requests

    def _send(self, now_ms: int, *, wants_records: bool) -> None:
        assigned = self._group.assigned() if wants_records else {}
        for request in self._requests.prepare(now_ms, assigned, self._client.can_send, wants_records=wants_records):
            self._send_request(request)
        self._note_outcomes()

    def _send_request(self, request: ShareRequest) -> None:
        sent_ms = self._clock.now_ms()
        carried = sum(item.content.record_count for item in request.carried)
        if carried:
            self._metrics.acknowledged(carried, sent_ms)
        outgoing = GroupRequest(
            request.api_key,
            request.fields,
            partial(self._handle_response, request, sent_ms),
            partial(self._requests.handle_failure, request),
            min_version=request.min_version,
        )
        self._client.send_request(request.node, outgoing)

    def _handle_response(self, request: ShareRequest, sent_ms: int, entity: Entity, now_ms: int) -> None:
        if request.is_fetch:
            self._metrics.latency.answered(now_ms - sent_ms, int(entity.throttle_time), now_ms)
            size, records = fetched_figures(entity)
            if records:
                self._metrics.fetched(size, records, now_ms)
        self._requests.handle_response(request, entity, now_ms)

    def metrics(self) -> MetricValues:
        """Return the values of the consumer's metrics by MetricName: Kafka's consumer-share-metrics,
        consumer-share-fetch-manager-metrics, consumer-share-coordinator-metrics, consumer-metrics and
        consumer-node-metrics. Callable from any thread."""
        return self._client.metrics.values()

    def _client_instance_id(self, timeout_ms: int | None) -> Steps[str | None]:
        return self._client.instance_id(self._api_timeout_ms if timeout_ms is None else timeout_ms)

    def _raise_failure(self) -> None:
        failure = self._requests.take_failure()
        if failure is not None:
            raise failure

    def missing_topics(self) -> set[str]:
        """Return the subscribed topics that do not exist according to cached metadata; never waits."""
        return {topic for topic in self._group.topics if self._client.is_missing(topic)}

    def connection_problem(self) -> KafkaError | None:
        """Return the connection error of all brokers, else the last error response of the coordinator while it is
        unknown or refuses, else None. Polls raise none of these errors once metadata has arrived; they retry."""
        return self._client.cluster_problem() or self._group.problem

    # --- the end

    def _close(self, timeout_ms: int | None) -> Steps[None]:
        timeout_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms
        now_ms = self._clock.now_ms()
        deadline_ms = now_ms + min(timeout_ms, self._request_timeout_ms)
        self._client.ignores_wakeup = True
        try:
            self._queue(deadline_ms, accept_all=False)
            while True:
                for request in self._requests.close_requests(now_ms, self._client.can_send):
                    self._send_request(request)
                if self._requests.is_idle or now_ms >= deadline_ms:
                    break
                yield max(0, min(deadline_ms - now_ms, self._client.poll_limit_ms))
                now_ms = self._clock.now_ms()
            self._note_outcomes()
            self._client.note_member()
            yield from self._group.close(deadline_ms)
            self._run_callbacks()
            yield from self._client.push_last_metrics(deadline_ms)
        finally:
            self._end()

    def _end(self) -> None:
        """Close the connections, also after an interruption. The heartbeat thread must not outlive them."""
        self._is_closed = True
        self._group.end_thread()
        self._client.close()
