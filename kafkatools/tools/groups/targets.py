"""Compute the new offsets of --reset-offsets (OffsetsUtils.resetTo..., checkOffsetsRange).

Log offsets are fetched for the partitions of all groups together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum, auto, unique
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import GroupOffsets, TopicPartition
from kafkatools.core.admin.offsets import EARLIEST, LATEST, list_offsets
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.errors import KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import partition_hash
from kafkatools.exit_status import CommandError
from kafkatools.tools.groups.plan_file import PlanFile, PlanLine, refuse

NewOffsets = dict[TopicPartition, "OffsetAndMetadata | None"]


class TopicScope(NamedTuple):
    """The whole topics and the single partitions that --topic names."""

    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


@unique
class Goal(Enum):
    """The kinds of reset targets, one per option."""

    PLAN = auto()
    CURRENT = auto()
    SHIFT = auto()
    OFFSET = auto()
    EARLIEST = auto()
    LATEST = auto()
    TIME = auto()


class Reset(NamedTuple):
    """The options of --reset-offsets. `scope` None means all topics of the group; `timestamp` (ms since 1970) is for
    TIME; `amount` is the offset for OFFSET and the difference for SHIFT."""

    scope: TopicScope | None
    plan: PlanFile | None
    timestamp: int | None
    goal: Goal
    amount: int = 0


class Targets:
    """Computes the new offsets of every group. Calls `note` for each offset moved to a limit of the log, and for each
    partition without a record at the requested time.

    For a nonexistent partition the constructor raises UnknownTopicOrPartition, with a plan CommandError. For one
    without a leader it raises LeaderNotAvailable, for failed requests other KafkaErrors.
    """

    def __init__(
        self,
        admin: AdminClient,
        reset: Reset,
        requested: Mapping[str, Collection[TopicPartition]],
        committed: Mapping[str, GroupOffsets],
        note: Callable[[str], None],
    ) -> None:
        self._admin = admin
        self._note = note
        self._reset = reset
        self._requested = requested
        self._committed = committed
        partitions = list(dict.fromkeys(key for keys in requested.values() for key in keys))
        self._check_exist(partitions)
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._by_time: dict[TopicPartition, int] = {}
        if reset.plan is not None:
            plan_partitions = {(line.topic, line.partition) for line in reset.plan.lines if line.offset is not None}
            partitions = [key for key in partitions if key in plan_partitions]
        self._load(partitions)

    def _load(self, partitions: list[TopicPartition]) -> None:
        goal = self._reset.goal
        is_checked = goal in (Goal.PLAN, Goal.OFFSET, Goal.SHIFT)
        if goal is Goal.EARLIEST or is_checked:
            self._starts = self._log_offsets(partitions, EARLIEST)
        if goal in (Goal.LATEST, Goal.CURRENT) or is_checked:
            self._ends = self._log_offsets(partitions, LATEST)
        if self._reset.timestamp is not None:
            self._by_time = self._log_offsets(partitions, max(0, self._reset.timestamp))
            late_partitions = [key for key, offset in self._by_time.items() if offset < 0]
            for topic, partition in late_partitions:
                self._note(
                    f"Warn: Partition {partition} from topic {topic} has no record that late. "
                    "Falling back to latest known offset."
                )
            self._by_time.update(self._log_offsets(late_partitions, LATEST))

    def _log_offsets(self, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        offsets = list_offsets(self._admin, dict.fromkeys(partitions, timestamp))
        for result in offsets.values():
            if result.error is not None:
                raise result.error
        return {key: result.offset for key, result in offsets.items()}

    def _check_exist(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise UnknownTopicOrPartition for nonexistent partitions, or with a plan CommandError that names the lines.
        Raise LeaderNotAvailable for leaderless ones (OffsetsUtils.checkAllTopicPartitionsValid). Lines that delete an
        offset may name nonexistent partitions."""
        topics = list(dict.fromkeys(topic for topic, _ in partitions))
        descriptions = describe_topics(self._admin, names=topics) if topics else {}
        leaders: dict[TopicPartition, int] = {}
        for name, topic in descriptions.items():
            if topic.error is not None and topic.error.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise topic.error
            leaders.update({(name, part.partition): part.leader for part in topic.partitions})
        missing = [key for key in partitions if key not in leaders]
        if missing and self._reset.plan is not None:
            _refuse_lines(self._reset.plan, set(missing))
        elif missing:
            names = ",".join(f"{topic}-{partition}" for topic, partition in missing)
            raise UnknownTopicOrPartition(f'The partitions "{names}" do not exist')
        orphans = [key for key in partitions if leaders.get(key, 0) < 0]
        if orphans:
            names = ",".join(f"{topic}-{partition}" for topic, partition in orphans)
            raise LeaderNotAvailable(f'The partitions "{names}" have no leader')

    def of_group(self, group_id: str) -> NewOffsets:
        """Return the new offsets of one group, in the order of Kafka's hash map; None deletes an offset. Raises
        CommandError for a group without plan lines, or a shift of a partition without committed offset."""
        goal, amount = self._reset.goal, self._reset.amount
        keys = hash_order(self._requested[group_id], hash_of=partition_hash)
        if self._reset.plan is not None:
            return self._from_plan(self._reset.plan.of_group(group_id), keys, group_id)
        if goal is Goal.CURRENT:
            return self._to_current(group_id, keys)
        if goal is Goal.SHIFT:
            offsets = self._committed[group_id].offsets
            for topic, partition in keys:
                if (topic, partition) not in offsets:
                    label = f"partition {topic}-{partition}"
                    raise CommandError(f"Cannot shift offset for {label} since there is no current committed offset")
            return self._within_range({key: offsets[key].offset + amount for key in keys})
        if goal is Goal.OFFSET:
            return self._within_range(dict.fromkeys(keys, amount))
        if goal is Goal.EARLIEST:
            return _plain({key: self._starts[key] for key in keys})
        source = self._ends if goal is Goal.LATEST else self._by_time
        return _plain({key: source[key] for key in keys})

    def _to_current(self, group_id: str, keys: Iterable[TopicPartition]) -> NewOffsets:
        offsets = self._committed[group_id].offsets
        return {key: offsets.get(key) or OffsetAndMetadata(self._ends[key]) for key in keys}

    def _from_plan(
        self, lines: Mapping[TopicPartition, PlanLine], keys: Iterable[TopicPartition], group_id: str
    ) -> NewOffsets:
        new: NewOffsets = {}
        if not lines:
            raise CommandError(
                f"No reset plan for group {group_id} found.",
                hint="Add lines for this group to the file of --from-file, or leave the group out.",
            )
        for key in keys:
            line = lines[key]
            if line.offset is None:
                new[key] = None
            else:
                offset = self._clamp(key, line.offset)
                new[key] = OffsetAndMetadata(offset, line.leader_epoch, line.metadata)
        return new

    def _within_range(self, requested: Mapping[TopicPartition, int]) -> NewOffsets:
        return _plain({key: self._clamp(key, offset) for key, offset in requested.items()})

    def _clamp(self, key: TopicPartition, offset: int) -> int:
        start, end = self._starts[key], self._ends[key]
        if start <= offset <= end:
            return offset
        extreme, limit = ("higher than latest", end) if offset > end else ("lower than earliest", start)
        label = f"topic partition {key[0]}-{key[1]}"
        self._note(f"New offset ({offset}) is {extreme} offset for {label}. Value will be set to {limit}")
        return limit


