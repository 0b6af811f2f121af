"""Say what a change of a topic may destroy: records, access of producers, the partitions of keys.

Each rule compares effective values, since a change of an override may also widen what a default bounds. A value that is
unknown, because the override is removed and the broker's default applies, is taken as dangerous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkatools.tools.configs.changes import Difference, Value

_BOUNDS = {
    "retention.ms": "older records will be deleted",
    "retention.bytes": "the oldest records above this size of a partition will be deleted",
    "local.retention.ms": "older records will be deleted from the brokers' disks",
    "local.retention.bytes": "the oldest records above this size will be deleted from the brokers' disks",
}
_POLICY, _MIN_ISR, _UNCLEAN = "cleanup.policy", "min.insync.replicas", "unclean.leader.election.enable"


def config_dangers(
    differences: Iterable[Difference], values: Mapping[str, str | None], replication: int | None
) -> list[str]:
    """The dangers of changes of a topic's configs. `values`: all present values of the topic; empty for a new topic,
    which has no records to lose. `replication`: the smallest number of replicas of a partition, None if unknown."""
    new = {difference.name: difference.new for difference in differences}
    policies = _policies(new.get(_POLICY, values.get(_POLICY)))
    found = []
    for name, value in new.items():
        if name == _MIN_ISR:
            found += _min_isr(value, replication)
        elif not values:
            continue
        elif name == _POLICY:
            found += _policy(_policies(values.get(_POLICY)), value)
        elif name in _BOUNDS:
            if "delete" in policies and _is_tighter(values.get(name), value):
                found.append(f"{name}: {_BOUNDS[name]}" if value is not None else _unknown(name))
        elif name == _UNCLEAN and str(value).lower() == "true" and values.get(name) != "true":
            found.append(f"{name}: the election of a replica that is out of sync loses records")
    return found


def partition_danger(before: int, after: int) -> str:
    """The danger of more partitions."""
    return f"partitions cannot be removed again, and records of a key go to other partitions ({before} -> {after})"


def _unknown(name: str) -> str:
    return f"{name}: the default of the brokers applies, which may delete records"


def _policies(value: Value | None) -> set[str]:
    """The items of cleanup.policy; `delete` if the value is unknown."""
    return {"delete"} if value is None else {item.strip() for item in str(value).split(",") if item.strip()}


def _policy(before: set[str], value: Value | None) -> list[str]:
    if value is None:
        return [_unknown(_POLICY)]
    added = _policies(value) - before
    found = []
    if "compact" in added:
        found.append(f"{_POLICY}: only the newest record of each key will be kept")
    if "delete" in added:
        found.append(f"{_POLICY}: records beyond retention.ms and retention.bytes will be deleted")
    return found or [f"{_POLICY}: records are kept by other rules"]


def _is_tighter(before: str | None, after: Value | None) -> bool:
    """Return whether a bound becomes smaller; negative numbers are no bound. True if a number is unknown."""
    try:
        old, new = int(str(before)), int(str(after))
    except ValueError:
        return True
    return new >= 0 and (old < 0 or new < old)


def _min_isr(value: Value | None, replication: int | None) -> list[str]:
    try:
        least = int(str(value))
    except ValueError:
        return []
    if replication is None or least <= replication:
        return []
    return [f"{_MIN_ISR} {least} is above {replication} replicas: producers with acks=all will be refused"]
