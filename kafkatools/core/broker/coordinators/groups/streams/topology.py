"""The topology of a streams group, as the first member sends it and the log keeps it (Kafka's StreamsTopology).

A subtopology reads its source topics and repartition source topics, writes its repartition sink topics, and keeps its
state stores in changelog topics. Internal topics with 0 partitions get their number from other topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from kafkatools.core.protocol.entities import Entity, Fields


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic as the application wants it; 0 partitions and replication factor 0 are undecided."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, entity: Entity) -> InternalTopic:
        """The topic of a TopicInfo of a request or record."""
        configs = tuple((config.key, config.value) for config in entity.topic_configs)
        return cls(entity.name, entity.partitions, entity.replication_factor, configs)

    def fields(self) -> Fields:
        """The fields of a TopicInfo."""
        return {
            "name": self.name,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "topic_configs": [{"key": key, "value": value} for key, value in self.configs],
        }


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics that need the same number of partitions, as indexes of the subtopology's lists of topics."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the topology that runs as one task for each partition of its sources."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @classmethod
    def read(cls, entity: Entity) -> Subtopology:
        """The subtopology of a request or record."""
        return cls(
            entity.subtopology_id,
            tuple(entity.source_topics),
            tuple(entity.source_topic_regex),
            tuple(InternalTopic.read(topic) for topic in entity.state_changelog_topics),
            tuple(entity.repartition_sink_topics),
            tuple(InternalTopic.read(topic) for topic in entity.repartition_source_topics),
            tuple(
                CopartitionGroup(
                    tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
                )
                for group in entity.copartition_groups
            ),
        )

    def fields(self) -> Fields:
        """The fields of a Subtopology of a record."""
        return {
            "subtopology_id": self.subtopology_id,
            "source_topics": list(self.source_topics),
            "source_topic_regex": list(self.source_topic_regex),
            "state_changelog_topics": [topic.fields() for topic in self.changelog_topics],
            "repartition_sink_topics": list(self.repartition_sink_topics),
            "repartition_source_topics": [topic.fields() for topic in self.repartition_source_topics],
            "copartition_groups": [
                {
                    "source_topics": list(group.source_topics),
                    "source_topic_regex": list(group.source_topic_regex),
                    "repartition_source_topics": list(group.repartition_source_topics),
                }
                for group in self.copartition_groups
            ],
        }

    @property
    def inputs(self) -> tuple[str, ...]:
        """The source topics and repartition source topics."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))

    def described(self) -> Fields:
        """The fields of a Subtopology in StreamsGroupDescribe, of a topology that is not configured."""
        return describe_subtopology(self, self.repartition_source_topics, self.changelog_topics)


def describe_subtopology(
    subtopology: Subtopology, repartition_sources: Iterable[InternalTopic], changelogs: Iterable[InternalTopic]
) -> Fields:
    """The fields of a Subtopology in StreamsGroupDescribe, with these internal topics."""
    return {
        "subtopology_id": subtopology.subtopology_id,
        "source_topics": sorted(subtopology.source_topics),
        "repartition_sink_topics": sorted(subtopology.repartition_sink_topics),
        "repartition_source_topics": [topic.fields() for topic in sorted(repartition_sources, key=_name)],
        "state_changelog_topics": [topic.fields() for topic in sorted(changelogs, key=_name)],
    }


def _name(topic: InternalTopic) -> str:
    return topic.name


@dataclass(frozen=True)
class Topology:
    """A topology with its epoch. Two topologies are equal if their subtopologies are, in any order."""

    epoch: int
    subtopologies: dict[str, Subtopology]

    @classmethod
    def read(cls, entity: Entity) -> Topology:
        """The topology of a request or record."""
        return cls(entity.epoch, {part.subtopology_id: Subtopology.read(part) for part in entity.subtopologies})

    def fields(self) -> Fields:
        """The fields of a topology record."""
        return {"epoch": self.epoch, "subtopologies": [part.fields() for part in self.subtopologies.values()]}

    @cached_property
    def subtopology_by_input(self) -> dict[str, str]:
        """The id of the subtopology that reads a topic, by topic."""
        return {topic: part.subtopology_id for part in self.subtopologies.values() for topic in part.inputs}

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """The source topics, repartition source topics and changelog topics."""
        changelogs = {topic.name for part in self.subtopologies.values() for topic in part.changelog_topics}
        return frozenset(self.subtopology_by_input) | changelogs

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """All topics, with repartition sink topics, each once: those that a member needs the right to describe."""
        return tuple(
            dict.fromkeys(
                topic
                for part in self.subtopologies.values()
                for topic in (
                    *part.source_topics,
                    *part.repartition_sink_topics,
                    *(topic.name for topic in part.repartition_source_topics),
                    *(topic.name for topic in part.changelog_topics),
                )
            )
        )
