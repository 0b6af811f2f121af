"""A topology together with the topics that exist: numbers of tasks and partitions, missing topics, and what is wrong.

Source: InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics of Apache Kafka 4.3. A
repartition topic without a number of partitions gets the greatest number among the inputs of the subtopology that
writes it; copartitioned topics get the same number; a changelog topic gets one partition for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, unique

from kafkatools.core.broker.coordinators.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
    describe_subtopology,
)
from kafkatools.core.errors import StreamsInvalidTopology, UnknownServerError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.protocol.entities import Fields

PartitionCount = Callable[[str], int | None]
"""The number of partitions of a topic; None if it does not exist."""
_SHOWN = 3


@unique
class Status(IntEnum):
    """A status code of a StreamsGroupHeartbeat response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicProblem(Exception):
    """Topics do not fit the topology; members get the status and its text."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with its number of tasks; internal topics have their numbers of partitions."""

    subtopology: Subtopology
    task_count: int
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Return whether tasks have state, so that they can have standbys."""
        return bool(self.changelogs)

    def described(self) -> Fields:
        """The fields of a Subtopology in StreamsGroupDescribe."""
        return describe_subtopology(self.subtopology, self.repartition_sources, self.changelogs)


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The result of `configure`. `problem` is None when the group can be assigned. `missing` are the internal topics to
    create. `subtopologies` is by id, sorted, and empty if the topics do not fit the topology."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    missing: tuple[InternalTopic, ...] = ()
    problem: TopicProblem | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether all topics exist and fit the topology."""
        return self.problem is None

    def described(self) -> Fields:
        """The fields of a Topology in StreamsGroupDescribe."""
        return {"epoch": self.epoch, "subtopologies": [part.described() for part in self.subtopologies.values()]}


def configure(topology: Topology, existing: PartitionCount) -> ConfiguredTopology:
    """Decide the partitions of internal topics. Raises StreamsInvalidTopology for a topology that no topics fit, and
    UnknownServerError where Apache Kafka fails with an internal error."""
    parts = [topology.subtopologies[key] for key in hash_order(topology.subtopologies)]
    try:
        _ensure_sources(parts, existing)
        counts = _Counts(parts, existing)
        counts.decide()
        configured = {part.subtopology_id: counts.configured(part) for part in sorted(parts, key=_id)}
        missing = _missing(configured.values(), topology, existing)
    except TopicProblem as misfit:
        return ConfiguredTopology(topology.epoch, problem=misfit)
    problem = None
    if missing:
        names = [topic.name for topic in missing]
        problem = TopicProblem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(names)}")
    return ConfiguredTopology(topology.epoch, configured, missing, problem)


def _id(part: Subtopology) -> str:
    return part.subtopology_id


def _summary(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} additional topics" if len(names) > _SHOWN else "")


