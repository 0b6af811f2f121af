"""The share consumer: Kafka's KafkaShareConsumer (KIP-932, KIP-1206, KIP-1222).

Rules: one thread; only `wakeup` may be called by another. A poll sends the acknowledgements of the last one, then
fetches, and waits for records; nothing is fetched ahead. Acknowledgements are retried by the calls that follow, until
default.api.timeout.ms. The callback of acknowledgements runs inside `poll`, `commit_sync`, `commit_async` and `close`.
Only the network client blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Self

from kafkatools.core import config as tables
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config import Config
from kafkatools.core.config.client_settings import Settings, config_of, take_objects
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.consumer.poison import (
    AnyDeserializer,
    PoisonPolicy,
    RecordDecoder,
)
from kafkatools.core.consumer.record_iterator import whole_ms
from kafkatools.core.consumer.share.acknowledgements import AcknowledgeType
from kafkatools.core.consumer.share.delivery import Delivery
from kafkatools.core.consumer.share.in_flight import InFlightRecords
from kafkatools.core.consumer.share.messages import PendingAcknowledgement, ShareRequest, ShareSettings
from kafkatools.core.consumer.share.requests import ShareRequests
from kafkatools.core.consumer.share.share_group import ShareGroup
from kafkatools.core.consumer.single_thread import TWO_THREADS, one_at_a_time
from kafkatools.core.errors import ConfigError, IllegalState, InvalidGroupId, KafkaError, Timeout
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.topic_partition import TopicPartition, as_partition

DEFAULT_CLOSE_TIMEOUT_MS = 30_000
_INTERRUPTED_CLOSE_MS = 3000
_POLL_MS = 100
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


class ShareConsumer:
    """Reads records as a member of a share group, each record delivered to one member at a time. A context manager.

    `config`: a Config, or a dict with Kafka's setting names, `{"bootstrap.servers": "localhost:9092", "group.id":
    "g"}`. `settings`: the same as keyword arguments, `bootstrap_servers="localhost:9092"`. All settings:
    docs/config/consumer.md. A share group begins at the end of a topic unless its setting share.auto.offset.reset is
    `earliest`; this and the other share.* settings belong to the group, not to the consumer.

    With share.acknowledgement.mode=implicit (the default) the next `poll` or commit accepts all records of the last
    poll. With `explicit` every record needs `acknowledge` before the next poll. A record that is not acknowledged
    before its lock ends, or when the consumer is closed, is delivered again.

    A deserializer is a function of the bytes, an object with `deserialize(topic, data, headers)`, or the class name of
    one of Kafka's; without one, keys and values are bytes. `poison` says what happens to records that cannot be
    deserialized: `fail` releases the record and raises its error, `skip` rejects it, `raw` returns its bytes.

    Not thread-safe: a call during another thread's call raises IllegalState, except `wakeup`. Times are int
    milliseconds; partitions are pairs (topic, number). Kafka's errors are KafkaError (kafkatools.errors). Creating a
    consumer opens no connection. Raises ConfigError for an unknown, invalid or unsupported setting and InvalidGroupId
    without group.id.
    """

    def __init__(
        self,
        config: Settings | None = None,
        clock: Clock | None = None,
        client: ConsumerNetworkClient | None = None,
        *,
        key_deserializer: str | AnyDeserializer | None = None,
        value_deserializer: str | AnyDeserializer | None = None,
        poison: PoisonPolicy | str = "fail",
        **settings: object,
    ) -> None:
        plain_settings, objects = take_objects(config, _OBJECTS)
        config = config_of(tables.CONSUMER, plain_settings, settings)
        check_settings(config)
        key_deserializer = key_deserializer or objects.get("key.deserializer")
        value_deserializer = value_deserializer or objects.get("value.deserializer")
        decoder = RecordDecoder.of(config, key_deserializer, value_deserializer, poison)
        self.config = config
        self.clock = self._clock = clock or SystemClock()
        self._is_explicit = config.share_acknowledgement_mode == "explicit"
        self._api_timeout_ms: int = config.default_api_timeout_ms
        self._request_timeout_ms: int = config.request_timeout_ms
        self._client = client or ConsumerNetworkClient(config, self._clock)
        self._group = ShareGroup(config, self._clock, self._client)
        self._requests = ShareRequests(ShareSettings.of(config, self._group.member_id), self._client.leaders)
        self._in_flight = InFlightRecords()
        self._delivery = Delivery(self._in_flight, decoder)
        self._callback: AcknowledgementCallback | None = None
        self._finished: list[PendingAcknowledgement] = []
        self._call_lock = threading.RLock()
        self._is_closed = self._is_in_callback = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the consumer; after KeyboardInterrupt, SystemExit or the like within 3 seconds instead of 30."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        self.close(_INTERRUPTED_CLOSE_MS if is_interrupted else None)

    # --- subscription

    @one_at_a_time
    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics; replaces the previous subscription, none: unsubscribe. The group is joined during the next
        polls. Raises ValueError for an empty topic name, TypeError for a single string."""
        self._ensure_outside_callback()
        if isinstance(topics, str):
            raise TypeError(f"topics is a collection of topic names, such as [{topics!r}]")
        names = frozenset(topics)
        if any(not name.strip() for name in names):
            raise ValueError("Topic collection to subscribe to cannot contain null or empty topic")
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

    @one_at_a_time
    def poll(self, timeout_ms: int) -> ConsumerRecords:
        """Return records that this member has acquired; wait up to `timeout_ms` for the first. There may be more than
        max.poll.records, to the end of a batch, unless share.acquire.mode is record_limit. Records whose lock was
        renewed are returned again, alone (KIP-1222).

        In implicit mode, accepts the records of the last poll first. Raises IllegalState without a subscription, and in
        explicit mode while a record of the last poll has no acknowledgement; RecordDeserializationError and
        CorruptBatch after the sound records before; WakeupError after `wakeup`; KafkaError caused by a commit callback;
        ConnectionFailed and the like while no bootstrap server was ever reached; and errors that a retry cannot cure.
        Raises TypeError when `timeout_ms` is not an int.
        """
        columns = self._poll(whole_ms(timeout_ms))
        return ConsumerRecords(columns, self._delivery.records(columns))

    @one_at_a_time
    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return acquired records as columns, without deserializers; otherwise as `poll`. The records of one item have
        the same delivery count."""
        return list(self._poll(whole_ms(timeout_ms), is_raw=True))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Iterate over records endlessly. The loop may be left at any time: records that it has not yielded are
        released, the others count as those of the last poll. Raises the errors of `poll`."""
        while True:
            remaining = iter(list(self.poll(_POLL_MS)))
            try:
                yield from remaining
            finally:
                for record in remaining:
                    self._in_flight.release_unseen(TopicPartition(record.topic, record.partition), record.offset)

    def _poll(self, timeout_ms: int, *, is_raw: bool = False) -> Sequence[FetchedColumns]:
        self._begin()
        if self._is_explicit and not self._in_flight.is_acknowledged:
            raise IllegalState(UNACKNOWLEDGED)
        if not self._group.topics:
            raise IllegalState(NOT_SUBSCRIBED)
        now_ms = self._clock.now_ms()
        deadline_ms = now_ms + timeout_ms
        self._queue(now_ms + self._api_timeout_ms, accept_all=not self._is_explicit)
        while True:
            self._raise_failure()
            self._group.advance(now_ms)
            columns = self._collect(now_ms, is_raw=is_raw)
            self._send(now_ms, wants_records=not columns and not self._in_flight.is_renewing)
            if columns:
                return columns
            remaining_ms = deadline_ms - now_ms
            self._client.poll(max(0, min(remaining_ms, self._client.poll_limit_ms)))
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

    @one_at_a_time
    def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send acknowledgements and wait for their results: None for a partition after success, else its error, such as
        InvalidRecordState after the lock has ended, or Timeout. Empty without acknowledgements. Waits up to
        `timeout_ms` (default.api.timeout.ms). In implicit mode, accepts the records of the last poll first. Raises
        WakeupError after `wakeup`, and KafkaError caused by a commit callback."""
        self._begin()
        now_ms = self._clock.now_ms()
        deadline_ms = now_ms + (self._api_timeout_ms if timeout_ms is None else whole_ms(timeout_ms))
        pending = self._queue(deadline_ms, accept_all=not self._is_explicit)
        while not all(item.is_done for item in pending):
            self._send(now_ms, wants_records=False)
            if now_ms >= deadline_ms:
                break
            self._client.poll(max(0, min(deadline_ms - now_ms, self._client.poll_limit_ms)))
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
        outgoing = GroupRequest(
            request.api_key,
            request.fields,
            partial(self._requests.handle_response, request),
            partial(self._requests.handle_failure, request),
            min_version=request.min_version,
        )
        self._client.send_request(request.node, outgoing)

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

    def wakeup(self) -> None:
        """Make the current or next blocking call, except `close`, raise WakeupError; callable from any thread."""
        self._client.wakeup()

    def close(self, timeout_ms: int | None = None) -> None:
        """Send the acknowledgements made so far, close the share sessions, which releases all other records of this
        member, leave the group, and close the connections; within `timeout_ms` (default: 30 s), at most
        request.timeout.ms. In implicit mode the records of the last poll are released, not accepted: commit first. A
        second call does nothing. Raises KafkaError caused by a commit callback, after closing; ValueError if negative;
        IllegalState during another thread's call."""
        ensure_close_timeout(timeout_ms)
        self._ensure_outside_callback()
        if not self._call_lock.acquire(blocking=False):
            raise IllegalState(TWO_THREADS)
        try:
            if not self._is_closed:
                timeout_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms
                self._close(self._clock.now_ms() + min(timeout_ms, self._request_timeout_ms))
        finally:
            self._call_lock.release()

    def _close(self, deadline_ms: int) -> None:
        self._client.ignores_wakeup = True
        try:
            now_ms = self._clock.now_ms()
            self._queue(deadline_ms, accept_all=False)
            while True:
                for request in self._requests.close_requests(now_ms, self._client.can_send):
                    self._send_request(request)
                if self._requests.is_idle or now_ms >= deadline_ms:
                    break
                self._client.poll(max(0, min(deadline_ms - now_ms, self._client.poll_limit_ms)))
                now_ms = self._clock.now_ms()
            self._note_outcomes()
            self._group.close(deadline_ms)
            self._run_callbacks()
        finally:
            self._is_closed = True
            self._client.close()
