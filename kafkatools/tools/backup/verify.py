"""Verify a backup: the checksums of manifests and objects, every batch, and the offsets of each partition.

Rules: the objects of all generations are read, each once. Damage is named with the object, the position in it and the
offset. Objects that no manifest lists, as of a killed run, are no damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.offsets import EARLIEST, LATEST, PartitionOffset
from kafkatools.core.admin.topics import describe_topics
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.batch_scan import BatchDamage, BatchScan
from kafkatools.tools.backup.cluster_state import log_offsets
from kafkatools.tools.backup.generations import generations, no_generation, read_manifest
from kafkatools.tools.backup.manifest import Manifest, PartitionBackup, StoredObject, manifest_name
from kafkatools.tools.backup.object_reader import read_pieces
from kafkatools.tools.backup.store import Store


class Damage(NamedTuple):
    """A defect: the object or manifest, the position in bytes (None: of the whole), the first offset that is affected
    (None: unknown), and the reason."""

    name: str
    position: int | None
    offset: int | None
    reason: str

    def __str__(self) -> str:
        place = "" if self.position is None else f", byte {self.position}"
        offset = "" if self.offset is None else f" (offset {self.offset})"
        return f"{self.name}{place}{offset}: {self.reason}"


class Difference(NamedTuple):
    """A partition whose log in the cluster is not as in the backup."""

    topic: str
    partition: int
    reason: str


@dataclass
class Verification:
    """The state of a verification. `newest`: the last manifest that is sound."""

    generations: list[int] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0
    damages: list[Damage] = field(default_factory=list)
    newest: Manifest | None = None


class Verifier:
    """Verifies all generations, or one. Raises CommandError for a URL without any manifest."""

    def __init__(self, store: Store, generation: int | None = None) -> None:
        self._store = store
        self.state = Verification()
        numbers = generations(store) if generation is None else [generation]
        if not numbers:
            raise no_generation(store)
        self._manifests = list(self._read(numbers))
        self._seen: dict[str, StoredObject] = {}
        self.total_bytes = sum({item.name: item.bytes for m in self._manifests for item in m.objects()}.values())

    def _read(self, numbers: list[int]) -> Iterator[Manifest]:
        for number in numbers:
            self.state.generations.append(number)
            try:
                manifest = read_manifest(self._store, number)
            except CommandError as error:
                if error.kind != "DAMAGED":
                    raise
                self.state.damages.append(Damage(manifest_name(number), None, None, "the manifest is damaged"))
                continue
            self.state.newest = manifest
            yield manifest

    def run(self) -> Iterator[Damage]:
        """Verify, and yield each damage when it is found. Raises CommandError when the storage fails."""
        yield from self.state.damages
        for manifest in self._manifests:
            for topic, number, partition in manifest.partitions():
                yield from self._partition(f"{topic}-{number}", partition)

    def _partition(self, label: str, partition: PartitionBackup) -> Iterator[Damage]:
        expected = partition.start
        opened: dict[int, int] = {}
        for item in partition.objects:
            if item.name not in self._seen:
                self._seen[item.name] = item
                for damage in self._object(item, expected, opened):
                    self.state.damages.append(damage)
                    yield damage
            elif self._seen[item.name] != item:
                damage = Damage(item.name, None, item.base_offset, f"two manifests disagree on it ({label})")
                self.state.damages.append(damage)
                yield damage
            expected, opened = item.next_offset, partition.open_after(item)

    def _object(self, item: StoredObject, expected: int, opened: dict[int, int]) -> Iterator[Damage]:
        scan = BatchScan(expected, opened)
        position = 0
        self.state.objects += 1
        try:
            for piece in read_pieces(self._store, item.name):
                size = scan.scan(piece)
                self.state.bytes += len(piece)
                if size < len(piece):
                    at = position + size
                    yield Damage(item.name, at, scan.next_offset, f"the last {len(piece) - size} bytes are no batch")
                    return
                position += size
        except BatchDamage as damage:
            yield Damage(item.name, position + damage.position, damage.offset, damage.reason)
            return
        except CommandError as error:
            if error.kind != "MISSING":
                raise
            yield Damage(item.name, None, item.base_offset, "the object is missing")
            return
        yield from _differences(item, StoredObject.of(item.name, scan.begin_object(), scan.open))


def _differences(listed: StoredObject, found: StoredObject) -> Iterator[Damage]:
    """Compare an object whose batches are sound with its entry in the manifest."""
    if found.bytes != listed.bytes:
        reason = f"it has {found.bytes} bytes, and the manifest says {listed.bytes}"
        yield Damage(listed.name, min(found.bytes, listed.bytes), found.next_offset, reason)
    elif found.crc32c != listed.crc32c:
        reason = f"its checksum is {found.crc32c}, and the manifest says {listed.crc32c}"
        yield Damage(listed.name, None, listed.base_offset, reason)
    elif found != listed:
        yield Damage(listed.name, None, listed.base_offset, "offsets or transactions are not those of the manifest")


def compare_with_cluster(admin: AdminClient, manifest: Manifest) -> Iterator[Difference]:
    """Yield the partitions that a next run would not simply continue: topics that are missing or have another id, logs
    that end before the backup, and records and partitions that are not backed up yet. Raises KafkaError."""
    described = describe_topics(admin, list(manifest.topics))
    parts = [(topic, number) for topic, number, _ in manifest.partitions() if described[topic].error is None]
    starts, ends = (log_offsets(admin, parts, which) for which in (EARLIEST, LATEST))
    for name, topic in manifest.topics.items():
        error = described[name].error
        if error is not None:
            yield Difference(name, 0, str(error))
        elif described[name].topic_id != topic.topic_id:
            yield Difference(name, 0, "the topic has another id: it was created again, or in another cluster")
        else:
            for number, partition in enumerate(topic.partitions):
                reason = _log_difference(partition, starts[name, number], ends[name, number])
                if reason is not None:
                    yield Difference(name, number, reason)
            for number in range(len(topic.partitions), len(described[name].partitions)):
                yield Difference(name, number, "the backup lacks the partition")


def _log_difference(partition: PartitionBackup, start: PartitionOffset, end: PartitionOffset) -> str | None:
    """Return how the ends of a log differ from its backup, None if they are the same."""
    failure = end.error or start.error
    if failure is not None:
        return str(failure)
    if end.offset < partition.next_offset:
        return f"the log ends at offset {end.offset}, and the backup at {partition.next_offset}"
    if end.offset > partition.end:
        return f"offsets {partition.end} to {end.offset - 1} are not backed up"
    return None
