"""What the driver asks a cluster: partitions, and offsets by what the options say.

Rules: one admin client, connected when first needed and never pickled. Every answer is exact: partitions from metadata,
offsets from their leaders, under read_committed the last stable ones as ends. What cannot be had is a PipelineError of
one line. Offsets that are gone go to `lose`: an error, or with failOnDataLoss=false a warning.
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
    """One cluster as the options see it."""

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
        """Closes the connections; the next question opens them again."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def lose(self, message: str) -> None:
        """Data is gone: raises PipelineError, or warns and returns when that is not to fail."""
        if self._options.fail_on_data_loss:
            raise PipelineError(f"{message} (failOnDataLoss=false goes on without what is lost)")
        _log.warning("%s", message)

    def _ask(self, question: Callable[[AdminClient], _Answer]) -> _Answer:
        """An answer. What may pass is asked again as often as fetchOffset.numRetries says; brokers that answered before
        and do not now, as long as kafkaConsumer.pollTimeoutMs says: a stream outlives their restart.
        """
        servers = self._options.settings["bootstrap.servers"]
        started, tries = self._clock.now_ms(), 0
        while True:
            tries += 1
            try:
                if self._admin is None:
                    self._admin = AdminClient(servers, dict(self._options.settings), self._clock)
                answer = question(self._admin)
                self._was_reached = True
                return answer
            except KafkaError as error:
                self.close()
                if isinstance(error, (ConnectionFailed, Timeout)):
                    is_late = self._clock.now_ms() - started >= self._options.poll_timeout_ms
                    is_final = is_late or not self._was_reached
                else:
                    is_final = tries >= self._options.fetch_retries or not error.retriable
                if is_final:
                    raise PipelineError(f"{servers}: {error}") from error
            self._clock.sleep_ms(self._options.retry_interval_ms)

    # --- partitions

    def partitions(self, *, must_exist: bool = True) -> dict[TopicPartition, uuid.UUID | None]:
        """What is to be read, by topic and number. A topic or partition that is named and does not exist is a
        PipelineError, or without `must_exist` left out.
        """
        wanted = self._options.wanted
        if wanted.option == "subscribePattern":
            return self._matching(wanted.pattern)
        names = wanted.topics or tuple(dict.fromkeys(part.topic for part in wanted.partitions))
        found = self._ask(lambda admin: _topics(admin, names))
        for name in names:
            if name not in found and must_exist:
                raise PipelineError(f"{wanted.option}: topic {name} does not exist")
        if wanted.topics:
            return {part: topic_id for parts in found.values() for part, topic_id in parts.items()}
        known = {part: topic_id for parts in found.values() for part, topic_id in parts.items()}
        for part in wanted.partitions:
            if part not in known and must_exist:
                raise PipelineError(f"assign: {part} does not exist, topic {part.topic} has other partitions")
        return {part: known[part] for part in wanted.partitions if part in known}

    def _matching(self, text: str) -> dict[TopicPartition, uuid.UUID | None]:
        from kafkatools.core.java.patterns import java_pattern

        pattern = java_pattern(text)
        found = self._ask(lambda admin: _topics(admin, None))
        return {
            part: topic_id
            for name, parts in found.items()
            if pattern.search(name)  # anywhere in the name, as Spark does (SubscribePatternStrategy)
            for part, topic_id in parts.items()
        }

    # --- offsets

    def earliest(self, parts: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition; those that do not exist are left out."""
        return self._offsets(dict.fromkeys(parts, EARLIEST))

    def latest(self, parts: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record that may be read; partitions that do not exist are left out."""
        return self._offsets(dict.fromkeys(parts, LATEST))

    def stable_ends(self, parts: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offset of each partition: below it every transaction is decided."""
        return self._offsets(dict.fromkeys(parts, LATEST), READ_COMMITTED)

    def _offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offset of each timestamp (EARLIEST, LATEST), -1 where no record is as young."""
        if not times:
            return {}
        isolation = self._isolation if isolation_level is None else isolation_level

        def ask(admin: AdminClient) -> dict[TopicPartition, int]:
            found = list_offsets(admin, {(*part,): time for part, time in times.items()}, isolation_level=isolation)
            for place, answer in found.items():
                if answer.error is not None and not isinstance(answer.error, UnknownTopicOrPartition):
                    raise _of(TopicPartition(*place), answer.error)
            return {TopicPartition(*place): answer.offset for place, answer in found.items() if answer.error is None}

        return self._ask(ask)

    def resolve(self, limit: Limit, parts: Iterable[TopicPartition], *, is_start: bool) -> dict[TopicPartition, int]:
        """The offsets that an option means for these partitions, as they are now."""
        parts = list(parts)
        if limit.everywhere is not None:
            return self._offsets(dict.fromkeys(parts, limit.everywhere))
        if limit.offsets is not None:
            _ensure_same(limit.option, limit.offsets, parts)
            open_ones = {part: offset for part, offset in limit.offsets.items() if offset < 0}
            return {**limit.offsets, **self._offsets(open_ones)}
        if limit.timestamps_ms is not None:
            _ensure_same(limit.option, limit.timestamps_ms, parts)
            return self._at_times(limit, dict(limit.timestamps_ms), is_start)
        return self._at_times(limit, dict.fromkeys(parts, limit.timestamp_ms or 0), is_start)

    def _at_times(self, limit: Limit, times: dict[TopicPartition, int], is_start: bool) -> dict[TopicPartition, int]:
        found = self._offsets(times)
        late = [part for part, offset in found.items() if offset < 0]
        if late and is_start and not self._options.latest_without_match:
            raise PipelineError(
                f"{limit.option}: {late[0]} has no record at or after {times[late[0]]} "
                "(startingOffsetsByTimestampStrategy=latest starts at the end then)"
            )
        return {**found, **self.latest(late)}

    # --- a batch

    def batch_ranges(self, bounds: RecordBounds) -> list[OffsetRange]:
        """What a batch query reads, its ends taken now, once."""
        options = self._options
        all_parts = self.partitions()
        if not all_parts:
            raise PipelineError(f"{options.wanted.option} {options.wanted.pattern!r} matches no topic")
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
        """Starts and ends that are in the log; those that are not are lost data."""
        parts = [part for part in parts if part in starts and part in ends]
        options = self._options
        firsts = self.earliest(parts) if options.starting.offsets else starts
        named_ends = options.ending.offsets or options.starting.offsets
        lasts = self.latest(parts) if named_ends else ends
        kept_starts, kept_ends = {}, {}
        for part in parts:
            first, last = firsts.get(part, starts[part]), lasts.get(part, ends[part])
            for option, offset in ((options.starting.option, starts[part]), (options.ending.option, ends[part])):
                if not first <= offset <= last:
                    self.lose(f"{option}: offset {offset} of {part} is not in its log, which has {first} to {last}")
            kept_starts[part] = min(max(starts[part], first), last)
            kept_ends[part] = min(max(ends[part], first), last)
        return kept_starts, kept_ends

    def _not_before(self, timestamp_ms: int, starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        """Starts moved to the first record that is not older; in front of it every one is."""
        if timestamp_ms == MIN_LONG or timestamp_ms < 0:
            return dict(starts)
        found = self._offsets(dict.fromkeys(starts, timestamp_ms))
        return {
            part: start if part not in found else max(start, found[part]) if found[part] >= 0 else ends[part]
            for part, start in starts.items()
        }


def _ensure_same(option: str, given: Offsets, parts: Iterable[TopicPartition]) -> None:
    wanted = set(parts)
    for part in sorted(wanted - given.keys()):
        raise PipelineError(
            f"{option} must name every partition that is read: {part} is missing (-1 is latest, -2 earliest)"
        )
    for part in sorted(given.keys() - wanted):
        raise PipelineError(f"{option} names {part}, which does not exist or is not read")


def _topics(admin: AdminClient, names: Iterable[str] | None) -> dict[str, Partitions]:
    """The partitions of topics (None: of all that are not the brokers' own); topics that do not exist are left out."""
    answer = admin.metadata_of(None if names is None else list(names), admin.deadline_ms())
    found: dict[str, Partitions] = {}
    for topic in answer.topics:
        error = error_for_code(int(topic.error_code)) if topic.error_code else None
        if error is UnknownTopicOrPartition or (names is None and getattr(topic, "is_internal", False)):
            continue
        if error is not None and error is not LeaderNotAvailable:
            raise error(f"topic {topic.name}: {error.name}")
        topic_id = getattr(topic, "topic_id", None)
        numbers = sorted(part.partition_index for part in topic.partitions)
        found[topic.name] = {TopicPartition(topic.name, number): topic_id for number in numbers}
    return found


def _of(part: TopicPartition, error: KafkaError) -> KafkaError:
    return type(error)(f"{part}: {error}")
