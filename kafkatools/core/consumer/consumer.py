"""The consumer: Kafka's KafkaConsumer, with manually or group-assigned partitions.

Rules: one thread; only `wakeup` may be called by another. What a call does is in consumer_base.py; only the network
client blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kafkatools.core.clock import Clock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config.client_settings import Settings
from kafkatools.core.consumer.completed_fetch import (
    FetchedColumns,
    SkipCorrupt,
)
from kafkatools.core.consumer.consumer_base import ConsumerBase
from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.interceptors import ConsumerInterceptor
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.consumer.offset_fetcher import OffsetAndTimestamp
from kafkatools.core.consumer.offset_listing import target_times
from kafkatools.core.consumer.poison import AnyDeserializer, PoisonPolicy
from kafkatools.core.consumer.record_iterator import RecordLoops
from kafkatools.core.consumer.single_thread import IN_LISTENER, TWO_THREADS, one_at_a_time
from kafkatools.core.consumer.subscription import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    TopicPartition,
)
from kafkatools.core.errors import (
    IllegalState,
)

if TYPE_CHECKING:
    from kafkatools.core.consumer.group_subscription import RebalanceListener, Topics
    from kafkatools.core.group.metadata import OffsetAndMetadata

__all__ = ["Consumer", "ConsumerRecord", "ConsumerRecords"]

DEFAULT_CLOSE_TIMEOUT_MS = 30_000
_ALL_BUFFERED = 1 << 62
INTERRUPTED_CLOSE_MS = 3000
_OBJECTS = ("key.deserializer", "value.deserializer")

Place = TypeVar("Place", bound=tuple[str, int])
Fetched = TypeVar("Fetched")


class Consumer(ConsumerBase, RecordLoops):
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
        super().__init__(
            config,
            clock,
            skip_corrupt,
            lambda config, clock: client or ConsumerNetworkClient(config, clock),
            interceptors=interceptors,
            deserializers=(key_deserializer, value_deserializer),
            poison=poison,
            settings=settings,
        )

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the consumer; after KeyboardInterrupt, SystemExit or the like within 3 seconds instead of 30."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        self.close(INTERRUPTED_CLOSE_MS if is_interrupted else None)

    # --- subscription and assignment

    @one_at_a_time
    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Replace the assigned partitions with these, none: unsubscribe; partitions that stay assigned keep their
        position. Raises IllegalState if subscribed, ValueError for an empty topic name, InvalidTopic for one that no
        request can hold."""
        self._client.run(self._assign(partitions))

    @one_at_a_time
    def subscribe(self, topics: Topics, listener: RebalanceListener | None = None) -> None:
        """Read topics as a group member: topic names, a compiled regular expression, a predicate, or a
        SubscriptionPattern that the broker matches.

        Replaces the previous subscription; an empty collection unsubscribes. The group is joined during the next polls.
        Raises InvalidGroupId without group.id, IllegalState after `assign` or a subscription of another kind,
        ValueError for an empty topic name, and InvalidTopic for one that no request can hold. With the classic
        protocol, raises UnsupportedVersion for a SubscriptionPattern, and ConfigError for assignors without a common
        rebalance protocol.
        """
        self._client.run(self._subscribe(topics, listener))

    @one_at_a_time
    def unsubscribe(self) -> None:
        """Leave the group and drop all partitions, manually assigned ones too. Raises IllegalState in a callback of the
        rebalance listener."""
        self._client.run(self._unsubscribe())

    # --- positions

    @one_at_a_time
    def seek_to_time(self, timestamp_ms: int, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move to the first record at or after `timestamp_ms` (ms since 1970), or to the end where there is none.
        Without partitions, moves all assigned ones. Raises the errors of `offsets_for_times`."""
        self._client.run(self._seek_to_time(timestamp_ms, partitions))

    @one_at_a_time
    def position(self, partition: tuple[str, int], timeout_ms: int | None = None) -> int:
        """Return the offset of the next record to be returned, waiting for its lookup if unknown. Raises
        NoOffsetForPartition when auto.offset.reset=none and no offset is committed, and the errors of `end_offsets`."""
        return self._client.run(self._position(partition, timeout_ms))

    # --- committed offsets

    @one_at_a_time
    def commit_sync(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Commit offsets and wait for the response. Each is the next offset to read; default: the positions, without
        records that an iterator has not yielded. Raises CommitFailed when the partitions were reassigned,
        RebalanceInProgress, InvalidGroupId, Timeout, UnknownTopicOrPartition after 5 s for a topic that does not exist,
        InvalidTopic for a name that no request can hold, and ValueError for a negative offset."""
        self._client.run(self._commit(offsets, timeout_ms))

    @one_at_a_time
    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None for a partition without one. Raises Timeout."""
        return self._client.run(self._committed(partitions, timeout_ms))

    # --- records

    @one_at_a_time
    def poll(self, timeout_ms: int) -> ConsumerRecords:
        """Return up to max.poll.records records; wait up to `timeout_ms` for the first. Interceptors and the poison
        policy `skip` may leave none.

        Raises RecordDeserializationError for a record that cannot be deserialized, once the records before it were
        returned, with the position at that record. Raises WakeupError after `wakeup`; KafkaError caused by a rebalance
        listener; ConnectionFailed and the like while no bootstrap server was ever reached; and errors that a retry
        cannot cure. Raises TypeError when `timeout_ms` is not an int, IllegalState in a callback of the rebalance
        listener.
        """
        self._ensure_outside_listener()
        self.give_back()
        return self._client.run(self._poll_records(timeout_ms))

    @one_at_a_time
    def poll_further(self, timeout_ms: int) -> ConsumerRecords:
        """Poll, leaving the position after records that an iterator holds, which `poll` would return again."""
        self._ensure_outside_listener()
        return self._client.run(self._poll_records(timeout_ms))

    @one_at_a_time
    def poll_assignment(self, timeout_ms: int) -> None:
        """Wait up to `timeout_ms` until partitions are assigned, without polling records."""
        self._client.run(self._poll_assignment(timeout_ms))

    @one_at_a_time
    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return all buffered records as columns; wait up to `timeout_ms` for the first. Ignores max.poll.records.
        Raises IllegalState in a callback of the rebalance listener."""
        self._ensure_outside_listener()
        self.give_back()
        return self._client.run(self._poll_columns(timeout_ms))

    # --- offsets and partitions of the cluster

    @one_at_a_time
    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition; a partition for which the broker reports none is left out."""
        return self._client.run(self._offsets_at(partitions, EARLIEST_TIMESTAMP))

    @one_at_a_time
    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition (the last stable offset under read_committed); a partition for
        which the broker reports none is left out. Raises ConnectionFailed when no bootstrap server was ever reached,
        UnknownTopicOrPartition after 5 seconds, and RequestTimedOut after default.api.timeout.ms."""
        return self._client.run(self._offsets_at(partitions, LATEST_TIMESTAMP))

    @one_at_a_time
    def offsets_for_times(self, timestamps: Mapping[Place, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offset and timestamp of each partition's first record at or after its timestamp (ms); None where there
        is none. Raises the errors of `end_offsets`, TopicAuthorizationFailed, and ValueError for a negative time."""
        return self._client.run(self._list(target_times(timestamps)))

    @one_at_a_time
    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return a topic's partition numbers, empty if it is missing. Raises InvalidTopic, TopicAuthorizationFailed."""
        return self._client.run(self._partitions_for(topic, timeout_ms))

    @one_at_a_time
    def list_topics(self, timeout_ms: int | None = None) -> dict[str, list[int]]:
        """Fetch metadata and return the partition numbers of all topics. From then on the consumer's metadata covers
        all topics."""
        return self._client.run(self._list_topics(timeout_ms))

    @one_at_a_time
    def client_instance_id(self, timeout_ms: int | None = None) -> str | None:
        """Return the id that the brokers' metrics of this client carry (KIP-714), as Kafka writes it. Waits for a
        broker's response up to `timeout_ms` (default.api.timeout.ms). None if none came in time, or if the brokers
        take no metrics. Raises IllegalState with enable.metrics.push=false, ValueError if negative, and the error of
        the connection when no broker is reachable."""
        return self._client.run(self._client_instance_id(timeout_ms))

    # --- waiting and the end

    def wakeup(self) -> None:
        """Make the current or next blocking call, except `close`, raise WakeupError; callable from any thread."""
        self._client.wakeup()

    def close(self, timeout_ms: int | None = None, *, leave_group: bool | None = None) -> None:
        """Leave the group within `timeout_ms` (default: 30 s), then end the fetch sessions and close the connections.
        With enable.auto.commit, commits before leaving. A second call does nothing. Raises, after closing, the error of
        a commit callback, and KafkaError caused by a rebalance listener; ValueError if negative; IllegalState during
        another thread's call, and in a callback of the rebalance listener during `poll`.

        `leave_group` (KIP-1092): True removes a member with group.instance.id from the group too. False leaves one
        without it to the session time-out, so that a quick restart causes no rebalance. None leaves only without it.
        """
        ensure_close_timeout(timeout_ms)
        if self._is_closed or not self._begin_close():
            return
        try:
            self._client.run(self._leave(timeout_ms, leave_group))
        finally:
            self._call_lock.release()

    def _begin_close(self) -> bool:
        """Acquire the call lock for good; return False when a listener called `close` within `close`."""
        if not self._call_lock.acquire(blocking=False):
            raise IllegalState(TWO_THREADS)
        if self._is_closing:
            self._call_lock.release()
            return False
        if self._is_in_listener:
            self._call_lock.release()
            raise IllegalState(IN_LISTENER)
        self._is_closing = True
        self.give_back()
        return True

    @property
    def _is_in_listener(self) -> bool:
        return self._group is not None and self._group.is_in_listener

    def _ensure_outside_listener(self) -> None:
        if self._is_in_listener:
            raise IllegalState(IN_LISTENER)
