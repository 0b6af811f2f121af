"""One run of a backup: plan, read the batches of many partitions, write objects, and write the manifest last.

Rules: a limited number of partitions is read at the same time, so that memory and open files are bounded. Every half
minute `progress.json` lists the objects so far. A partition that cannot be read further is named and keeps what was
read; the others go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.offsets import EARLIEST, LATEST
from kafkatools.core.admin.topics import TopicDescription
from kafkatools.core.clock import Clock
from kafkatools.core.consumer.batch_reader import BatchReader
from kafkatools.core.consumer.errors import FetchFailed, FetchOffsetOutOfRange
from kafkatools.core.consumer.fetcher import FetchedBatches
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import RequestTimedOut, TopicAuthorizationFailed
from kafkatools.core.protocol.uuids import uuid_from_text
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.batch_scan import BatchDamage
from kafkatools.tools.backup.cluster_state import StateNotes, log_offsets, read_access, read_groups, requested_topics
from kafkatools.tools.backup.deleted_topics import DeletedTopics
from kafkatools.tools.backup.generations import last_manifest, read_progress
from kafkatools.tools.backup.manifest import (
    PROGRESS,
    Manifest,
    TopicBackup,
    encode_manifest,
    manifest_name,
)
from kafkatools.tools.backup.partition_writer import Finisher, PartitionWriter
from kafkatools.tools.backup.planning import (
    BackupPlan,
    PlannedRead,
    Planner,
    merged_topics,
    note_gap,
    remove_unfinished,
)
from kafkatools.tools.backup.store import Store
from kafkatools.tools.rights import ensure_topic_rights

_POLL_MS = 500
_CHECKPOINT_MS = 30_000
_LOCAL_PARTITIONS, _REMOTE_PARTITIONS = 64, 8
"""Number of partitions that are read at the same time: each has an open file, or an object in memory."""
LOCAL_OBJECT_BYTES, REMOTE_OBJECT_BYTES = 128 << 20, 32 << 20
_DELETED = "the topic no longer exists"
_CREATED_AGAIN = "the topic was deleted and created again during the backup"
_KEPT = "What was read is kept; run the same command again"


class BackupOptions(NamedTuple):
    """`topics`: names, none: as `requested_topics`. `object_bytes`: the size from which an object is complete; None
    for the default of the storage. `is_followed`: raise CommandError instead of beginning a stored partition anew."""

    topics: Collection[str] = ()
    object_bytes: int | None = None
    is_followed: bool = False


@dataclass
class BackupResult:
    """The outcome of a run: the manifest, the bytes that were read, the bytes of adopted objects, and lines about
    missing and deleted records. `failed`: the partitions that were not read to their end; `unread`: which groups, ACLs
    or quotas could not be read."""

    manifest: Manifest
    written_bytes: int = 0
    adopted_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    failed: list[TopicPartition] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


class BackupRun:
    """A run. `reader`: makes the consumer; `cluster_id`: that of the cluster of `admin`."""

    def __init__(
        self,
        store: Store,
        admin: AdminClient,
        cluster_id: str,
        reader: Callable[[], BatchReader],
        options: BackupOptions,
    ) -> None:
        self._store, self._admin, self._cluster_id = store, admin, cluster_id
        self._make_reader = reader
        self._options = options
        self._clock: Clock = admin.clock
        self._writers: dict[TopicPartition, PartitionWriter] = {}
        self._ended: list[PartitionWriter] = []
        self._reads: dict[TopicPartition, PlannedRead] = {}
        self._ids: dict[str, str | None] = {}
        self._deleted = DeletedTopics(admin)
        self._checkpoint_ms = 0
        self._finished_bytes = 0
        self.total_bytes: int | None = None
        self.result = BackupResult(Manifest(1, cluster_id, 0))

    @property
    def written_bytes(self) -> int:
        """The bytes that this run has written so far."""
        return self._finished_bytes + sum(writer.written_bytes for writer in list(self._writers.values()))

    def run(self) -> BackupResult:
        """Make a new generation. Raises KafkaError, CommandError."""
        with self._store.lock():
            result = self.read()
            self.finish()
            return result

    def finish(self) -> StateNotes:
        """Read groups and access rights, and write the manifest. Returns lines about groups that are missing in it. The
        store must be locked. Raises KafkaError, CommandError."""
        manifest = self.result.manifest
        groups = read_groups(self._admin, manifest, self._clock.wall_ms())
        for state in (groups, read_access(self._admin, manifest)):
            self.result.notes += state.lines
            self.result.unread += state.unread
        self._store.put(manifest_name(manifest.generation), encode_manifest(manifest))
        self._store.remove(PROGRESS)
        return groups

    def read(self) -> BackupResult:
        """Store the records that are new, and note them in `progress.json`. The store must be locked. Raises
        KafkaError, CommandError."""
        remove_unfinished(self._store)
        plan, described = self._plan()
        if plan.reads:
            self._save_progress()
            self._read_all(plan, described)
        self._note_read(plan)
        self._save_progress()
        self.result.written_bytes = self.written_bytes
        return self.result

    def _note_read(self, plan: BackupPlan) -> None:
        """Set the time of reading of topics whose partitions were all read to their ends. The others keep the earlier
        time: their logs may have tombstones since then that no run has read."""
        failed = {part.topic for part in self.result.failed}
        for name, topic in plan.topics.items():
            if name not in failed:
                topic.read_ms = self.result.manifest.created_ms

    def planned(self) -> BackupResult:
        """Return the result as it is before anything is read: partitions have the `end` to which they would be read.
        Writes nothing. Raises KafkaError, CommandError."""
        self._plan()
        return self.result

    def _plan(self) -> tuple[BackupPlan, dict[str, TopicDescription]]:
        """Plan the run and begin its result. Returns the plan and the topics. Raises KafkaError, CommandError."""
        now_ms = self._clock.wall_ms()
        last = last_manifest(self._store)
        progress = read_progress(self._store)
        for earlier in (last, progress):
            if earlier is not None and earlier.cluster_id != self._cluster_id:
                raise CommandError(
                    f"{self._store.url} is a backup of the cluster {earlier.cluster_id}, and this one is "
                    f"{self._cluster_id}",
                    hint="Give each cluster a directory of its own.",
                )
        generation = 1 if last is None else last.generation + 1
        known = merged_topics(last, progress)
        notes: list[str] = []
        described = requested_topics(self._admin, self._options.topics, notes)
        planner = Planner(self._admin, self._store, known, now_ms, is_followed=self._options.is_followed)
        plan = planner.plan(described)
        manifest = Manifest(generation, self._cluster_id, now_ms)
        manifest.topics = dict(sorted({**self._kept(known, plan), **plan.topics}.items()))
        self.result = BackupResult(manifest, adopted_bytes=plan.adopted_bytes, notes=notes + plan.notes)
        self.result.failed += _unread(plan)
        self._ids = {name: topic.topic_id for name, topic in described.items()}
        return plan, described

    def _kept(self, known: dict[str, TopicBackup], plan: BackupPlan) -> dict[str, TopicBackup]:
        """Return the earlier topics that were not requested; without names, those that no longer exist are dropped."""
        others = {name: topic for name, topic in known.items() if name not in plan.topics}
        if self._options.topics:
            return others
        plan.notes.extend(f"Topic {name} no longer exists: only earlier generations have it" for name in others)
        return {}

    def _save_progress(self) -> None:
        self._list_finished()
        self._store.put(PROGRESS, encode_manifest(self.result.manifest))
        self._checkpoint_ms = self._clock.now_ms()

    def _list_finished(self) -> None:
        for writer in [*self._ended, *self._writers.values()]:
            writer.list_finished()

    # -- reading --

    def _read_all(self, plan: BackupPlan, described: dict[str, TopicDescription]) -> None:
        waiting = deque(_spread(plan, described))
        limit = _LOCAL_PARTITIONS if self._store.is_local else _REMOTE_PARTITIONS
        with Finisher() as finisher, self._make_reader() as reader:
            try:
                self._begin(plan, [], reader, finisher, waiting, limit)
                while reader.active or waiting:
                    self._turn(reader)
                    done = reader.complete()
                    for part in done:
                        self._end(part)
                    # Failed partitions leave places, too. A call that is not needed would renew the reader's patience.
                    if done or (waiting and len(self._writers) < limit):
                        self._begin(plan, done, reader, finisher, waiting, limit)
                    if self._clock.now_ms() - self._checkpoint_ms >= _CHECKPOINT_MS:
                        self._save_progress()
                finisher.wait()
                self._list_finished()
            finally:
                for writer in self._writers.values():
                    writer.discard()

    def _begin(
        self,
        plan: BackupPlan,
        done: list[TopicPartition],
        reader: BatchReader,
        finisher: Finisher,
        waiting: deque[TopicPartition],
        limit: int,
    ) -> None:
        """Replace complete and failed partitions by waiting ones, except those of deleted topics, which fail here."""
        default = LOCAL_OBJECT_BYTES if self._store.is_local else REMOTE_OBJECT_BYTES
        size = self._options.object_bytes or default
        added = {}
        while waiting and len(self._writers) < limit:
            part = waiting.popleft()
            read = self._reads[part] = plan.reads[part]
            if part.topic in self._deleted.names:
                self._note_failed(part, read.start, _DELETED)
                continue
            directory = f"{read.backup.place}/{part.topic}-{part.partition}"
            self._writers[part] = PartitionWriter(self._store, finisher, read.backup, directory, size)
            added[part] = (read.start, read.end)
        reader.replace(done, added)

    def _end(self, part: TopicPartition) -> None:
        writer = self._writers.pop(part)
        writer.close()
        self._ended.append(writer)
        self._finished_bytes += writer.written_bytes

    def _turn(self, reader: BatchReader) -> None:
        """Write what was fetched, and drop partitions that cannot be read further."""
        try:
            items = reader.poll_batches(_POLL_MS)
        except FetchOffsetOutOfRange as error:
            for topic, number, offset in error.positions:
                self._skip_deleted(reader, TopicPartition(topic, number), offset)
            return
        except TopicAuthorizationFailed:
            ensure_topic_rights(self._admin, {part.topic for part in self._writers}, "READ")
            raise
        except FetchFailed as error:
            raise CommandError(f"{error}. {_KEPT}") from error
        except RequestTimedOut as error:
            raise RequestTimedOut(f"{error}. {_KEPT}") from error
        for item in items:
            self._write(reader, item)
        if not items:
            self._drop_missing(reader)

    def _write(self, reader: BatchReader, item: FetchedBatches) -> None:
        part = item.partition
        writer = self._writers.get(part)
        if writer is None:
            return
        if self._is_created_again(reader, part.topic):
            self._fail(reader, part, _CREATED_AGAIN)
            return
        try:
            writer.append(item.records)
        except BatchDamage as damage:
            self._fail(reader, part, f"the batch at offset {damage.offset} is damaged: {damage.reason}")

    def _is_created_again(self, reader: BatchReader, topic: str) -> bool:
        expected, current = self._ids[topic], reader.topic_id(topic)
        return expected is not None and current is not None and uuid_from_text(expected) != current

    def _fail(self, reader: BatchReader, part: TopicPartition, reason: str) -> None:
        """Stop reading a partition, and keep what was read of it."""
        next_offset = self._writers[part].next_offset
        self._end(part)
        self._note_failed(part, next_offset, reason)
        reader.replace([part], {})

    def _note_failed(self, part: TopicPartition, next_offset: int, reason: str) -> None:
        """Note a partition that was read only up to an offset, also in its manifest instead of the planned end."""
        backup = self._reads[part].backup
        backup.unread, backup.end = reason, next_offset
        self.result.failed.append(part)
        self.result.notes.append(f"{part} was read up to offset {next_offset}: {reason}")

    def _skip_deleted(self, reader: BatchReader, part: TopicPartition, offset: int) -> None:
        """Go on at the log start offset when retention has passed the position."""
        start = log_offsets(self._admin, [part], EARLIEST)[part]
        end = log_offsets(self._admin, [part], LATEST)[part]
        read = self._reads[part]
        if start.error is not None or end.error is not None or offset >= start.offset:
            reason = start.error or end.error or f"the log ends at offset {end.offset} now"
            self._fail(reader, part, str(reason))
            return
        opened = self._writers[part].begin_gap()
        note_gap(part, read.backup, offset, min(start.offset, read.end), opened, self.result.notes)
        if start.offset >= read.end:
            self._end(part)
            reader.replace([part], {})
        else:
            reader.replace([], {part: (start.offset, read.end)})

    def _drop_missing(self, reader: BatchReader) -> None:
        """After a poll without records, drop the partitions of topics that no longer exist or were created
        again: the new log may end before the planned offsets."""
        known = reader.known_partitions()
        self._deleted.check({part.topic for part in self._writers if part.topic not in known})
        for part in list(self._writers):
            if part.topic in self._deleted.names:
                self._fail(reader, part, _DELETED)
            elif self._is_created_again(reader, part.topic):
                self._fail(reader, part, _CREATED_AGAIN)


def _spread(plan: BackupPlan, described: dict[str, TopicDescription]) -> list[TopicPartition]:
    """Return the partitions to read so that neighbours have different leaders, for reads in parallel."""
    by_leader: dict[int, deque[TopicPartition]] = {}
    for name, topic in described.items():
        for item in topic.partitions:
            if (name, item.partition) in plan.reads:
                by_leader.setdefault(item.leader, deque()).append(TopicPartition(name, item.partition))
    spread = []
    while by_leader:
        for leader in list(by_leader):
            spread.append(by_leader[leader].popleft())
            if not by_leader[leader]:
                del by_leader[leader]
    return spread


def _unread(plan: BackupPlan) -> list[TopicPartition]:
    return [
        TopicPartition(name, number)
        for name, topic in plan.topics.items()
        for number, backup in enumerate(topic.partitions)
        if backup.unread
    ]
