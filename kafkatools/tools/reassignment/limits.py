"""Set, change and remove the replication throttles of a supervised reassignment.

A throttle is written to the journal before it is set. If a broker is down, its rate cannot be removed and stays in the
journal for the next run. It has no effect meanwhile, because the topics' lists of throttled replicas are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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
    LEADER_RATE,
    LOG_DIR_RATE,
    PartitionMove,
    Throttles,
    brokers_of,
    find_throttles,
    throttled_replicas,
)
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.tools.reassignment.journal import Setting

_APPLIED_MS = 10_000  # how long a broker may take to apply a change


class RemovedThrottles(NamedTuple):
    """The result of removing throttles. `cleared`: the brokers and topics (`broker 1`). `foreign`: throttles that
    another user changed. `remaining`: throttles that could not be removed, with the reason."""

    cleared: tuple[str, ...]
    foreign: tuple[str, ...]
    remaining: Mapping[Setting, str]


def settings_of(
    moves: Mapping[TopicPartition, PartitionMove],
    rate: int,
    throttles: Throttles,
    log_dir_brokers: Collection[int] = (),
) -> tuple[Setting, ...]:
    """The configs that throttle these moves to `rate` bytes per second on each broker, and moves between log
    directories of `log_dir_brokers`. Each has its present value from `throttles`, None if it is unset."""
    settings = []
    for topic, values in sorted(throttled_replicas(moves).items()):
        lists = throttles.topics.get(topic, {})
        settings += [Setting(TOPIC, topic, name, lists.get(name), (value,)) for name, value in values.items()]
    for broker in brokers_of(moves):
        rates = throttles.brokers.get(broker, {})
        for name in (LEADER_RATE, FOLLOWER_RATE):
            settings.append(Setting(BROKER, str(broker), name, rates.get(name), (str(rate),)))
    for broker in sorted(log_dir_brokers):
        before = throttles.brokers.get(broker, {}).get(LOG_DIR_RATE)
        settings.append(Setting(BROKER, str(broker), LOG_DIR_RATE, before, (str(rate),)))
    return tuple(settings)


def adopt(
    settings: Collection[Setting], leftover: Collection[Setting], throttles: Throttles
) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    """Merge the throttles of an interrupted run into `settings`, without changing the cluster. A throttle that still
    has a value of that run keeps the value from before that run. Returns the merged throttles, and those of the
    interrupted run that these moves do not need."""
    old = {(setting.kind, setting.name, setting.setting): setting for setting in leftover}
    merged_settings = []
    for setting in settings:
        before = old.pop((setting.kind, setting.name, setting.setting), None)
        if before is not None and _value(throttles, setting) in before.values:
            remaining_values = tuple(value for value in before.values if value not in setting.values)
            setting = setting._replace(before=before.before, values=remaining_values + setting.values)
        merged_settings.append(setting)
    return tuple(merged_settings), tuple(old.values())


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
    for setting in settings:
        changes.setdefault(setting.resource, []).append(ConfigChange(setting.setting, setting.values[-1]))
    return {_label(key): error for key, error in _alter(admin, changes).items() if error is not None}


def wait_until_limited(admin: AdminClient, settings: Collection[Setting]) -> None:
    """Wait up to 10 s in all until the brokers have applied the last value of each throttle. What moves before is not
    throttled. Raises KafkaError."""
    _wait_until(admin, settings, lambda setting, value: value == setting.values[-1])


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
    reachable = [setting for setting in settings if setting.kind != BROKER or setting.name in live]
    remaining = {setting: "the broker is down" for setting in settings if setting not in reachable}
    topics = {setting.name for setting in reachable if setting.kind != BROKER}
    brokers = {int(setting.name) for setting in reachable if setting.kind == BROKER}
    throttles = find_throttles(admin, sorted(topics), sorted(brokers))
    deleted_topics = {name for name, error in throttles.errors.items() if isinstance(error, UnknownTopicOrPartition)}
    changes: dict[Resource, list[ConfigChange]] = {}
    foreign = []
    throttled_resources: set[Resource] = set()
    for setting in reachable:
        key = int(setting.name) if setting.kind == BROKER else setting.name
        if key in throttles.errors:
            if key not in deleted_topics:
                remaining[setting] = str(throttles.errors[key])
            continue
        value = _value(throttles, setting)
        before = setting.before if keep_before else None
        if value in setting.values:
            throttled_resources.add(setting.resource)
        elif value is not None and value != setting.before:
            foreign.append(f"{_label(setting.resource)} ({setting.setting})")
            continue
        elif value is None and setting.before is not None:
            continue  # another user has removed it
        name = setting.setting
        change = ConfigChange(name, None, DELETE) if before is None else ConfigChange(name, before)
        changes.setdefault(setting.resource, []).append(change)
    outcome = _alter(admin, changes)
    altered_resources = {key for key, error in outcome.items() if error is None}
    remaining.update(
        {setting: str(outcome[setting.resource]) for setting in reachable if outcome.get(setting.resource) is not None}
    )
    # a later run would take a stale throttle for another user's
    altered = [setting for setting in reachable if setting.resource in altered_resources]
    _wait_until(admin, altered, lambda setting, value: value not in set(setting.values) - {setting.before})
    cleared = tuple(_label(key) for key in outcome if key in altered_resources & throttled_resources)
    return RemovedThrottles(cleared, tuple(foreign), remaining)


def _wait_until(
    admin: AdminClient, settings: Collection[Setting], is_applied: Callable[[Setting, str | None], bool]
) -> None:
    """Wait up to 10 s in all until each broker has values of these settings that are as wanted."""
    deadline_ms = admin.deadline_ms(_APPLIED_MS)
    for broker in admin.brokers():
        broker_settings = [setting for setting in settings if setting.kind != BROKER or setting.name == str(broker)]
        attempts = 0
        while (
            broker_settings
            and not _has_applied(admin, broker, broker_settings, is_applied)
            and admin.wait_before_retry(attempts, deadline_ms)
        ):
            attempts += 1


def _has_applied(
    admin: AdminClient, broker: int, settings: Collection[Setting], is_applied: Callable[[Setting, str | None], bool]
) -> bool:
    """Ask a broker for these settings; return whether all that it shows are as wanted."""
    resources = list(dict.fromkeys(setting.resource for setting in settings))
    configs = describe_configs(admin, resources, names=sorted({setting.setting for setting in settings}), node=broker)
    values = {(key, entry.name): entry.value for key, config in configs.items() for entry in config.entries}
    return all(
        configs[setting.resource].error is not None
        or is_applied(setting, values.get((setting.resource, setting.setting)))
        for setting in settings
    )


def _value(throttles: Throttles, setting: Setting) -> str | None:
    values = (
        throttles.brokers.get(int(setting.name), {})
        if setting.kind == BROKER
        else throttles.topics.get(setting.name, {})
    )
    return values.get(setting.setting)


def _alter(admin: AdminClient, changes: Mapping[Resource, list[ConfigChange]]) -> dict[Resource, KafkaError | None]:
    return incremental_alter_configs(admin, changes) if changes else {}


def _label(resource: Resource) -> str:
    return f"{'broker' if resource[0] == BROKER else 'topic'} {resource[1]}"
