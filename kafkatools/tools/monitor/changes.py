"""Compare two snapshots of a cluster: rates per second and events. Pure functions of two views.

Rates are averages between the snapshots, computed from offsets and sizes. A decrease (retention, an offset reset)
counts as 0. A new or recreated topic has no rate yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkatools.core.admin.groups import STABLE, UNKNOWN
from kafkatools.tools.monitor.causes import KIND_CAUSES, Cluster, partition_change_cause
from kafkatools.tools.monitor.view import (
    EMPTY,
    NOT_REPORTED,
    BrokerView,
    ClusterView,
    Event,
    GroupView,
    PartitionView,
    TopicView,
    total,
)

_OFFSETS_TOPIC = "__consumer_offsets"

KINDS = {
    "broker-gone": "a broker is fenced, or is not registered any more",
    "broker-back": "a broker is registered and not fenced (again)",
    "broker-silent": "a broker does not respond",
    "broker-answers": "a broker responds again",
    "log-dir-offline": "a broker cannot use a log directory",
    "log-dir-back": "it can again",
    "controller-changed": "another controller is active, or none is known",
    "leader-changed": "a partition has another leader, or one again",
    "leader-lost": "a partition has no leader",
    "isr-shrank": "replicas left the ISR",
    "isr-grew": "replicas joined the ISR",
    "replicas-changed": "a partition has other replicas",
    "topic-created": "a topic is there",
    "topic-deleted": "a topic is gone",
    "group-empty": "a group has no members any more",
    "group-active": "a group has members again",
    "group-gone": "a group is gone",
    "alert-firing": "an alert fires",
    "alert-repeated": "an alert still fires",
    "alert-resolved": "the condition of an alert does not hold any more",
    "alert-unknown": "the figure of an alert is unknown",
    "webhook-failed": "a webhook does not accept alerts",
    "webhook-works": "it does again",
    "otlp-failed": "a collector does not accept metrics",
    "otlp-works": "it does again",
}
FAILED_KINDS = ("webhook-failed", "otlp-failed")
OUTGOING_KINDS = tuple(kind for kind in KINDS if kind.startswith(("alert-", "webhook-", "otlp-")))
"""The kinds that are no difference between two views, but of alerts and of the servers that get them."""


def with_rates(before: ClusterView, after: ClusterView) -> ClusterView:
    """Return the later view with rates since the earlier one; unchanged when no time has passed."""
    seconds = (after.clock_ms - before.clock_ms) / 1000
    if seconds <= 0:
        return after
    topics = {topic.name: topic for topic in before.topics}
    groups = {group.group_id: group for group in before.groups}
    return after._replace(
        topics=tuple(_topic_with_rates(topics.get(topic.name), topic, seconds) for topic in after.topics),
        groups=tuple(_group_with_rates(groups.get(group.group_id), group, seconds) for group in after.groups),
    )


def _topic_with_rates(before: TopicView | None, topic: TopicView, seconds: float) -> TopicView:
    if before is None or before.topic_id != topic.topic_id:
        return topic
    parts = {part.partition: part for part in before.partitions}
    pairs = [(parts[part.partition], part) for part in topic.partitions if part.partition in parts]
    messages = [_growth(old, part, old.end_offset, part.end_offset) for old, part in pairs]
    # Replicas differ in size, since each broker rolls and deletes segments on its own.
    sizes = [
        _growth(old, part, old.size_bytes if part.leader == old.leader else None, part.size_bytes)
        for old, part in pairs
    ]
    by_number = {part.partition: growth for (_, part), growth in zip(pairs, messages, strict=True)}
    growths = (by_number.get(part.partition) for part in topic.partitions)
    rates = tuple(None if growth is None else growth / seconds for growth in growths)
    return topic._replace(messages_in=_rate(messages, seconds), bytes_in=_rate(sizes, seconds), rates=rates)


def _growth(old: PartitionView, part: PartitionView, before: int | None, after: int | None) -> int | None:
    """Return a partition's growth between two snapshots: 0 without a leader, None when unknown."""
    if part.is_offline:
        return 0
    return None if before is None or after is None else max(0, after - before)


def _rate(growths: list[int | None], seconds: float) -> float | None:
    """Return the sum of growths per second. None when there are none, or any is unknown, since the sum would be too
    small."""
    growth = total(growths)
    return None if growth is None else growth / seconds


def _group_with_rates(before: GroupView | None, group: GroupView, seconds: float) -> GroupView:
    if before is None or before.partitions is None or group.partitions is None:
        return group
    committed = {(part.topic, part.partition): part.committed for part in before.partitions}
    rates: dict[str, float] = {}
    for part in group.partitions:
        old = committed.get((part.topic, part.partition))
        if old is not None:
            rates[part.topic] = rates.get(part.topic, 0) + max(0, part.committed - old) / seconds
    return group._replace(consumed=sum(rates.values()), consumed_by_topic=rates)


def events_between(before: ClusterView, after: ClusterView) -> list[Event]:
    """Return the events between two views, brokers first, since they cause most other events."""
    return [
        *_broker_events(before, after),
        *_controller_events(before, after),
        *_topic_events(before, after),
        *_group_events(before, after),
    ]


def _broker_events(before: ClusterView, after: ClusterView) -> Iterator[Event]:
    old = {broker.id: broker for broker in before.brokers}
    new = {broker.id: broker for broker in after.brokers}
    cluster = Cluster(after)
    for id in sorted(old.keys() | new.keys()):
        for kind, message in _broker_changes(id, old.get(id), new.get(id)):
            cause = cluster.trouble(id) or f"broker {id} is back"
            yield Event(after.time_ms, kind, message, broker=id, cause=cause)


