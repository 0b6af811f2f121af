"""Follow a cluster: store what is new and write it to another cluster, round by round, until a cut.

Rules: a round stores records as kt backup does, and writes those of decided transactions: each partition up to its
first open transaction. After a restart the number of records in the target says where each partition stands, and the
stored batches before it are counted again. So retention of the source cannot remove what was not written yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.errors import KafkaError
from kafkatools.core.producer.batch_producer import BatchProducer
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.abandoned import forget_mixed, remove_empty
from kafkatools.tools.backup.backup_run import BackupResult, BackupRun
from kafkatools.tools.backup.cluster_state import StateNotes
from kafkatools.tools.backup.cuts import ensure_not_cut
from kafkatools.tools.backup.manifest import Manifest, PartitionBackup
from kafkatools.tools.backup.offset_runs import OffsetRuns
from kafkatools.tools.backup.partition_restore import object_batches
from kafkatools.tools.backup.restore_run import Batches, BatchWriter
from kafkatools.tools.backup.restored_batches import Selection
from kafkatools.tools.backup.store import Store
from kafkatools.tools.backup.targets import Target, create_missing, find_targets

_NO_GENERATION = 0


class FollowedPartition:
    """A partition on its way: the next source offset, and the number of records in the target since `target_start`.
    `present`: the records that were there at the start of this process."""

    def __init__(self, store: Store, backup: PartitionBackup, target_start: int, present: int) -> None:
        self._store = store
        self._place = backup.place
        self._target_start, self._present = target_start, present
        self.position = backup.start
        self.records = 0
        self.written = 0
        self.runs = OffsetRuns(target_start)

    def batches(self, backup: PartitionBackup) -> Batches:
        """Yield the batches that the target lacks, each with its expected offset. Raises CommandError for damage and
        for a partition that was begun anew in the source."""
        if backup.place != self._place:
            raise CommandError(
                f"The source began {backup.place} anew: its topic was created again or its log was truncated",
                hint="Delete the target topic and the directory, and migrate again.",
            )
        read_end = backup.next_offset if backup.unread else max(backup.next_offset, backup.end)
        end = min(backup.open.values(), default=read_end)
        objects = [item for item in backup.objects if item.next_offset > self.position]
        aborted = backup.undecided + [transaction for item in objects for transaction in item.aborted]
        selection = Selection(max(self.position, backup.start), end, aborted)
        for item in objects:
            if item.base_offset >= end:
                break
            for batch in object_batches(self._store, item, selection):
                before = self.records
                self.records += batch.record_count
                self.runs.add(batch, self._target_start + before)
                if self.records > self._present:
                    missing = batch if before >= self._present else batch.without(self._present - before)
                    self.written += missing.record_count
                    yield self._target_start + max(before, self._present), missing
        self.position = max(self.position, end)
        if self.records < self._present:
            raise CommandError(
                f"The target has {self._present} records, and {self.records} were stored: somebody else wrote to it",
                hint="Delete the target topic and migrate again.",
            )


class Waiting(NamedTuple):
    """A partition that waits at the first record of an open transaction."""

    partition: TopicPartition
    offset: int
    producer_id: int


class Round(NamedTuple):
    """The outcome of a round. `lag`: offsets of the source that are not in the target yet, without those of the
    `unread` partitions. `notes`: lines about what is missing. `waiting`: partitions that wait for an open
    transaction."""

    number: int
    stored_bytes: int
    records: int
    lag: int
    notes: Sequence[str]
    waiting: Sequence[Waiting] = ()
    unread: Sequence[TopicPartition] = ()


class Migration:
    """A migration. `new_backup`: makes the run that stores a round; `names_for`: target names by source name."""

    def __init__(
        self,
        store: Store,
        target: AdminClient,
        new_backup: Callable[[], BackupRun],
        names_for: Callable[[Manifest], dict[str, str]],
        note: Callable[[str], None],
    ) -> None:
        self.store, self._target = store, target
        self._new_backup, self._names_for, self._note = new_backup, names_for, note
        self._parts: dict[TopicPartition, FollowedPartition] = {}
        self._writer = BatchWriter()
        self._backup: BackupRun | None = None
        self._rounds = 0
        self._prepared: list[Target] = []
        self.targets: dict[str, Target] = {}
        self.names: dict[str, str] = {}

    def round(self, producer: BatchProducer) -> Round:
        """Store and write what is new. Raises CommandError, KafkaError; the next run goes on."""
        self._rounds += 1
        self._backup = self._new_backup()
        result = self._backup.read()
        manifest = result.manifest
        self.names = self._names_for(manifest)
        try:
            self._prepare(manifest)
            return self._write(producer, result)
        except (CommandError, KafkaError):
            forget_mixed(self._target, self.targets.values(), self._writer.mixed_topics)
            remove_empty(self._target, self._prepared, self._note)
            raise

    def _write(self, producer: BatchProducer, result: BackupResult) -> Round:
        manifest = result.manifest
        sources: dict[TopicPartition, Batches] = {}
        before = sum(part.written for part in self._parts.values())
        for key, backup in self._backups(manifest).items():
            sources[TopicPartition(self.names[key.topic], key.partition)] = self._parts[key].batches(backup)
        self._writer.write(producer, sources)
        lag = sum(max(0, item.end - self._parts[key].position) for key, item in self._backups(manifest).items())
        records = sum(part.written for part in self._parts.values()) - before
        waiting = self._waiting(manifest)
        return Round(self._rounds, result.written_bytes, records, lag, result.notes, waiting, result.failed)

    def _waiting(self, manifest: Manifest) -> list[Waiting]:
        found = []
        for key, backup in self._backups(manifest).items():
            if backup.open:
                producer_id = min(backup.open, key=backup.open.__getitem__)
                found.append(Waiting(key, backup.open[producer_id], producer_id))
        return found

    def _backups(self, manifest: Manifest) -> dict[TopicPartition, PartitionBackup]:
        return {
            TopicPartition(topic, number): backup
            for topic, number, backup in manifest.partitions()
            if topic in self.names
        }

    def _prepare(self, manifest: Manifest) -> None:
        """Create or check the targets of topics that were not there before."""
        new = {source: name for source, name in self.names.items() if source not in self.targets}
        if new:
            ensure_not_cut(self.store, self._target, new.values())
        for target in find_targets(self._target, manifest, new, None, _NO_GENERATION) if new else ():
            self._prepared.append(target)
            create_missing(self._target, [target], None, self._note)
            self.targets[target.source] = target
            for number, backup in enumerate(target.backup.partitions):
                start = target.starts[number]
                part = FollowedPartition(self.store, backup, start, target.ends[number] - start)
                self._parts[TopicPartition(target.source, number)] = part
        for source, target in self.targets.items():
            topic = manifest.topics.get(source)
            if topic is not None and len(topic.partitions) != len(target.backup.partitions):
                raise CommandError(
                    f"Topic {source} has {len(topic.partitions)} partitions now, and its target has "
                    f"{len(target.backup.partitions)}",
                    hint="Add the partitions to the target topic and run the same command again.",
                )

    def finish(self) -> tuple[Manifest, StateNotes]:
        """Write the generation of the last round, with the offsets of groups as they are now. Also returns lines about
        groups that could not be read. Raises KafkaError."""
        if self._backup is None:
            raise CommandError("Nothing was migrated yet")
        groups = self._backup.finish()
        return self._backup.result.manifest, groups

    def target_offset(self, key: TopicPartition, offset: int) -> int | None:
        """Return the target offset of a source offset, None for a partition that was not migrated."""
        return self._parts[key].runs.target_of(offset) if key in self._parts else None
