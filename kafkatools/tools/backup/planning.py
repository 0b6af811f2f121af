"""Decide from where each partition is read: behind the objects of an earlier run, or from the start in a new place.

Rules: earlier objects are continued only if they are a prefix of the partition's log. They are not when the topic has
another id, when the last leader epoch of the objects ends before them, or when the log is shorter; nor if an object is
missing or has another size. The tombstones of a compacted topic may be removed after delete.retention.ms: if the topic
was read longer ago, a key whose tombstone was never read would come back with a restore, so that such a topic is read
from the start.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.leaders import TopicPartition
from kafkatools.core.admin.offsets import EARLIEST, LATEST, PartitionOffset
from kafkatools.core.admin.topics import TopicDescription
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.cluster_state import TopicConfigs, epoch_ends, log_offsets, read_configs
from kafkatools.tools.backup.manifest import Manifest, PartitionBackup, TopicBackup
from kafkatools.tools.backup.partition_writer import adopt
from kafkatools.tools.backup.store import Store

_PLACE = "logs"


class PlannedRead(NamedTuple):
    """Offsets of a partition that are to be read, `end` excluded."""

    backup: PartitionBackup
    start: int
    end: int


class BackupPlan(NamedTuple):
    """The topics and offsets of a run. `notes`: lines about gaps, new places and partitions that cannot be read."""

    topics: dict[str, TopicBackup]
    reads: dict[TopicPartition, PlannedRead]
    notes: list[str]
    adopted_bytes: int


class Planner:
    """Plans a run. `known`: the topics of the last generation and of a run that was cut off after it. `is_followed`:
    raise CommandError instead of beginning a stored partition anew."""

    def __init__(
        self,
        admin: AdminClient,
        store: Store,
        known: Mapping[str, TopicBackup],
        now_ms: int,
        *,
        is_followed: bool = False,
    ) -> None:
        self._admin, self._store, self._known, self._now_ms = admin, store, known, now_ms
        self._is_followed = is_followed
        self._notes: list[str] = []
        self._adopted_bytes = 0
        self._places = _used_places(store)

    def plan(self, topics: Mapping[str, TopicDescription]) -> BackupPlan:
        """Look up configs and offsets, and decide. Raises KafkaError, CommandError."""
        configs = read_configs(self._admin, topics)
        parts = [(name, item.partition) for name, topic in topics.items() for item in topic.partitions]
        starts, ends = (log_offsets(self._admin, parts, which) for which in (EARLIEST, LATEST))
        earlier = {key: found for key in parts if (found := self._earlier(topics[key[0]], key[1], configs[key[0]]))}
        epochs = {key: found.objects[-1].leader_epochs[-1][0] for key, found in earlier.items() if _has_epoch(found)}
        last = epoch_ends(self._admin, epochs)
        planned: dict[str, TopicBackup] = {}
        reads: dict[TopicPartition, PlannedRead] = {}
        for name, topic in topics.items():
            planned[name] = _new_topic(topic, configs[name], self._now_ms)
            for item in topic.partitions:
                key = (name, item.partition)
                found = self._continued(key, earlier.get(key), ends[key], last.get(key))
                if found is not None:
                    planned[name].read_ms = self._known[name].read_ms
                read = self._read(key, found, starts[key], ends[key])
                planned[name].partitions.append(read.backup)
                if read.start < read.end:
                    reads[key] = read
        return BackupPlan(planned, reads, self._notes, self._adopted_bytes)

    def _earlier(self, topic: TopicDescription, number: int, configs: TopicConfigs) -> PartitionBackup | None:
        """Return the earlier backup of a partition, if the topic is the same and can be continued."""
        known = self._known.get(topic.name)
        if known is None or number >= len(known.partitions):
            return None
        if known.topic_id != topic.topic_id:
            if number == 0:
                self._notes.append(f"Topic {topic.name} was deleted and created again: it is backed up from its start")
            return None
        kept_ms = configs.number("delete.retention.ms")
        if configs.is_compacted and kept_ms is not None and self._now_ms - known.read_ms > kept_ms:
            if number == 0:
                self._notes.append(
                    f"Topic {topic.name} was read longer ago than delete.retention.ms ({kept_ms}): tombstones may have "
                    "been removed since, so that it is backed up from its start"
                )
            return None
        backup = known.partitions[number]
        directory = f"{backup.place}/{topic.name}-{number}"
        sizes = self._store.sizes(directory)
        damaged = next(
            (item for item in backup.objects if sizes.get(posixpath.basename(item.name)) != item.bytes), None
        )
        if damaged is not None:
            self._notes.append(
                f"{damaged.name} is missing or does not have its {damaged.bytes} bytes: {topic.name}-{number} is "
                "backed up from its start in a new place. kt backup verify names all damage"
            )
            return None
        self._adopted_bytes += adopt(self._store, directory, backup)
        return backup

    def _continued(
        self,
        key: TopicPartition,
        backup: PartitionBackup | None,
        end: PartitionOffset,
        last: tuple[int, int] | KafkaError | None,
    ) -> PartitionBackup | None:
        """Return the earlier backup unless the log was truncated below its end."""
        if backup is None or end.error is not None:
            return backup
        stop = truncated_at(backup, end.offset, last if isinstance(last, tuple) else None)
        if stop is None:
            return backup
        self._notes.append(
            f"{key[0]}-{key[1]} was truncated to offset {stop}, and the backup has it up to {backup.next_offset}: "
            "it is backed up from its start in a new place"
        )
        return None

    def _read(
        self, key: TopicPartition, backup: PartitionBackup | None, start: PartitionOffset, end: PartitionOffset
    ) -> PlannedRead:
        """Return the offsets to read, in a new place without an earlier backup. Notes a gap."""
        if backup is None:
            if self._is_followed:
                self._refuse_stored(key)
            backup = PartitionBackup(self._new_place(key), max(start.offset, 0), max(start.offset, 0))
        error = start.error or end.error
        if error is not None:
            backup.unread = str(error)
            self._notes.append(f"{key[0]}-{key[1]} was not read: {error}")
            return PlannedRead(backup, 0, 0)
        backup.unread = ""
        first = backup.next_offset
        if start.offset > first:
            note_gap(key, backup, first, min(start.offset, max(end.offset, first)), backup.open, self._notes)
            first = start.offset
        backup.end = max(backup.end, end.offset)
        return PlannedRead(backup, first, end.offset)

    def _refuse_stored(self, key: TopicPartition) -> None:
        """Raise CommandError if the partition has stored records: a migration counts them."""
        known = self._known.get(key[0])
        if known is not None and any(item.objects for item in known.partitions[key[1] : key[1] + 1]):
            raise CommandError(
                f"{key[0]}-{key[1]} cannot be continued: its topic was created again, its log was truncated or "
                "compacted since, or a stored object is lost (kt backup verify names it)",
                hint="Delete its target topic, and migrate it through another directory.",
            )

    def _new_place(self, key: TopicPartition) -> str:
        directory = f"{key[0]}-{key[1]}"
        number = 1
        while directory in self._places.get(_place(number), ()):
            number += 1
        return _place(number)


def truncated_at(backup: PartitionBackup, log_end: int, last_epoch: tuple[int, int] | None) -> int | None:
    """Return the offset to which a log was truncated below the end of its backup, None if it was not. `last_epoch`: the
    largest leader epoch up to that of the last batch that the log has, and its end offset; None or -1: unknown."""
    stop = log_end
    if last_epoch is not None and last_epoch[1] >= 0:
        stop = min(stop, last_epoch[1])
    return stop if backup.objects and stop < backup.next_offset else None


def note_gap(
    key: TopicPartition, backup: PartitionBackup, first: int, end: int, opened: Mapping[int, int], notes: list[str]
) -> None:
    """Remember offsets that were deleted before they were read; none are left out. `opened`: the first offsets of the
    transactions that were open before them."""
    if end <= first or (first, end) in backup.gaps:
        return
    backup.gaps.append((first, end))
    if backup.objects:
        line = f"{key[0]}-{key[1]}: offsets {first} to {end - 1} were deleted before they were backed up"
        if opened:
            line += f"; a restore leaves out transactions that were open before, from offset {min(opened.values())} on"
        notes.append(line)


def _place(number: int) -> str:
    return _PLACE if number == 1 else f"{_PLACE}-{number}"


def _used_places(store: Store) -> dict[str, set[str]]:
    """Return the partition directories of each place, `logs` first."""
    places = [name for name in store.directories() if name == _PLACE or name.startswith(f"{_PLACE}-")]
    return {place: set(store.directories(place)) for place in places}


def remove_unfinished(store: Store) -> None:
    """Remove what a killed run left of unfinished objects. The store must be locked. Raises CommandError."""
    store.remove_unfinished("")
    for place, directories in _used_places(store).items():
        for directory in directories:
            store.remove_unfinished(f"{place}/{directory}")


def _has_epoch(backup: PartitionBackup) -> bool:
    epochs = backup.objects[-1].leader_epochs if backup.objects else []
    return bool(epochs) and epochs[-1][0] >= 0


def _new_topic(topic: TopicDescription, configs: TopicConfigs, now_ms: int) -> TopicBackup:
    replication = len(topic.partitions[0].replicas) if topic.partitions else 1
    return TopicBackup(topic.topic_id, now_ms, replication, configs.own, configs.hidden, [])


def merged_topics(last: Manifest | None, progress: Manifest | None) -> dict[str, TopicBackup]:
    """Return the topics of the last generation, replaced by those of an unfinished run after it."""
    topics = dict(last.topics) if last is not None else {}
    if progress is not None and progress.generation == (last.generation if last is not None else 0) + 1:
        topics |= progress.topics
    return topics
