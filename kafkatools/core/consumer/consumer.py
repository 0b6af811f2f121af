"""The consumer: Kafka's KafkaConsumer, with manually or group-assigned partitions.

Rules: one thread; only `wakeup` may be called by another. A poll advances the group, sends due requests (offset resets,
validations, fetches) and returns buffered records. Before it returns, it sends the next fetches, so that brokers work
while records are processed. Only the network client blocks. Without group.id the group code in `group_consumer.py` is
never loaded.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafkatools.core import config as tables
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config import Config
from kafkatools.core.config.client_settings import Settings, config_of, take_objects
from kafkatools.core.consumer.completed_fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedColumns,
    FetchOptions,
    SkipCorrupt,
)
from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.fetcher import Fetcher, FetchSettings
from kafkatools.core.consumer.interceptors import ConsumerInterceptor, ConsumerInterceptors
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.consumer.offset_fetcher import NodeRequest, OffsetAndTimestamp, OffsetFetcher
from kafkatools.core.consumer.offset_listing import OffsetListing, target_times
from kafkatools.core.consumer.partition_wait import PartitionWait, names_of
from kafkatools.core.consumer.poison import AnyDeserializer, PoisonPolicy, RecordDecoder, up_to_failures
from kafkatools.core.consumer.record_iterator import PendingRecords, RecordLoops, whole_ms
from kafkatools.core.consumer.single_thread import TWO_THREADS, one_at_a_time
from kafkatools.core.consumer.subscription import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AutoOffsetResetStrategy,
    FetchPosition,
    ResetKind,
    SubscriptionState,
    TopicPartition,
)
from kafkatools.core.errors import (
    DecodeError,
    IllegalState,
    InvalidGroupId,
    KafkaError,
    LeaderNotAvailable,
    UnsupportedVersion,
)
from kafkatools.core.group.requests import ignore_outcome
from kafkatools.core.topic_partition import as_partition

if TYPE_CHECKING:
    from kafkatools.core.consumer.group_consumer import GroupConsumer
    from kafkatools.core.consumer.group_subscription import RebalanceListener, Topics
    from kafkatools.core.consumer.offset_commits import CommitCallback
    from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
    from kafkatools.core.protocol.entities import Entity

__all__ = ["Consumer", "ConsumerRecord", "ConsumerRecords"]

DEFAULT_CLOSE_TIMEOUT_MS = 30_000
_ALL_BUFFERED = 1 << 62
_INTERRUPTED_CLOSE_MS = 3000
_OBJECTS = ("key.deserializer", "value.deserializer")

Place = TypeVar("Place", bound=tuple[str, int])
Fetched = TypeVar("Fetched")


class Consumer(RecordLoops):
    """Reads records one by one (`for record in consumer`), by polls, or in columns. A context manager.

    `config`: a Config, or a dict with Kafka's setting names, `{"bootstrap.servers": "localhost:9092", "group.id":
    "g"}`. `settings`: the same as keyword arguments, `bootstrap_servers="localhost:9092"`. All settings:
    docs/config/consumer.md. Without group.id, partitions are assigned manually and nothing is committed.

    `poll` and iteration apply `interceptors` and deserializers. A deserializer is a function of the bytes, an object
    with `deserialize(topic, data, headers)`, or the class name of one of Kafka's. Without one, keys and values are
    bytes. `poison` says what happens to records that cannot be deserialized: `fail`, `skip` or `raw` (poison.py).
    `poll_columns` applies neither.

    `skip_corrupt` is called with the CorruptBatch of each damaged batch, which is then skipped. Without it, a damaged
    batch raises the error and the position stays before the batch.

    Not thread-safe: a call during another thread's call raises IllegalState, except `wakeup`. Times are int
    milliseconds; partitions are pairs (topic, number). Kafka's errors are KafkaError (kafkatools.errors). Creating a
    consumer opens no connection. Raises ConfigError for an unknown, invalid or contradictory setting.
    """

    def __init__(
        self,
        config: Settings | None = None,
        clock: Clock | None = None,
        skip_corrupt: SkipCorrupt | None = None,
        client: ConsumerNetworkClient | None = None,
        *,
        interceptors: Sequence[ConsumerInterceptor] = (),
        key_deserializer: str | AnyDeserializer | None = None,
        value_deserializer: str | AnyDeserializer | None = None,
        poison: PoisonPolicy | str = "fail",
        **settings: object,
    ) -> None:
        plain_settings, objects = take_objects(config, _OBJECTS)
        config = config_of(tables.CONSUMER, plain_settings, settings)
        key_deserializer = key_deserializer or objects.get("key.deserializer")
        value_deserializer = value_deserializer or objects.get("value.deserializer")
        self._decoder = RecordDecoder.of(config, key_deserializer, value_deserializer, poison)
        self._interceptors = ConsumerInterceptors.of(config, interceptors)
        self.config = config
        self.clock = self._clock = clock or SystemClock()
        self._pending = PendingRecords()
        self._call_lock = threading.RLock()
        isolation = READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED
        options = FetchOptions(isolation, config.check_crcs, config.max_decompressed_message_bytes, skip_corrupt)
        self._subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse(config.auto_offset_reset))
        self._client = client or ConsumerNetworkClient(config, self._clock)
        self._leaders = self._client.leaders
        self._fetcher = Fetcher(FetchSettings.of(config, options), self._subscriptions, self._leaders)
        self._offsets = OffsetFetcher(
            self._subscriptions, self._leaders, isolation, config.retry_backoff_ms, config.request_timeout_ms
        )
        self._is_committed_only = isolation == READ_COMMITTED
        self._max_poll_records: int = config.max_poll_records
        self._api_timeout_ms: int = config.default_api_timeout_ms
        self._failure: KafkaError | None = None
        self._seen_metadata = -1
        self._is_closed = self._is_closing = False
        self._group = self._new_group(config)

    def _new_group(self, config: Config) -> GroupConsumer | None:
        if not config.group_id:
            return None
        from kafkatools.core.consumer.group_consumer import GroupConsumer

        try:
            group = GroupConsumer(config, self._clock, self._client, self._subscriptions)
        except KafkaError:
            self._client.close()
            raise
        if self._interceptors:
            group.commits.on_commit = self._interceptors.on_commit
        return group

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the consumer; after KeyboardInterrupt, SystemExit or the like within 3 seconds instead of 30."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        self.close(_INTERRUPTED_CLOSE_MS if is_interrupted else None)

    # --- subscription and assignment

    @one_at_a_time
    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Replace the assigned partitions with these, none: unsubscribe; partitions that stay assigned keep their
        position. Raises IllegalState if subscribed, ValueError for an empty topic name."""
        requested = [as_partition(part) for part in partitions]
        self.give_back()
        if not requested:
            self.unsubscribe()
        elif self._group is not None:
            self._group.assign_by_hand()
        self._subscriptions.assign(requested)
        self._client.set_topics(self._subscriptions.topics())

    @one_at_a_time
    def subscribe(self, topics: Topics, listener: RebalanceListener | None = None) -> None:
        """Read topics as a group member: topic names, a compiled regular expression, a predicate, or a
        SubscriptionPattern that the broker matches.

        Replaces the previous subscription; an empty collection unsubscribes. The group is joined during the next polls.
        Raises InvalidGroupId without group.id, IllegalState after `assign` or a subscription of another kind, and
        ValueError for an empty topic name. With the classic protocol, raises UnsupportedVersion for a
        SubscriptionPattern, and ConfigError for assignors without a common rebalance protocol.
        """
        self.give_back()
        self._grouped().subscribe(topics, listener)

    @one_at_a_time
    def unsubscribe(self) -> None:
        """Leave the group and drop all partitions, manually assigned ones too."""
        self.give_back()
        if self._group is not None:
            self._group.unsubscribe()
        self._subscriptions.assign(())

    @one_at_a_time
    def subscription(self) -> set[str]:
        """Return the subscribed topics; for a client-side pattern those that match so far. Else empty."""
        return set() if self._group is None else set(self._group.subscription.topics)

    @one_at_a_time
    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the next poll rejoin the group, in the classic protocol. With group.protocol=consumer this only logs a
        warning; before the first `subscribe` it does nothing. Raises InvalidGroupId without group.id."""
        self._grouped().enforce_rebalance(reason)

    @one_at_a_time
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity for Producer.send_offsets_to_transaction. Raises InvalidGroupId."""
        return self._grouped().group_metadata()

    def _grouped(self) -> GroupConsumer:
        if self._group is None:
            from kafkatools.core.consumer.group_consumer import NO_GROUP

            raise InvalidGroupId(NO_GROUP)
        return self._group

    @one_at_a_time
    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._subscriptions.assigned_partitions()

    @one_at_a_time
    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return no records of these partitions until `resume`; buffered records are kept."""
        for part in partitions:
            self._subscriptions.pause(TopicPartition(*part))

    @one_at_a_time
    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return records of these paused partitions again."""
        for part in partitions:
            self._subscriptions.resume(TopicPartition(*part))

    @one_at_a_time
    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return self._subscriptions.paused_partitions()

    # --- positions

    @one_at_a_time
    def seek(self, partition: tuple[str, int], offset: int, leader_epoch: int = -1) -> None:
        """Make the next poll read from `offset`. Raises ValueError for a negative offset. With `leader_epoch`, the
        epoch of the record before that offset, a truncated log is detected."""
        if offset < 0:
            raise ValueError("seek offset must not be a negative number")
        self.give_back()
        part = TopicPartition(*partition)
        self._leaders.note_epoch(part, leader_epoch)
        leader = self._leaders.leader(part)
        position = FetchPosition(offset, leader_epoch)
        self._subscriptions.seek(part, position if leader is None else position._replace(leader=leader))

    @one_at_a_time
    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move partitions (default: all assigned) to their log start offsets, looked up by the next poll."""
        self._request_reset(partitions, ResetKind.EARLIEST)

    @one_at_a_time
    def seek_to_end(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move partitions (default: all assigned) to their end, the last stable offset under read_committed."""
        self._request_reset(partitions, ResetKind.LATEST)

    @one_at_a_time
    def seek_to_time(self, timestamp_ms: int, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move to the first record at or after `timestamp_ms` (ms since 1970), or to the end where there is none.
        Without partitions, moves all assigned ones. Raises the errors of `offsets_for_times`."""
        requested = [TopicPartition(*part) for part in partitions] or self.assignment()
        offsets = self.offsets_for_times(dict.fromkeys(requested, timestamp_ms))
        self.give_back()
        for part, at in offsets.items():
            if at is None:
                self._request_reset([part], ResetKind.LATEST)
            else:
                self.seek(part, at.offset)

    def _request_reset(self, partitions: Iterable[tuple[str, int]], kind: ResetKind) -> None:
        self.give_back()
        requested = [TopicPartition(*part) for part in partitions] or self.assignment()
        for part in requested:
            self._subscriptions.request_offset_reset(part, AutoOffsetResetStrategy(kind))

    @one_at_a_time
    def position(self, partition: tuple[str, int], timeout_ms: int | None = None) -> int:
        """Return the offset of the next record to be returned, waiting for its lookup if unknown. Raises
        NoOffsetForPartition when auto.offset.reset=none and no offset is committed, and the errors of `end_offsets`."""
        part = TopicPartition(*partition)
        if self._pending and part in (pending := self._pending.offsets()):
            return pending[part]
        message = f"Timeout expired before the position for partition {part} could be determined"
        wait = self._wait_for([part], message, timeout_ms)
        while True:
            position = self._subscriptions.position(part)
            if position is not None:
                return position.offset
            if self._group is not None:
                self._group.find_positions(self._clock.now_ms())
            self._update_positions()
            wait.poll()
            self._raise_failure()

    def known_position(self, partition: tuple[str, int]) -> int | None:
        """Return the position, None while it is unknown; never waits."""
        position = self._subscriptions.position(TopicPartition(*partition))
        return None if position is None else position.offset

    def has_read_to(self, partition: tuple[str, int], end: int) -> bool:
        """Return whether the position has reached offset `end`, or the broker reported no records between both; never
        waits. A position beyond `end` counts only after a fetch confirmed it: a committed offset may lie outside of the
        log. Raises ValueError for an unassigned partition."""
        part = TopicPartition(*partition)
        position = self._subscriptions.position(part)
        if position is None:
            return False
        if position.offset > end:
            served_to = self._subscriptions.state(part).high_watermark
            return served_to is not None and served_to >= position.offset
        return position.offset == end or self._fetcher.has_nothing_before(part, end)

    @one_at_a_time
    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """Return the records between the position and the end of the log, as of the last fetch; None while unknown."""
        state = self._subscriptions.state(TopicPartition(*partition))
        end = state.last_stable_offset if self._is_committed_only else state.high_watermark
        return None if end is None or state.position is None else max(0, end - state.position.offset)

    # --- committed offsets

    @one_at_a_time
    def commit_sync(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Commit offsets and wait for the response. Each is the next offset to read; default: the positions, without
        records that an iterator has not yielded. Raises CommitFailed when the partitions were reassigned,
        RebalanceInProgress, InvalidGroupId, and ValueError for a negative offset."""
        self._grouped().commit_sync(
            self._committable(offsets), self._api_timeout_ms if timeout_ms is None else timeout_ms
        )

    @one_at_a_time
    def commit_async(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Commit without waiting or retrying; `callback(offsets, error)` runs in a later call, in commit order."""
        self._grouped().commit_async(self._committable(offsets), callback)

    def _committable(self, offsets: Mapping[Place, OffsetAndMetadata | int] | None) -> Any:
        """Return the given offsets, or the positions excluding records that an iterator has not yielded yet."""
        if offsets is not None or not self._pending:
            return offsets
        assigned = set(self.assignment())
        pending = {part: offset for part, offset in self._pending.offsets().items() if part in assigned}
        return {**self._grouped().commits.all_consumed(), **pending}

    @one_at_a_time
    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None for a partition without one. Raises Timeout."""
        return self._grouped().committed(partitions, self._api_timeout_ms if timeout_ms is None else timeout_ms)

    # --- records

    @one_at_a_time
    def poll(self, timeout_ms: int) -> ConsumerRecords:
        """Return up to max.poll.records records; wait up to `timeout_ms` for the first. Interceptors and the poison
        policy `skip` may leave none.

        Raises RecordDeserializationError for a record that cannot be deserialized, once the records before it were
        returned, with the position at that record. Raises WakeupError after `wakeup`; KafkaError caused by a rebalance
        listener; ConnectionFailed and the like while no bootstrap server was ever reached; and errors that a retry
        cannot cure. Raises TypeError when `timeout_ms` is not an int.
        """
        self.give_back()
        return self._poll_records(timeout_ms)

    @one_at_a_time
    def poll_further(self, timeout_ms: int) -> ConsumerRecords:
        """Poll, leaving the position after records that an iterator holds, which `poll` would return again."""
        return self._poll_records(timeout_ms)

    def _poll_records(self, timeout_ms: int) -> ConsumerRecords:
        columns = self._poll(whole_ms(timeout_ms), partial(self._fetcher.collect, self._max_poll_records))
        records = self._decoded(columns) if self._decoder and columns else ConsumerRecords(columns)
        return self._interceptors.on_consume(records) if records else records

    def _decoded(self, columns: Sequence[FetchedColumns]) -> ConsumerRecords:
        decoded = self._decoder.decode(columns)
        for part, failure in decoded.failures.items():
            self.seek(part, failure.offset)
        if decoded.failures and not decoded.records:
            raise next(iter(decoded.failures.values()))
        return ConsumerRecords(up_to_failures(columns, decoded.failures), decoded.records)

    @one_at_a_time
    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return all buffered records as columns; wait up to `timeout_ms` for the first. Ignores max.poll.records."""
        self.give_back()
        return self._poll(whole_ms(timeout_ms), partial(self._fetcher.collect, _ALL_BUFFERED))

    def _poll(self, timeout_ms: int, collect: Callable[[], list[Fetched]]) -> list[Fetched]:
        now_ms = self._clock.now_ms()
        deadline_ms = now_ms + timeout_ms
        while True:
            self._raise_failure()
            if self._group is not None:
                self._group.advance(now_ms)
            self._update_positions()
            self._fetcher.note_time(now_ms)
            items = collect()
            self._send_fetches(now_ms)
            if items:
                return items
            remaining_ms = deadline_ms - now_ms
            if remaining_ms <= 0:
                self._client.poll(0)
                return collect() if self._fetcher.has_completed() else []
            self._client.poll(min(remaining_ms, self._client.poll_limit_ms))
            now_ms = self._clock.now_ms()
            self._client.ensure_contact(now_ms)

    def _send_fetches(self, now_ms: int) -> None:
        for item in self._fetcher.prepare(now_ms, self._client.can_send):
            on_response = partial(self._fetcher.handle_response, item.node)
            self._client.send_fetch(item.node, item.request, on_response, partial(self._fetch_failed, item.node))

    def _fetch_failed(self, node: int, error: KafkaError) -> None:
        self._fetcher.handle_failure(node)
        if isinstance(error, (DecodeError, UnsupportedVersion)):
            self._failure = error  # a retry would fail alike

    # --- resets and validation of positions

    def _update_positions(self) -> None:
        now_ms = self._clock.now_ms()
        if self._client.metadata_version != self._seen_metadata:
            self._seen_metadata = self._client.metadata_version
            self._offsets.note_leaders()
        for request in self._offsets.validation_requests(now_ms):
            self._send(request, self._offsets.handle_validation_response)
        if self._group is None:
            self._subscriptions.reset_initializing_positions()
        for request in self._offsets.reset_requests(now_ms, self._clock.wall_ms()):
            self._send(request, self._offsets.handle_reset_response)

    def _send(self, request: NodeRequest, handle: Callable[[NodeRequest, Entity, int], None]) -> None:
        def on_response(entity: Entity) -> None:
            try:
                handle(request, entity, self._clock.now_ms())
            except KafkaError as error:
                self._failure = error

        def on_failure(error: KafkaError) -> None:
            if isinstance(error, UnsupportedVersion) and handle == self._offsets.handle_validation_response:
                self._offsets.skip_validation(request)
            else:
                self._offsets.handle_failure(request, self._clock.now_ms())

        self._client.send(request.node, request.api_key, request.fields, on_response, on_failure)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # --- offsets and partitions of the cluster

    @one_at_a_time
    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition; a partition for which the broker reports none is left out."""
        return self._offsets_at(partitions, EARLIEST_TIMESTAMP)

    @one_at_a_time
    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition (the last stable offset under read_committed); a partition for
        which the broker reports none is left out. Raises ConnectionFailed when no bootstrap server was ever reached,
        UnknownTopicOrPartition after 5 seconds, and RequestTimedOut after default.api.timeout.ms."""
        return self._offsets_at(partitions, LATEST_TIMESTAMP)

    @one_at_a_time
    def offsets_for_times(self, timestamps: Mapping[Place, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offset and timestamp of each partition's first record at or after its timestamp (ms); None where there
        is none. Raises the errors of `end_offsets`, TopicAuthorizationFailed, and ValueError for a negative time."""
        return self._list(target_times(timestamps))

    def _offsets_at(self, partitions: Iterable[tuple[str, int]], timestamp: int) -> dict[TopicPartition, int]:
        offsets = self._list({TopicPartition(*part): timestamp for part in partitions})
        return {part: offset.offset for part, offset in offsets.items() if offset is not None}

    def _list(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wait = self._wait_for(timestamps, f"Failed to get offsets by times in time for {names_of(timestamps)}", None)
        return OffsetListing(self._client, self._offsets, wait).list(timestamps)

    @one_at_a_time
    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return a topic's partition numbers, empty if it is missing. Raises InvalidTopic, TopicAuthorizationFailed."""
        deadline = self._deadline(timeout_ms)
        self._client.set_topics({topic})
        self._client.refresh_metadata(deadline)
        while self._client.is_being_created(topic) and self._clock.now_ms() < deadline:
            self._client.refresh_metadata(deadline)
        if (error := self._client.cluster.topic_error(topic)) is not None:
            raise error
        return self._client.topics().get(topic, [])

    @one_at_a_time
    def list_topics(self, timeout_ms: int | None = None) -> dict[str, list[int]]:
        """Fetch metadata and return the partition numbers of all topics. From then on the consumer's metadata covers
        all topics."""
        self._client.replace_topics(None)
        self._client.refresh_metadata(self._deadline(timeout_ms))
        return self._client.topics()

    # --- waiting and the end

    def _deadline(self, timeout_ms: int | None) -> int:
        return self._clock.now_ms() + (self._api_timeout_ms if timeout_ms is None else timeout_ms)

    def _wait_for(self, partitions: Collection[TopicPartition], message: str, timeout_ms: int | None) -> PartitionWait:
        return PartitionWait(self._client, self._clock, self._deadline(timeout_ms), message, partitions)

    @property
    def metadata_version(self) -> int:
        """A counter that grows with every metadata response and every leader learned from a Fetch response."""
        return self._client.metadata_version

    def known_partitions(self) -> dict[str, list[int]]:
        """Return the partition numbers of each topic in cached metadata; never waits."""
        return self._client.topics()

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Return the topic's id from cached metadata, None when it has none or is missing there; never waits."""
        return self._client.cluster.topic_id(topic)

    def connection_problem(self) -> KafkaError | None:
        """Return the connection error of the first unreachable leader of an assigned partition, else None. While a
        leader is unknown, and with group.id but no assigned partitions, the error of all brokers counts instead.
        Without partitions, also that of the coordinator. Polls raise none of these errors once metadata has arrived;
        they retry."""
        if self._group is not None and not self.assignment():
            return self._client.cluster_problem() or self._group.problem
        for part in self.assignment():
            leader, client = self._leaders.leader(part), self._client
            problem = client.cluster_problem() if leader is None else client.connection_problem(leader.leader)
            if problem is not None:
                return problem
        return None

    def missing_leader(self) -> KafkaError | None:
        """Return LeaderNotAvailable for the first assigned partition that metadata lists without a leader, else None. A
        partition that is missing from metadata does not count."""
        for part in self.assignment():
            if (leader := self._leaders.leader(part)) is not None and leader.leader < 0:
                return LeaderNotAvailable(f"{part[0]}-{part[1]} has no leader")
        return None

    def has_broker(self) -> bool:
        """Return False when the last connection to every known broker failed; True otherwise, also before the first
        attempt."""
        return self._client.cluster_problem() is None

    def wakeup(self) -> None:
        """Make the current or next blocking call, except `close`, raise WakeupError; callable from any thread."""
        self._client.wakeup()

    def close(self, timeout_ms: int | None = None) -> None:
        """Leave the group within `timeout_ms` (default: 30 s), then end the fetch sessions and close the connections.
        With enable.auto.commit, commits before leaving. A second call does nothing. Raises KafkaError caused by a
        rebalance listener, after closing; ValueError if negative; IllegalState during another thread's call."""
        ensure_close_timeout(timeout_ms)
        if self._is_closed or not self._begin_close():
            return
        try:
            if self._group is not None:
                self._group.close(DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms)
        finally:
            self._is_closed = True
            self._interceptors.close()
            for item in self._fetcher.close_requests():
                if self._client.can_send(item.node):
                    self._client.send_fetch(item.node, item.request, ignore_outcome, ignore_outcome)
            self._client.close()
            self._call_lock.release()

    def _begin_close(self) -> bool:
        """Acquire the call lock for good; return False when a listener called `close` within `close`."""
        if not self._call_lock.acquire(blocking=False):
            raise IllegalState(TWO_THREADS)
        if self._is_closing:
            self._call_lock.release()
            return False
        self._is_closing = True
        self.give_back()
        return True