def _plain(offsets: Mapping[TopicPartition, int]) -> NewOffsets:
    return {key: OffsetAndMetadata(offset) for key, offset in offsets.items()}


def _refuse_lines(plan: PlanFile, missing: set[TopicPartition]) -> None:
    """Raise CommandError for plan lines with nonexistent partitions, except lines that delete an offset."""
    refuse(
        [
            f"{plan.path}, line {line.number}: partition {line.topic}-{line.partition} does not exist"
            for line in plan.lines
            if (line.topic, line.partition) in missing and line.offset is not None
        ]
    )


def partitions_of(admin: AdminClient, scope: TopicScope) -> tuple[list[TopicPartition], dict[str, KafkaError]]:
    """Return the partitions of a scope, explicitly named ones first, and the errors by topic. Named partitions are not
    checked."""
    partitions = list(scope.partitions)
    errors: dict[str, KafkaError] = {}
    descriptions = describe_topics(admin, names=scope.topics) if scope.topics else {}
    for name, topic in descriptions.items():
        if topic.error is not None:
            errors[name] = topic.error
        partitions += [(name, part.partition) for part in topic.partitions]
    return list(dict.fromkeys(partitions)), errors


def require_partitions(admin: AdminClient, scope: TopicScope) -> list[TopicPartition]:
    """Return the partitions of a scope. Raises KafkaError for the first topic that cannot be described."""
    partitions, errors = partitions_of(admin, scope)
    for topic, error in errors.items():
        raise type(error)(f"topic {topic}: {error}") from error
    return partitions