def _ensure_sources(parts: Iterable[Subtopology], existing: PartitionCount) -> None:
    missing = sorted({topic for part in parts for topic in part.source_topics if existing(topic) is None})
    if missing:
        raise TopicProblem(Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")


class _Counts:
    """The numbers of partitions while they are decided."""

    def __init__(self, parts: list[Subtopology], existing: PartitionCount) -> None:
        self._parts = parts
        self._existing = existing
        self._decided: dict[str, int] = {}
        repartition = [topic for part in parts for topic in part.repartition_source_topics]
        self._fixed = {topic.name for topic in repartition if topic.partitions}
        self._flexible = {topic.name for topic in repartition if not topic.partitions}

    def decide(self) -> None:
        """Decide all repartition topics, then copartitioned ones again, then changelogs."""
        self._decided.update(self._repartition_counts())
        for part in self._parts:
            for group in part.copartition_groups:
                self._copartition(_topics_of(part, group))
        for part in self._parts:
            counts = [self._count(topic) for topic in part.inputs]
            if not counts:
                raise StreamsInvalidTopology(f"No source topics found for subtopology {part.subtopology_id}")
            self._decided.update({topic.name: max(counts) for topic in part.changelog_topics})

    def _count(self, topic: str) -> int:
        count = self._existing(topic)
        if count is None:
            count = self._decided.get(topic)
        if count is None:
            raise UnknownServerError(f"Number of partitions is not set for topic: {topic}")
        return count

    def _repartition_counts(self) -> dict[str, int]:
        counts = {
            topic.name: topic.partitions
            for part in self._parts
            for topic in part.repartition_source_topics
            if topic.partitions
        }
        is_open = True
        while is_open:
            is_open = has_progressed = False
            for part in self._parts:
                for sink in part.repartition_sink_topics:
                    if sink in counts:
                        continue
                    count = self._written_count(part, counts)
                    if count is None:
                        is_open = True
                    else:
                        counts[sink] = count
                        has_progressed = True
            if is_open and not has_progressed:
                raise StreamsInvalidTopology(
                    "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                    "topology that cannot be resolved."
                )
        if any(topic.name not in counts for part in self._parts for topic in part.repartition_source_topics):
            raise StreamsInvalidTopology(
                "Failed to compute number of partitions for all repartition topics, because a repartition source "
                "topic is never used as a sink topic."
            )
        return counts

    def _written_count(self, part: Subtopology, counts: Mapping[str, int]) -> int | None:
        """The greatest number of partitions among the inputs that are known; None if none is."""
        known = [counts.get(topic.name) for topic in part.repartition_source_topics]
        known += [self._existing(topic) for topic in part.source_topics]
        return max((count for count in known if count is not None), default=None)

    def _copartition(self, topics: set[str]) -> None:
        if not topics:
            return
        internal = {name: self._count(name) for name in topics if name in self._fixed or name in self._flexible}
        external = {name: self._count(name) for name in topics if name not in internal}
        if external:
            count = next(iter(external.values()))
            _ensure_same(external, set(external.values()))
        elif self._fixed:
            fixed_counts = {self._count(name) for name in self._fixed}
            _ensure_same(internal, fixed_counts)
            count = next(iter(fixed_counts))
        else:
            count = max(internal.values())
        for name in hash_order(internal):
            if name in self._fixed and internal[name] != count:
                raise TopicProblem(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{internal[name]}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic.",
                )
            self._decided[name] = count

    def configured(self, part: Subtopology) -> ConfiguredSubtopology:
        """The subtopology with the decided numbers."""
        return ConfiguredSubtopology(
            part,
            max(self._count(topic) for topic in part.inputs),
            tuple(self._topic(topic) for topic in part.repartition_source_topics),
            tuple(self._topic(topic) for topic in part.changelog_topics),
        )

    def _topic(self, topic: InternalTopic) -> InternalTopic:
        configs = dict(topic.configs)
        ordered = tuple((key, configs[key]) for key in hash_order(configs))
        return replace(topic, partitions=topic.partitions or self._decided[topic.name], configs=ordered)


def _topics_of(part: Subtopology, group: CopartitionGroup) -> set[str]:
    sources = {part.source_topics[index] for index in group.source_topics}
    return sources | {part.repartition_source_topics[index].name for index in group.repartition_source_topics}


def _ensure_same(topics: Mapping[str, int], counts: Collection[int]) -> None:
    if len(counts) > 1:
        listed = ", ".join(f"{name}={topics[name]}" for name in sorted(topics))
        raise TopicProblem(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )


def _missing(
    parts: Iterable[ConfiguredSubtopology], topology: Topology, existing: PartitionCount
) -> tuple[InternalTopic, ...]:
    """The internal topics that do not exist. Raises TopicProblem for one with another number of partitions."""
    wanted = {topic.name: topic for part in parts for topic in (*part.repartition_sources, *part.changelogs)}
    for name in hash_order(topology.required_topics):
        count = existing(name)
        topic = wanted.pop(name, None) if count is not None else None
        if topic is not None and topic.partitions != count:
            raise TopicProblem(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found {count}",
            )
    return tuple(wanted[name] for name in hash_order(wanted))