def _broker_changes(id: int, old: BrokerView | None, new: BrokerView | None) -> Iterator[tuple[str, str]]:
    was_alive, is_alive = old is not None and old.is_alive, new is not None and new.is_alive
    if was_alive and not is_alive:
        yield "broker-gone", f"broker {id} is {'not registered any more' if new is None else 'fenced'}"
    if is_alive and not was_alive:
        yield "broker-back", f"broker {id} is {'registered' if old is None else 'back'}"
    if old is None or new is None:
        return
    if was_alive and is_alive and old.is_responding != new.is_responding:
        kind, words = (
            ("broker-answers", "responds again") if new.is_responding else ("broker-silent", "does not respond")
        )
        yield kind, f"broker {id} {words}"
    if old.log_dirs is not None and new.log_dirs is not None:
        for path in sorted(set(new.offline_log_dirs) - set(old.offline_log_dirs)):
            yield "log-dir-offline", f"broker {id} cannot use {path}"
        for path in sorted(set(old.offline_log_dirs) - set(new.offline_log_dirs)):
            yield "log-dir-back", f"broker {id} can use {path} again"


def _controller_events(before: ClusterView, after: ClusterView) -> Iterator[Event]:
    old, new = before.controller, after.controller
    if old != new and NOT_REPORTED not in (old, new):
        words = f"{new} is the active controller" if new >= 0 else "no active controller is known"
        message = f"{words}, it was {old}" if old >= 0 else words
        cause = Cluster(after).trouble(old) or "the active controller changed"
        yield Event(after.time_ms, "controller-changed", message, broker=new if new >= 0 else None, cause=cause)


def _topic_events(before: ClusterView, after: ClusterView) -> Iterator[Event]:
    if before.topics is after.topics:  # no broker described topics this time
        return
    old = {topic.name: topic for topic in before.topics}
    new = {topic.name: topic for topic in after.topics}
    recreated = {name for name in old.keys() & new.keys() if old[name].topic_id != new[name].topic_id}
    for name in sorted((old.keys() - new.keys()) | recreated):
        yield _plain_event(after, "topic-deleted", f"topic {name} is gone", topic=name)
    for name in sorted((new.keys() - old.keys()) | recreated):
        count = len(new[name].partitions)
        partitions = "1 partition" if count == 1 else f"{count} partitions"
        yield _plain_event(after, "topic-created", f"topic {name} is there with {partitions}", topic=name)
    causes = Cluster(before), Cluster(after)
    for key, part in after.by_partition.items():
        earlier = before.by_partition.get(key)
        if earlier is not None and part.topic not in recreated and earlier != part:
            for kind, message in _partition_changes(earlier, part):
                text = f"{part.topic}-{part.partition}: {message}"
                cause = partition_change_cause(*causes, earlier, part, kind)
                yield Event(after.time_ms, kind, text, topic=part.topic, partition=part.partition, cause=cause)


def _plain_event(
    after: ClusterView, kind: str, message: str, *, topic: str | None = None, group: str | None = None
) -> Event:
    return Event(after.time_ms, kind, message, topic=topic, group=group, cause=KIND_CAUSES[kind])


def _partition_changes(old: PartitionView, new: PartitionView) -> Iterator[tuple[str, str]]:
    if new.leader != old.leader:
        if new.is_offline:
            yield "leader-lost", f"no leader, it was {old.leader}"
        else:
            yield "leader-changed", f"leader {new.leader}, it was {old.leader if old.leader >= 0 else 'none'}"
    if new.replicas != old.replicas:
        yield "replicas-changed", f"replicas {_ids(new.replicas)}, they were {_ids(old.replicas)}"
    removed_ids, added_ids = set(old.isr) - set(new.isr), set(new.isr) - set(old.isr)
    if removed_ids:
        yield "isr-shrank", f"{_ids(sorted(removed_ids))} left the ISR, it is {_ids(new.isr)}"
    if added_ids:
        yield "isr-grew", f"{_ids(sorted(added_ids))} joined the ISR, it is {_ids(new.isr)}"


def _ids(brokers: tuple[int, ...] | list[int]) -> str:
    return ",".join(map(str, brokers)) or "empty"


def _group_events(before: ClusterView, after: ClusterView) -> Iterator[Event]:
    old = {group.group_id: group for group in before.groups}
    new = {group.group_id: group for group in after.groups}
    if _all_groups_reported(before, after):
        for name in sorted(old.keys() - new.keys()):
            yield _plain_event(after, "group-gone", f"group {name} is gone", group=name)
    for name in sorted(old.keys() & new.keys()):
        old_state, new_state = old[name].state, new[name].state
        if new_state == EMPTY and old_state not in (EMPTY, UNKNOWN):
            yield _plain_event(after, "group-empty", f"group {name} has no members any more", group=name)
        if old_state == EMPTY and new_state == STABLE:
            yield _plain_event(after, "group-active", f"group {name} has members again", group=name)


def _all_groups_reported(before: ClusterView, after: ClusterView) -> bool:
    """Return whether an unlisted group is certainly deleted: all coordinators responded and none has changed. A new
    coordinator lists a group only after loading it."""
    has_all_responses = not any(problem.what.startswith(("groups", "no response")) for problem in after.problems)
    alive = [{broker.id for broker in view.brokers if broker.is_alive} for view in (before, after)]
    coordinators = [
        [part.leader for key, part in view.by_partition.items() if key[0] == _OFFSETS_TOPIC] for view in (before, after)
    ]
    return has_all_responses and alive[0] <= alive[1] and coordinators[0] == coordinators[1]
