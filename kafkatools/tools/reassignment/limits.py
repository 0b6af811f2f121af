"""Set, change and remove the replication throttles of a supervised reassignment.

A throttle is written to the journal before it is set. If a broker is down, its rate cannot be removed and stays in the
journal for the next run. It has no effect meanwhile, because the topics' lists of throttled replicas are removed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import (
    BROKER,
    DELETE,
    TOPIC,
    ConfigChange,
    Resource,
    describe_configs,
    incremental_alter_configs,
)
from kafkatools.core.admin.reassignments import TopicPartition
from kafkatools.core.admin.replication_throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    PartitionMove,
    Throttles,
    brokers_of,
    find_throttles,
)
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.tools.reassignment.journal import Setting

_HEARD_MS = 10_000  # how long a broker may take to apply a change


class RemovedThrottles(NamedTuple):
    """The result of removing throttles. `cleared`: the brokers and topics (`broker 1`). `foreign`: throttles that
    another user changed. `remaining`: throttles that could not be removed, with the reason."""

    cleared: tuple[str, ...]
    foreign: tuple[str, ...]
    remaining: Mapping[Setting, str]


def settings_of(moves: Mapping[TopicPartition, PartitionMove], rate: int, found: Throttles) -> tuple[Setting, ...]:
    """The configs that throttle these moves to `rate` bytes per second on each broker. Each has its present value from
    `found`, None if it is unset."""
    lists: dict[str, tuple[set[str], set[str]]] = {}
    for (topic, partition), move in moves.items():
        leaders, followers = lists.setdefault(topic, (set(), set()))
        leaders.update(f"{partition}:{broker}" for broker in move.sources)
        followers.update(f"{partition}:{broker}" for broker in move.destinations)
    settings = []
    for topic, (leaders, followers) in sorted(lists.items()):
        before = found.topics.get(topic, {})
        for name, replicas in ((LEADER_REPLICAS, leaders), (FOLLOWER_REPLICAS, followers)):
            settings.append(Setting(TOPIC, topic, name, before.get(name), (",".join(sorted(replicas)),)))
    for broker in brokers_of(moves):
        rates = found.brokers.get(broker, {})
        for name in (LEADER_RATE, FOLLOWER_RATE):
            settings.append(Setting(BROKER, str(broker), name, rates.get(name), (str(rate),)))
    return tuple(settings)


def adopt(
    settings: Collection[Setting], leftover: Collection[Setting], found: Throttles
) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    """Merge the throttles of an interrupted run into `settings`, without changing the cluster. A throttle that still
    has a value of that run keeps the value from before that run. Returns the merged throttles, and those of the
    interrupted run that these moves do not need."""
    old = {(one.kind, one.name, one.setting): one for one in leftover}
    adopted = []
    for one in settings:
        before = old.pop((one.kind, one.name, one.setting), None)
        if before is not None and _value(found, one) in before.values:
            kept = tuple(value for value in before.values if value not in one.values)
            one = one._replace(before=before.before, values=kept + one.values)
        adopted.append(one)
    return tuple(adopted), tuple(old.values())


def with_rate(settings: Collection[Setting], rate: int) -> tuple[Setting, ...]:
    """A copy of the throttles in which brokers get a new rate in bytes per second, last among the values that this run
    may have set. Throttles of topics stay as they are."""
    text = str(rate)
    return tuple(
        setting._replace(values=(*(value for value in setting.values if value != text), text))
        if setting.kind == BROKER
        else setting
        for setting in settings
    )


def set_limits(admin: AdminClient, settings: Collection[Setting]) -> dict[str, KafkaError]:
    """Set each throttle to its last value. Returns the errors by broker or topic (`broker 1`, `topic orders`), empty on
    success."""
    changes: dict[Resource, list[ConfigChange]] = {}
    for one in settings:
        changes.setdefault((one.kind, one.name), []).append(ConfigChange(one.setting, one.values[-1]))
    return {_label(key): error for key, error in _alter(admin, changes).items() if error is not None}


def remove_throttles(
    admin: AdminClient, settings: Collection[Setting], *, keep_before: bool = True
) -> RemovedThrottles:
    """Restore the previous values of throttles that still have a value of this run, or unset them without
    `keep_before`. Waits up to 10 s until the brokers have applied this. Raises KafkaError.

    A broker reports configs that it has applied, which may be older. A throttle that shows as unset or unchanged may
    still be on its way, so it is restored too. A throttle that another user has changed or removed is kept. Throttles
    of brokers that are down, and those whose request failed, are returned in `remaining`; those of deleted topics are
    dropped.
    """
    live = {str(broker) for broker in admin.brokers()}
    reachable = [one for one in settings if one.kind != BROKER or one.name in live]
    left = {one: "the broker is down" for one in settings if one not in reachable}
    topics = {one.name for one in reachable if one.kind != BROKER}
    found = find_throttles(admin, sorted(topics), sorted({int(one.name) for one in reachable if one.kind == BROKER}))
    gone = {name for name, error in found.errors.items() if isinstance(error, UnknownTopicOrPartition)}
    changes: dict[Resource, list[ConfigChange]] = {}
    foreign = []
    seen: set[Resource] = set()
    for one in reachable:
        key = int(one.name) if one.kind == BROKER else one.name
        if key in found.errors:
            if key not in gone:
                left[one] = str(found.errors[key])
            continue
        value = _value(found, one)
        before = one.before if keep_before else None
        if value in one.values:
            seen.add((one.kind, one.name))
        elif value is not None and value != one.before:
            foreign.append(f"{_label((one.kind, one.name))} ({one.setting})")
            continue
        elif value is None and one.before is not None:
            continue  # another user has removed it
        change = ConfigChange(one.setting, None, DELETE) if before is None else ConfigChange(one.setting, before)
        changes.setdefault((one.kind, one.name), []).append(change)
    outcome = _alter(admin, changes)
    done = {key for key, error in outcome.items() if error is None}
    left.update(
        {one: str(outcome[one.kind, one.name]) for one in reachable if (one.kind, one.name) in outcome.keys() - done}
    )
    _wait_until_heard(admin, [one for one in reachable if (one.kind, one.name) in done])
    return RemovedThrottles(tuple(_label(key) for key in outcome if key in done & seen), tuple(foreign), left)


def _wait_until_heard(admin: AdminClient, settings: Collection[Setting]) -> None:
    """Wait up to 10 s in all until the brokers have applied the removal. A later run would take a stale throttle for
    another user's."""
    deadline_ms = admin.deadline_ms(_HEARD_MS)
    for broker in admin.brokers():
        own = [one for one in settings if one.kind != BROKER or one.name == str(broker)]
        attempts = 0
        while own and not _has_heard(admin, broker, own) and admin.wait_before_retry(attempts, deadline_ms):
            attempts += 1


def _has_heard(admin: AdminClient, broker: int, settings: Collection[Setting]) -> bool:
    resources = list(dict.fromkeys((one.kind, one.name) for one in settings))
    described = describe_configs(admin, resources, names=sorted({one.setting for one in settings}), node=broker)
    shown = {(key, entry.name): entry.value for key, found in described.items() for entry in found.entries}
    return all(shown.get(((one.kind, one.name), one.setting)) not in set(one.values) - {one.before} for one in settings)


def _value(found: Throttles, one: Setting) -> str | None:
    values = found.brokers.get(int(one.name), {}) if one.kind == BROKER else found.topics.get(one.name, {})
    return values.get(one.setting)


def _alter(admin: AdminClient, changes: Mapping[Resource, list[ConfigChange]]) -> dict[Resource, KafkaError | None]:
    return incremental_alter_configs(admin, changes) if changes else {}


def _label(resource: Resource) -> str:
    return f"{'broker' if resource[0] == BROKER else 'topic'} {resource[1]}"
