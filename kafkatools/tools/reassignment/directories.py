"""The log directories of a plan compared with those of the brokers, before a supervised reassignment begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.log_dirs import describe_log_dirs
from kafkatools.core.admin.reassignments import Replica
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.listings import WAIT_HINT
from kafkatools.tools.reassignment.plan_file import Plan


class Directories(NamedTuple):
    """The log directory of each replica, and of replicas that are being moved the one to which they move."""

    current: Mapping[Replica, str]
    future: Mapping[Replica, str]


NO_DIRECTORIES = Directories({}, {})


def read_directories(admin: AdminClient, plan: Plan, live: Collection[int], holders: Collection[int]) -> Directories:
    """Read the log directories of the live brokers of `holders` and of the plan.

    Raises CommandError if the plan names a broker that is down or does not report its directories, a path that is not
    an online log directory of its broker, or a replica that is on its way to another directory. Raises KafkaError.
    """
    named = {replica.broker for replica in plan.log_dirs}
    absent = sorted(named - set(live))
    if absent:
        raise CommandError(
            f"Broker {', '.join(map(str, absent))} is down, so the log directories of its replicas cannot be chosen",
            hint="Start it, or replace its log_dirs in the plan by any.",
        )
    current: dict[Replica, str] = {}
    future: dict[Replica, str] = {}
    online: dict[int, list[str]] = {}
    for broker, log_dirs in describe_log_dirs(admin, sorted(named | (set(live) & set(holders)))).items():
        if isinstance(log_dirs, KafkaError):
            if broker in named:
                raise CommandError(f"Broker {broker} did not report its log directories: {log_dirs}")
            continue
        online[broker] = [log_dir.path for log_dir in log_dirs if log_dir.error is None]
        for log_dir in log_dirs:
            for info in log_dir.replicas:
                places = future if info.is_future else current
                places[Replica(info.topic, info.partition, broker)] = log_dir.path
    for replica, path in plan.log_dirs.items():
        if path not in online[replica.broker]:
            raise CommandError(
                f"Broker {replica.broker} has no online log directory {path}, where the plan puts {replica.topic}-"
                f"{replica.partition}; it has {', '.join(sorted(online[replica.broker]))}"
            )
        if future.get(replica, path) != path:
            raise CommandError(
                f"{replica.topic}-{replica.partition} on broker {replica.broker} is being moved to {future[replica]}, "
                f"not to {path}",
                hint=WAIT_HINT,
            )
    return Directories(current, future)


def directories_to_change(plan: Plan, directories: Directories) -> dict[tuple[str, int], dict[int, str]]:
    """Return the target directories by partition and broker, without those of replicas that are there already."""
    targets: dict[tuple[str, int], dict[int, str]] = {}
    for replica, path in plan.log_dirs.items():
        if directories.current.get(replica) != path or replica in directories.future:
            targets.setdefault((replica.topic, replica.partition), {})[replica.broker] = path
    return targets
