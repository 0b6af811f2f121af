"""The manifest of a backup: topics with their objects, group offsets, ACLs and quotas, as JSON with a checksum.

Rules: a manifest is written once, after all of its objects, and has a number, its generation. The newest one lists all
objects that a restore needs, also those of earlier generations. `progress.json` has the same form: an unfinished run
writes it and the next run reads it. The layout: docs/backup.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeVar, cast

from kafkatools.core.records.crc import crc32c
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.batch_scan import AbortedTransaction, BatchSummary

FORMAT = 1
PROGRESS = "progress.json"
_SUFFIX = ".json"
_PREFIX = "manifest-"

T = TypeVar("T")
Tree = dict[str, object]
"""A JSON object."""


@dataclass
class StoredObject:
    """An object with whole batches: its name below the backup's URL, offsets from `base_offset` to before
    `next_offset`, size and CRC-32C. Timestamps in ms, -1: none. `leader_epochs`: epoch and first offset.
    `aborted`: the transactions whose abort marker is in the object. `open`: the first offsets of transactions that are
    open after the object, by producer id."""

    name: str
    base_offset: int
    next_offset: int
    bytes: int
    crc32c: str
    min_timestamp: int = -1
    max_timestamp: int = -1
    leader_epochs: list[tuple[int, int]] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, summary: BatchSummary, open_transactions: dict[int, int]) -> StoredObject:
        """Describe an object whose batches were scanned."""
        base = summary.next_offset if summary.base_offset is None else summary.base_offset
        return cls(
            name, base, summary.next_offset, summary.bytes, crc_text(summary.crc), summary.min_timestamp,
            summary.max_timestamp, summary.leader_epochs, summary.aborted, dict(open_transactions),
        )  # fmt: skip


@dataclass
class PartitionBackup:
    """A partition. `place`: the directory above that of its objects, such as `logs`. `start`: the log start offset
    when the place was begun. `end`: the log end offset that was read to. `gaps`: offsets (first, end excluded) that
    were deleted before they were read. `objects`: by ascending offsets. `unread`: why nothing was read, empty: it
    was."""

    place: str
    start: int
    end: int
    gaps: list[tuple[int, int]] = field(default_factory=list)
    objects: list[StoredObject] = field(default_factory=list)
    unread: str = ""

    @property
    def next_offset(self) -> int:
        """The offset from which the next run reads."""
        return max([self.start, *(item.next_offset for item in self.objects[-1:])])

    @property
    def open(self) -> dict[int, int]:
        """The first offsets of transactions that are open at the end, by producer id."""
        return self.open_after(self.objects[-1]) if self.objects else {}

    def open_after(self, item: StoredObject) -> dict[int, int]:
        """Return the first offsets of transactions that are open after an object, by producer id. None are before a
        gap, which may have had their markers: the next marker of the producer ends a later transaction."""
        return {} if self._is_before_gap(item) else item.open

    @property
    def undecided(self) -> list[AbortedTransaction]:
        """The transactions that were open before a gap. It is unknown how they ended: they count as aborted."""
        return [
            AbortedTransaction(producer_id, first, item.next_offset - 1)
            for item in self.objects
            if self._is_before_gap(item)
            for producer_id, first in item.open.items()
        ]

    def _is_before_gap(self, item: StoredObject) -> bool:
        return any(first == item.next_offset for first, _ in self.gaps)


@dataclass
class TopicBackup:
    """A topic. `read_ms`: when the last run began that read all of its partitions to their ends, or the first run
    before there is one. `configs`: its own values; `hidden_configs`: names of those that brokers do not reveal.
    `replication`: the number of replicas of its first partition."""

    topic_id: str | None
    read_ms: int
    replication: int
    configs: dict[str, str]
    hidden_configs: list[str]
    partitions: list[PartitionBackup]


@dataclass
class GroupOffset:
    """A committed offset of a group."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass
class QuotaBackup:
    """The quotas of an entity, which is a list of kinds and names (None: the default entity)."""

    entity: list[tuple[str, str | None]]
    values: dict[str, float]


