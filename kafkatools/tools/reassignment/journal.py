"""The journal of a supervised reassignment: its throttles, so that the next run can remove them if this run is killed.

Each cluster has one file, `reassignments/CLUSTER-ID.json` in kt's home, and a lock beside it: one run at a time. Every
config value is written to the journal before it is sent to the cluster. Any other value was set by another user and is
kept.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from kafkatools.core import atomic_file
from kafkatools.core.admin.reassignments import Replica
from kafkatools.exit_status import CommandError

TopicPartition = tuple[str, int]
_VERSION = 1


class Setting(NamedTuple):
    """A throttle config of a broker or topic (`kind`: ConfigResource type). `before`: its previous value, None if it
    was unset. `values`: those that this run may have set, the current one last."""

    kind: int
    name: str
    setting: str
    before: str | None
    values: tuple[str, ...]

    @property
    def resource(self) -> tuple[int, str]:
        """The config resource: (`kind`, `name`)."""
        return self.kind, self.name


class Record(NamedTuple):
    """The content of a journal: the throttles of a run, the replicas of its partitions before and after, and the
    log directories before."""

    settings: tuple[Setting, ...]
    replicas: Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]
    log_dirs: Mapping[Replica, str] = MappingProxyType({})


class Journal:
    """The journal of a cluster, locked until `close`. `leftover` is the record of an interrupted run, None without one.
    Raises CommandError if another run holds the lock or the file cannot be decoded, OSError if it cannot be opened."""

    def __init__(self, home: str, cluster_id: str | None) -> None:
        directory = os.path.join(home, "reassignments")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._cluster_id = cluster_id or ""
        self._path = os.path.join(directory, f"{quote(self._cluster_id, safe='') or 'unnamed'}.json")
        self._lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise CommandError(
                "Another kt reassign-partitions run on this machine is already working on this cluster"
            ) from None
        self.leftover = self._read()

    def write(self, record: Record) -> None:
        """Replace the journal's record durably. Raises OSError."""
        atomic_file.replace_durably(self._path, json.dumps(self._fields(record)).encode())

    def remove(self) -> None:
        """Delete the journal file, if it exists."""
        if os.path.lexists(self._path):
            os.unlink(self._path)

    def save_remaining(self, record: Record, remaining: tuple[Setting, ...]) -> bool:
        """Write the `remaining` throttles, for the next run to remove, or delete the file if there are none. Returns
        True if there are none."""
        if remaining:
            self.write(record._replace(settings=remaining))
        else:
            self.remove()
        return not remaining

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def _fields(self, record: Record) -> dict[str, object]:
        replicas = [
            {"topic": topic, "partition": number, "before": list(before), "after": list(after)}
            for (topic, number), (before, after) in record.replicas.items()
        ]
        settings = [setting._asdict() for setting in record.settings]
        about = {"version": _VERSION, "cluster_id": self._cluster_id, "pid": os.getpid()}
        log_dirs = [{**replica._asdict(), "path": path} for replica, path in record.log_dirs.items()]
        fields: dict[str, object] = {**about, "settings": settings, "replicas": replicas}
        return fields | ({"log_dirs": log_dirs} if log_dirs else {})

    def _read(self) -> Record | None:
        try:
            with open(self._path, encoding="utf-8") as file:
                return _record(json.load(file))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(
                f"{self._path}, the record of an interrupted run, is damaged ({error!r}): its throttles are unknown",
                hint="Look for *.replication.throttled.* with kt configs --describe (brokers and topics), delete those "
                f"that should not stay, then remove {self._path}.",
            ) from None


def _record(fields: Any) -> Record:
    if fields["version"] != _VERSION:
        raise ValueError(f"version {fields['version']}")
    settings = tuple(
        Setting(int(row["kind"]), str(row["name"]), str(row["setting"]), row["before"], tuple(row["values"]))
        for row in fields["settings"]
    )
    replicas = {
        (str(row["topic"]), int(row["partition"])): (tuple(map(int, row["before"])), tuple(map(int, row["after"])))
        for row in fields["replicas"]
    }
    log_dirs = {
        Replica(str(row["topic"]), int(row["partition"]), int(row["broker"])): str(row["path"])
        for row in fields.get("log_dirs", ())
    }
    return Record(settings, replicas, log_dirs)
