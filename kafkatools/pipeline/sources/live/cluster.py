"""Cluster queries of the driver: partitions, and the offsets that the options resolve to.

Rules: there is one admin client, connected on first use and never pickled. Partitions come from metadata and offsets
from the partition leaders; under read_committed the ends are last stable offsets. Failures are a PipelineError of one
line. Offsets that no longer exist go to `lose`: an error, or with failOnDataLoss=false a warning.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.offsets import READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import (
    ConnectionFailed,
    KafkaError,
    LeaderNotAvailable,
    Timeout,
    UnknownTopicOrPartition,
    error_for_code,
)
from kafkatools.core.java.patterns import java_pattern
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.offsets import OffsetRange, Offsets
from kafkatools.pipeline.sources.live.options import EARLIEST, LATEST, Limit, SourceOptions
from kafkatools.pipeline.sources.record_bounds import MIN_LONG, RecordBounds

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

Partitions = Mapping[TopicPartition, uuid.UUID | None]
"""Partitions with the id of their topic."""


class LiveCluster:
    """The Kafka cluster of a `kt` source, queried according to the source's options. Pickled as its options."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._clock = SystemClock()
        self._admin: AdminClient | None = None
        self._was_reached = False
        self._isolation = READ_COMMITTED if options.is_committed_only else READ_UNCOMMITTED

    def __getstate__(self) -> SourceOptions:
        return self._options

    def __setstate__(self, options: SourceOptions) -> None:
        self.__init__(options)  # type: ignore[misc]

    def close(self) -> None:
        """Close the connections; the next query opens new ones."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def lose(self, message: str) -> None:
        """Report lost data: raise PipelineError, or log `message` as a warning and return if failOnDataLoss is
        false."""
        if self._options.fail_on_data_loss:
            raise PipelineError(f"{message} (failOnDataLoss=false continues without the lost records)")
        _log.warning("%s", message)

    def _request(self, call: Callable[[AdminClient], _Answer]) -> _Answer:
        """Run `call` with the admin client and return its result. Retriable errors are retried up to
        fetchOffset.numRetries times. If the cluster has answered before, failed connections are retried for
        kafkaConsumer.pollTimeoutMs, so that a stream outlives a restart of brokers. Raises PipelineError after the last
        attempt."""
        servers = self._options.settings["bootstrap.servers"]
        started, attempts = self._clock.now_ms(), 0
        while True:
            attempts += 1
            try:
                if self._admin is None:
                    self._admin = AdminClient(servers, dict(self._options.settings), self._clock)
                result = call(self._admin)
                self._was_reached = True
                return result
            except KafkaError as error:
                self.close()
                if isinstance(error, (ConnectionFailed, Timeout)):
                    is_late = self._clock.now_ms() - started >= self._options.poll_timeout_ms
                    is_final = is_late or not self._was_reached
                else:
                    is_final = attempts >= self._options.fetch_retries or not error.retriable
                if is_final:
                    raise PipelineError(f"{servers}: {error}") from error
            self._clock.sleep_ms(self._options.retry_interval_ms)

    # --- partitions

    def partitions(self, *, must_exist: bool = True) -> dict[TopicPartition, uuid.UUID | None]:
        """Return the topic IDs (None from old brokers) of the subscribed partitions, by partition. A pattern may match
        none and leaves out internal topics. Raises PipelineError for a topic or partition that does not exist; without
        `must_exist` it is left out."""
        subscription = self._options.subscription
        if subscription.option == "subscribePattern":
            return self._matching_partitions(subscription.pattern)
        names = subscription.topics or tuple(dict.fromkeys(part.topic for part in subscription.partitions))
        topics = self._request(lambda admin: _topics(admin, names))
        for name in names:
            if name not in topics and must_exist:
                raise PipelineError(f"{subscription.option}: topic {name} does not exist")
        present = {part: topic_id for parts in topics.values() for part, topic_id in parts.items()}
        if subscription.topics:
            return present
        for part in subscription.partitions:
            if part not in present and must_exist:
                raise PipelineError(f"assign: {part} does not exist; topic {part.topic} has other partitions")
        return {part: present[part] for part in subscription.partitions if part in present}

    def _matching_partitions(self, text: str) -> dict[TopicPartition, uuid.UUID | None]:
        pattern = java_pattern(text)
        topics = self._request(lambda admin: _topics(admin, None))
        return {
            part: topic_id
            for name, parts in topics.items()
            if pattern.search(name)  # anywhere in the name, as Spark does (SubscribePatternStrategy)
            for part, topic_id in parts.items()
        }

    # --- offsets

    def earliest(self, parts: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition; partitions that do not exist are left out."""
        return self._offsets(dict.fromkeys(parts, EARLIEST))

    def latest(self, parts: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition, or the last stable offset under read_committed; partitions that
        do not exist are left out."""
        return self._offsets(dict.fromkeys(parts, LATEST))

    def stable_ends(self, parts: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offset of each partition, below which all transactions are committed or aborted;
        partitions that do not exist are left out."""
        return self._offsets(dict.fromkeys(parts, LATEST), READ_COMMITTED)

    def _offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int | None = None
    ) -> dict[TopicPartition, int]:
        """List offsets by timestamp (epoch ms, EARLIEST or LATEST); -1 if no record is at or after the timestamp.
        Partitions that do not exist are left out. Raises PipelineError."""
        if not times:
            return {}
        isolation = self._isolation if isolation_level is None else isolation_level

        def fetch(admin: AdminClient) -> dict[TopicPartition, int]:
            offsets = list_offsets(admin, {(*part,): time for part, time in times.items()}, isolation_level=isolation)
            for part, offset in offsets.items():
                if offset.error is not None and not isinstance(offset.error, UnknownTopicOrPartition):
                    raise type(offset.error)(f"{TopicPartition(*part)}: {offset.error}")
            return {TopicPartition(*part): offset.offset for part, offset in offsets.items() if offset.error is None}

        return self._request(fetch)

    def resolve(self, limit: Limit, parts: Iterable[TopicPartition], *, is_start: bool) -> dict[TopicPartition, int]:
        """Resolve a start or end option to an offset for each partition, as of now. A timestamp without a later record
        means the latest offset for an end, or a start with startingOffsetsByTimestampStrategy=latest. Raises
        PipelineError for such a start otherwise, and if the option names other partitions."""
        parts = list(parts)
        if limit.everywhere is not None:
            return self._offsets(dict.fromkeys(parts, limit.everywhere))
        if limit.offsets is not None:
            _ensure_same(limit.option, limit.offsets, parts)
            symbolic = {part: offset for part, offset in limit.offsets.items() if offset < 0}
            return {**limit.offsets, **self._offsets(symbolic)}
        if limit.timestamps_ms is not None:
            _ensure_same(limit.option, limit.timestamps_ms, parts)
            return self._at_times(limit, dict(limit.timestamps_ms), is_start)
        return self._at_times(limit, dict.fromkeys(parts, limit.timestamp_ms or 0), is_start)

    def _at_times(self, limit: Limit, times: dict[TopicPartition, int], is_start: bool) -> dict[TopicPartition, int]:
        offsets = self._offsets(times)
        unmatched = [part for part, offset in offsets.items() if offset < 0]
        if unmatched and is_start and not self._options.latest_without_match:
            raise PipelineError(
                f"{limit.option}: {unmatched[0]} has no record at or after {times[unmatched[0]]} "
                "(startingOffsetsByTimestampStrategy=latest starts at the end instead)"
            )
        return {**offsets, **self.latest(unmatched)}

    # --- a batch

    def batch_ranges(self, bounds: RecordBounds) -> list[OffsetRange]:
        """Return the offset ranges of a batch query within `bounds`, with ends as of now; some may be empty. Raises
        PipelineError if offsets are lost and failOnDataLoss is true, and with strictOptions if a pattern matches no
        topic, which is a warning otherwise."""
        options = self._options
        all_parts = self.partitions()
        if not all_parts:
            problem = f"{options.subscription.option} {options.subscription.pattern!r} matches no topic"
            if options.has_strict_options:
                raise PipelineError(problem)
            _log.warning("%s; the query has no rows", problem)
            return []
        starts = self.resolve(options.starting, all_parts, is_start=True)
        ends = self.resolve(options.ending, all_parts, is_start=False)
        parts = {part: all_parts[part] for part in all_parts if bounds.takes(*part)}
        if bounds.is_empty or not parts:
            return []
        starts, ends = self.within_log(parts, starts, ends)
        starts = {part: max(start, bounds.start_offset) for part, start in starts.items()}
        ends = {part: min(ends[part], bounds.end_offset) for part in starts}
        starts = self._not_before(bounds.start_timestamp_ms, starts, ends)
        return [OffsetRange(part, start, ends[part], parts[part]) for part, start in starts.items()]

    def within_log(
        self, parts: Iterable[TopicPartition], starts: Offsets, ends: Offsets
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Move starts and ends into the log's offset range. An offset outside of it, which an option named, is reported
        as lost data: a warning, or with failOnDataLoss a PipelineError. Partitions without a start or end are left out.
        Raises PipelineError for an end before the start."""
        parts = [part for part in parts if part in starts and part in ends]
        options = self._options
        is_named = options.starting.offsets or options.ending.offsets
        firsts, lasts = (self.earliest(parts), self.latest(parts)) if is_named else ({}, {})
        valid_starts, valid_ends = {}, {}
        for part in parts:
            both = (starts[part], ends[part])
            first, last = firsts.get(part, min(both)), lasts.get(part, max(both))
            for limit, offset in ((options.starting, starts[part]), (options.ending, ends[part])):
                if limit.offsets and not first <= offset <= last:
                    self.lose(
                        f"{limit.option}: offset {offset} of {part} is not in the log, which has {first} to {last}"
                    )
            start, end = (min(max(offset, first), last) for offset in both)
            if end < start:
                raise PipelineError(
                    f"{options.ending.option}: {part} would end at offset {end}, before offset {start}, with which it "
                    f"begins by {options.starting.option}"
                )
            valid_starts[part], valid_ends[part] = start, end
        return valid_starts, valid_ends

    def _not_before(self, timestamp_ms: int, starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        """Move starts to the first record at or after a timestamp, or to the end if there is none: earlier records are
        all older. A negative timestamp changes nothing."""
        if timestamp_ms == MIN_LONG or timestamp_ms < 0:
            return dict(starts)
        firsts = self._offsets(dict.fromkeys(starts, timestamp_ms))
        return {
            part: start if part not in firsts else max(start, firsts[part]) if firsts[part] >= 0 else ends[part]
            for part, start in starts.items()
        }


def _ensure_same(option: str, offsets: Offsets, parts: Iterable[TopicPartition]) -> None:
    partitions = set(parts)
    for part in sorted(partitions - offsets.keys()):
        raise PipelineError(
            f"{option} must name every partition that is read: {part} is missing (-1 is latest, -2 earliest)"
        )
    for part in sorted(offsets.keys() - partitions):
        raise PipelineError(f"{option} names {part}, which does not exist or is not read")


def _topics(admin: AdminClient, names: Iterable[str] | None) -> dict[str, Partitions]:
    """Return the partitions of each topic with its topic ID. `names` None means all topics except internal ones; topics
    that do not exist are left out. Raises KafkaError for another error of a topic."""
    metadata = admin.metadata_of(None if names is None else list(names), admin.deadline_ms())
    topics: dict[str, Partitions] = {}
    for topic in metadata.topics:
        error = error_for_code(int(topic.error_code)) if topic.error_code else None
        if error is UnknownTopicOrPartition or (names is None and getattr(topic, "is_internal", False)):
            continue
        if error is not None and error is not LeaderNotAvailable:
            raise error(f"topic {topic.name}: {error.name}")
        topic_id = getattr(topic, "topic_id", None)
        numbers = sorted(part.partition_index for part in topic.partitions)
        topics[topic.name] = {TopicPartition(topic.name, number): topic_id for number in numbers}
    return topics