@dataclass
class Manifest:
    """A generation of a backup. `created_ms`: when the run began; `groups_ms`: when the committed offsets were read.
    `acls` have the fields of Acl. `unknown`: reasons by the name of a part that could not be read."""

    generation: int
    cluster_id: str
    created_ms: int
    groups_ms: int = -1
    topics: dict[str, TopicBackup] = field(default_factory=dict)
    groups: dict[str, list[GroupOffset]] = field(default_factory=dict)
    acls: list[dict[str, str]] = field(default_factory=list)
    quotas: list[QuotaBackup] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)

    def partitions(self) -> Iterator[tuple[str, int, PartitionBackup]]:
        """Yield topic, number and backup of each partition."""
        for name, topic in self.topics.items():
            for number, partition in enumerate(topic.partitions):
                yield name, number, partition

    def objects(self) -> Iterator[StoredObject]:
        """Yield the objects of all partitions."""
        for _, _, partition in self.partitions():
            yield from partition.objects


def crc_text(crc: int) -> str:
    """Return a CRC-32C as in manifests: 8 hexadecimal digits."""
    return f"{crc:08x}"


def manifest_name(generation: int) -> str:
    """Return the name of a generation's manifest: `manifest-000012.json`."""
    return f"{_PREFIX}{generation:06d}{_SUFFIX}"


def generation_of(name: str) -> int | None:
    """Return the generation of a manifest's name, None for another name."""
    digits = name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    is_manifest = name.startswith(_PREFIX) and name.endswith(_SUFFIX) and digits.isdigit()
    return int(digits) if is_manifest else None


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest with its checksum."""
    # numbers that are keys become text before the keys are sorted, as in a manifest that was read
    body = json.loads(json.dumps({"format": FORMAT, **asdict(manifest)}))
    return b'{"crc32c":"%s","manifest":%s}\n' % (crc_text(crc32c(_canonical(body))).encode(), _canonical(body))


def decode_manifest(name: str, data: bytes) -> Manifest:
    """Decode a manifest. Raises CommandError, which names it, when it is damaged or of a later format."""
    try:
        tree = json.loads(data)
        body, stored = tree["manifest"], tree["crc32c"]
        is_sound = crc_text(crc32c(_canonical(body))) == stored
    except (ValueError, KeyError, TypeError):
        body, is_sound = {}, False
    if is_sound and body.get("format") != FORMAT:
        raise CommandError(f"{name} has format {body.get('format')}, and this version of kt reads format {FORMAT}")
    if not is_sound:
        raise CommandError(
            f"{name} is damaged: its content does not have the checksum that it names",
            hint="Move it away to use the generation before it. The next kt backup finds its objects again.",
            kind="DAMAGED",
        )
    del body["format"]
    manifest = _made(Manifest, body)
    manifest.topics = {topic: _topic(tree) for topic, tree in body["topics"].items()}
    manifest.groups = {group: [GroupOffset(**item) for item in items] for group, items in body["groups"].items()}
    manifest.quotas = [
        QuotaBackup([(kind, name) for kind, name in item["entity"]], item["values"]) for item in body["quotas"]
    ]
    return manifest


def _made(kind: Callable[..., T], tree: Tree) -> T:
    """Make a dataclass of its fields as JSON."""
    return kind(**tree)


def _canonical(body: Tree) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _topic(tree: Tree) -> TopicBackup:
    partitions = [_partition(item) for item in cast("list[Tree]", tree["partitions"])]
    return _made(TopicBackup, {**tree, "partitions": partitions})


def _partition(tree: Tree) -> PartitionBackup:
    objects = [_object(item) for item in cast("list[Tree]", tree["objects"])]
    return _made(PartitionBackup, {**tree, "gaps": _pairs(tree["gaps"]), "objects": objects})


def _object(tree: Tree) -> StoredObject:
    aborted = [AbortedTransaction(*item) for item in cast("list[tuple[int, int, int]]", tree["aborted"])]
    opened = {int(producer_id): offset for producer_id, offset in cast("dict[str, int]", tree["open"]).items()}
    epochs = _pairs(tree["leader_epochs"])
    return _made(StoredObject, {**tree, "leader_epochs": epochs, "aborted": aborted, "open": opened})


def _pairs(items: object) -> list[tuple[int, int]]:
    return [(first, second) for first, second in cast("list[tuple[int, int]]", items)]
