"""Model: the data of the tables: the latest snapshot, the one before it, and the details of the open place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

from kafkatools.core.admin.groups import GroupDescription
from kafkatools.tools.monitor.view import ClusterView, Event, GroupView, PartitionView, TopicPartition, TopicView


class BrokerFigures(NamedTuple):
    """Figures of a broker over the partitions in view: the numbers of partitions that it leads, of its replicas,
    and of those in the ISR.
    `messages_in`: records per second that the partitions it leads get, None before the second snapshot or if unknown;
    `has_unknown_ends`: the end of a partition that it leads is unknown."""

    leaders: int = 0
    replicas: int = 0
    in_sync: int = 0
    messages_in: float | None = None
    has_unknown_ends: bool = False


class Lag(NamedTuple):
    """The lag of a group: whether it is completely known, and its known part."""

    is_known: bool
    least: int


class Details(NamedTuple):
    """Data of the open place only. `group`: the description of a group, perhaps with an error. `starts`: log
    start offsets of a topic's partitions; partitions that did not report one are missing. `error`: the reason if
    nothing was read."""

    group: GroupDescription | None = None
    starts: Mapping[TopicPartition, int] = {}
    error: str | None = None


@dataclass(frozen=True)
class Model:
    """One state of the screen. `before`: the previous snapshot without its groups, None in the first. `error`: the
    reason if the latest refresh failed. `events`: the newest first. `details`: None until they are read."""

    view: ClusterView
    before: ClusterView | None = None
    events: tuple[Event, ...] = ()
    error: str | None = None
    details: Details | None = None
    addresses: tuple[str, ...] = ()

    def prepare(self) -> Model:
        """Compute the figures of several tables, so that the application's thread does not have to; return self."""
        _ = self.view.totals, self.figures, self.lags, self.topic_lags
        return self

    def with_details(self, details: Details) -> Model:
        """Return the same snapshots with the details of the open place, and with all computed figures."""
        model = replace(self, details=details)
        model.__dict__.update({name: value for name, value in self.__dict__.items() if name not in _FIELDS})
        return model

    @cached_property
    def topics(self) -> dict[str, TopicView]:
        """The topics by name."""
        return {topic.name: topic for topic in self.view.topics}

    @cached_property
    def groups(self) -> dict[str, GroupView]:
        """The groups by id."""
        return {group.group_id: group for group in self.view.groups}

    @cached_property
    def lags(self) -> dict[str, Lag]:
        """The lag of each group."""
        return {group.group_id: Lag(group.is_lag_known, group.least_lag) for group in self.view.groups}

    @cached_property
    def topic_lags(self) -> list[tuple[GroupView, str, int | None]]:
        """The lag of each group in each topic, None if it is partly unknown."""
        return [(group, topic, lag) for group in self.view.groups for topic, lag in group.lag_by_topic().items()]

    @cached_property
    def _recreated(self) -> frozenset[str]:
        before = {} if self.before is None else {topic.name: topic.topic_id for topic in self.before.topics}
        return frozenset(
            topic.name for topic in self.view.topics if before.get(topic.name, topic.topic_id) != topic.topic_id
        )

    def messages_in(self, part: PartitionView) -> float | None:
        """Return the records per second that a partition got between the two snapshots. None before the second one,
        without a leader, or when an end offset is unknown."""
        if self.before is None or part.end_offset is None or part.topic in self._recreated:
            return None
        seconds = (self.view.clock_ms - self.before.clock_ms) / 1000
        old = self.before.by_partition.get((part.topic, part.partition))
        if old is None or old.end_offset is None or seconds <= 0:
            return None
        return max(0, part.end_offset - old.end_offset) / seconds

    @cached_property
    def figures(self) -> dict[int, BrokerFigures]:
        """The figures of each registered broker."""
        leaders = Counter(part.leader for part in self.view.partitions)
        replicas = Counter(broker for part in self.view.partitions for broker in part.replicas)
        in_sync = Counter(broker for part in self.view.partitions for broker in part.isr)
        rates = dict.fromkeys(leaders, 0.0)
        unknown, without_rate = set(), set()
        for part in self.view.partitions:
            messages = self.messages_in(part)
            if messages is None:
                without_rate.add(part.leader)
            else:
                rates[part.leader] += messages
            if part.end_offset is None:
                unknown.add(part.leader)
        return {
            id: BrokerFigures(
                leaders[id],
                replicas[id],
                in_sync[id],
                None if self.before is None or id in without_rate else rates.get(id, 0.0),
                id in unknown,
            )
            for id in (broker.id for broker in self.view.brokers)
        }


_FIELDS = frozenset(field.name for field in fields(Model))
