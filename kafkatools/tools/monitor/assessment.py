"""Assess a view for an operator: topic health, notes on partitions, when groups catch up."""

from __future__ import annotations

from enum import IntEnum, unique

from kafkatools.tools.monitor.figures import ids
from kafkatools.tools.monitor.view import ClusterView, GroupView, PartitionView, TopicView, total


@unique
class Health(IntEnum):
    """The health of a topic, worst first."""

    BROKEN = 0
    DEGRADED = 1
    GOOD = 2


def health_of(topic: TopicView) -> Health:
    """Return BROKEN when a partition rejects acks=all writes, DEGRADED when one is under-replicated, else GOOD."""
    if any(part.is_offline or part.is_under_min_isr for part in topic.partitions):
        return Health.BROKEN
    return Health.DEGRADED if any(part.is_under_replicated for part in topic.partitions) else Health.GOOD


def ordered_topics(view: ClusterView) -> list[TopicView]:
    """Return unhealthy topics first, then user topics before internal ones, the busiest and largest first."""
    return sorted(
        view.topics,
        key=lambda topic: (
            health_of(topic),
            topic.is_internal,
            -(topic.messages_in or 0),
            -(topic.size_bytes or 0),
            topic.name,
        ),
    )


def partition_notes(part: PartitionView) -> list[str]:
    """Return notes on a partition's faults and moves, worst first."""
    notes = []
    if part.is_offline:
        notes.append("offline")
    if part.is_under_min_isr:
        notes.append("under min ISR")
    if part.is_under_replicated:
        notes.append("under-replicated")
    if part.adding_replicas or part.removing_replicas:
        gets, loses = ids(part.adding_replicas), ids(part.removing_replicas)
        notes.append("moving" + (f" to {gets}" if gets else "") + (f" from {loses}" if loses else ""))
    if not part.is_offline and not part.is_preferred:
        notes.append(f"preferred leader {part.preferred_leader}")
    return notes


def is_in_trouble(part: PartitionView) -> bool:
    """Return whether a partition is offline, under-replicated, under its min ISR or getting new replicas."""
    return part.is_offline or part.is_under_min_isr or part.is_under_replicated or bool(part.adding_replicas)


def catches_up_s(view: ClusterView, group: GroupView) -> float | None:
    """Return the seconds until a group has no lag at current rates. None without lag, if lag, consumption or the rate
    of a topic is unknown, or if the lag does not shrink."""
    if not group.lag or not group.consumed:
        return None
    produced = total(view.produced.get(topic) for topic in group.consumed_by_topic or {})
    return group.lag / (group.consumed - produced) if produced is not None and produced < group.consumed else None
