"""The share consumer: Kafka's KafkaShareConsumer.

Rules: one thread; only `wakeup` may be called by another. The steps of its calls are in share_consumer_base.py; only
the network client blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from kafkatools.core.clock import Clock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config.client_settings import Settings
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.consumer.poison import AnyDeserializer, PoisonPolicy
from kafkatools.core.consumer.share.share_consumer_base import INTERRUPTED_CLOSE_MS, ShareConsumerBase
from kafkatools.core.consumer.single_thread import TWO_THREADS, one_at_a_time
from kafkatools.core.errors import IllegalState, KafkaError
from kafkatools.core.topic_partition import TopicPartition

_POLL_MS = 100


class ShareConsumer(ShareConsumerBase):
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
        super().__init__(
            config,
            clock,
            lambda config, clock: client or ConsumerNetworkClient(config, clock),
            deserializers=(key_deserializer, value_deserializer),
            poison=poison,
            settings=settings,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the consumer; after KeyboardInterrupt, SystemExit or the like within 3 seconds instead of 30."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        self.close(INTERRUPTED_CLOSE_MS if is_interrupted else None)

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
        return self._client.run(self._poll_records(timeout_ms))

    @one_at_a_time
    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return acquired records as columns, without deserializers; otherwise as `poll`. The records of one item have
        the same delivery count."""
        return self._client.run(self._poll_columns(timeout_ms))

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

    # --- acknowledgements

    @one_at_a_time
    def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send acknowledgements and wait for their results: None for a partition after success, else its error, such as
        InvalidRecordState after the lock has ended, or Timeout. Empty without acknowledgements. Waits up to
        `timeout_ms` (default.api.timeout.ms). In implicit mode, accepts the records of the last poll first. Raises
        WakeupError after `wakeup`, and KafkaError caused by a commit callback."""
        return self._client.run(self._commit(timeout_ms))

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
                self._client.run(self._close(timeout_ms))
        finally:
            self._call_lock.release()
