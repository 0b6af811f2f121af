"""The progress of a copy, kept in the target cluster: a consumer group whose committed offsets are written in the same
transaction as the copied records.

The group is named after the source cluster and both topics, and has the partitions of the target topic. A committed
offset is the next offset to copy of the source partition with this number. Its metadata holds, as JSON, where the copy
of the partition ends, where it begins in the target, and the checksum of the records so far.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.groups import delete_groups
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.json_texts import parse_json
from kafkatools.exit_status import CommandError
from kafkatools.tools.copying.checksum import RecordChecksum

_VERSION = 1
_TO = "-to-"


class CopyPlace(NamedTuple):
    """The two ends of a copy: the source's cluster id, its topic with its id, and the target topic."""

    cluster_id: str
    source: str
    topic_id: str | None
    target: str

    @property
    def group_id(self) -> str:
        """The consumer group of the progress, which is also the transactional id. A colon, which no topic has,
        separates topics whose names would leave open where the first one ends."""
        topics = f"{self.source}-to-{self.target}"
        if topics.find(_TO) != topics.rfind(_TO):
            topics = f"{self.source}:{self.target}"
        return f"kt-copy-{self.cluster_id}-{topics}"


class PartitionProgress(NamedTuple):
    """The progress of one partition: the next offset to copy, the offset where the copy ends, the first offset of the
    copy in the target, the bounds of timestamps, the lost offsets, and the checksum of the copied records."""

    position: int
    end: int
    target_start: int
    since_ms: int | None = None
    until_ms: int | None = None
    lost: int = 0
    checksum: RecordChecksum = RecordChecksum()

    @property
    def is_complete(self) -> bool:
        """Return whether every offset of the source was read."""
        return self.position >= self.end

    def committed(self, topic_id: str | None) -> OffsetAndMetadata:
        """Return the committed offset that stands for this progress."""
        values = {"v": _VERSION, "id": topic_id, **self._asdict(), "checksum": list(self.checksum)}
        del values["position"]
        return OffsetAndMetadata(self.position, metadata=json.dumps(values, separators=(",", ":")))


def _parse(committed: OffsetAndMetadata, topic_id: str | None) -> PartitionProgress:
    """Parse a committed offset. Raises CommandError for the progress of another topic with the same name, and for
    metadata that no kt copy wrote."""
    try:
        values = parse_json(committed.metadata)
        version, stored_id = values.pop("v"), values.pop("id")
        progress = PartitionProgress(committed.offset, **values)
        progress = progress._replace(checksum=RecordChecksum(*values["checksum"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        version, stored_id = None, topic_id
        progress = None
    if progress is None or version != _VERSION:
        raise CommandError("The stored progress was not written by this version of kt copy")
    if stored_id != topic_id:
        raise CommandError("The source topic was deleted and created again since: the copy cannot be resumed")
    return progress


def read_progress(admin: AdminClient, place: CopyPlace, *, is_final: bool = True) -> dict[int, PartitionProgress]:
    """Return the stored progress by partition, empty without any. `is_final`: no transaction of the copy is open, else
    UnstableOffsetCommit is raised. Raises KafkaError, and CommandError as `_parse`."""
    stored = _stored(admin, place, is_final=is_final)
    return {partition: _parse(committed, place.topic_id) for partition, committed in stored.items()}


def _stored(admin: AdminClient, place: CopyPlace, *, is_final: bool) -> dict[int, OffsetAndMetadata]:
    group = fetch_offsets(admin, [place.group_id], require_stable=is_final)[place.group_id]
    error = group.error or next(iter(group.errors.values()), None)
    if error is not None:
        raise error
    return {partition: stored for (topic, partition), stored in group.offsets.items() if topic == place.target}


def offsets_of(place: CopyPlace, progress: Mapping[int, PartitionProgress]) -> dict[tuple[str, int], OffsetAndMetadata]:
    """Return the committed offsets that stand for this progress."""
    return {(place.target, number): item.committed(place.topic_id) for number, item in progress.items()}


def forget_progress(admin: AdminClient, place: CopyPlace) -> KafkaError | None:
    """Delete the group of the progress; return the error if that failed."""
    return delete_groups(admin, [place.group_id])[place.group_id]


def forget_earlier_progress(admin: AdminClient, place: CopyPlace) -> None:
    """Delete the progress of an earlier copy, which `read_progress` would take for that of a new one. Raises
    CommandError if it is still there, KafkaError."""
    error = forget_progress(admin, place)
    if error is not None and _stored(admin, place, is_final=False):
        raise CommandError(
            f"The group {place.group_id}, which holds the progress of an earlier copy, cannot be deleted: {error}",
            hint=f"Delete it first: kt consumer-groups --delete --group {place.group_id}",
            kind=error.name,
        )
