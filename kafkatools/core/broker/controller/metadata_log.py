"""`__cluster_metadata-0`: the log of a quorum of one, in Kafka's record format.

Rules: one leader epoch per start, opened by a LeaderChange control record and noted in `quorum-state` before it is
used; a change is appended (and forced to disk when asked) before it is applied to the image. A snapshot is read when
the log does not begin at offset 0. Records between BeginTransaction and AbortTransaction count as never written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kafkatools.core.broker.controller.batches import encode_batch, encode_control_batch
from kafkatools.core.log.checkpoints import write_partition_metadata
from kafkatools.core.log.filenames import PARTITION_METADATA
from kafkatools.core.log.files import FileSystem, write_atomically
from kafkatools.core.log.log_config import LogConfig
from kafkatools.core.log.partition_log import PartitionLog
from kafkatools.core.protocol.uuids import METADATA_TOPIC_ID, uuid_text
from kafkatools.core.records.batch import RecordBatch, read_batches

DIRECTORY = "__cluster_metadata-0"
QUORUM_STATE = "quorum-state"
READ_BYTES = 1 << 20
METADATA_LOG_CONFIG = LogConfig(retention_ms=-1, max_message_bytes=8 * 1024 * 1024, segment_ms=7 * 86_400_000)


class MetadataLog:
    """Append and replay; one leader, this node."""

    def __init__(self, files: FileSystem, root: str, node_id: int) -> None:
        self.directory = f"{root}/{DIRECTORY}"
        self._files = files
        self._node_id = node_id
        self.epoch = 0
        self._log: PartitionLog | None = None

    @property
    def log(self) -> PartitionLog:
        assert self._log is not None, "the metadata log is open"
        return self._log

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    def open(self, now_ms: int, wall_ms: int, *, is_clean: bool) -> bool:
        """Open or create the log and begin a new epoch; True when it was created."""
        if not self._files.exists(f"{self.directory}/{PARTITION_METADATA}"):
            self._files.make_directory(self.directory)
            write_partition_metadata(
                self._files, f"{self.directory}/{PARTITION_METADATA}", uuid_text(METADATA_TOPIC_ID)
            )
        self._log = open_log(self._files, self.directory, METADATA_LOG_CONFIG, wall_ms, is_clean=is_clean)
        return self._log.log_end_offset == 0

    def sync_every_append(self) -> None:
        """From now on every append is on the disk before it counts, as in Kafka."""
        self.log.update_config(replace(METADATA_LOG_CONFIG, flush_messages=1))
        self.log.flush()

    def lead(self, wall_ms: int) -> None:
        """Begin a leader epoch: quorum-state first, then the LeaderChange record."""
        from kafkatools.core.protocol.schemas.snapshot import LeaderChangeMessage

        self.epoch = max(self._stored_epoch(), self._latest_log_epoch()) + 1
        voter = {"voterId": self._node_id}
        state = {
            "clusterId": "",
            "leaderId": self._node_id,
            "leaderEpoch": self.epoch,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [voter],
            "data_version": 0,
        }
        text = json.dumps(state, separators=(",", ":"))
        write_atomically(self._files, f"{self.directory}/{QUORUM_STATE}", text.encode())
        me = ({"voter_id": self._node_id},)
        message = LeaderChangeMessage(version=0, leader_id=self._node_id, voters=me, granting_voters=me)
        self._append(encode_control_batch(message, self.end_offset, self.epoch, wall_ms), wall_ms)

    def _stored_epoch(self) -> int:
        path = f"{self.directory}/{QUORUM_STATE}"
        if not self._files.exists(path):
            return 0
        try:
            return int(json.loads(self._files.read_bytes(path))["leaderEpoch"])
        except (ValueError, KeyError, TypeError):
            return 0

    def _latest_log_epoch(self) -> int:
        return self.log.latest_epoch or 0

    def append(self, records: list[Any], wall_ms: int) -> int:
        """Write records as one batch; gives the offset of the first."""
        first = self.end_offset
        self._append(encode_batch(records, first, self.epoch, wall_ms), wall_ms)
        return first

    def _append(self, batch: bytes, wall_ms: int) -> None:
        self.log.append_as_follower(memoryview(bytearray(batch)), wall_ms)
        self.log.update_high_watermark(self.log.log_end_offset)

    def replay(self, apply: Callable[[Any], None]) -> int:
        """Hand every committed record to `apply`, snapshot first; gives their number."""
        count = 0
        pending: list[Any] | None = None
        for record in self._records():
            name = type(record).__schema__.name
            if name == "BeginTransactionRecord":
                pending = []
            elif name in ("EndTransactionRecord", "AbortTransactionRecord"):
                for held in pending or () if name == "EndTransactionRecord" else ():
                    apply(held)
                pending = None
            elif pending is not None:
                pending.append(record)
            else:
                apply(record)
            count += 1
        return count

    def _records(self) -> Iterator[Any]:
        offset = self.log.log_start_offset
        if offset > 0:
            offset, snapshot = self._latest_snapshot()
            yield from data_records(snapshot)
        self.log.update_high_watermark(self.log.log_end_offset)
        while offset < self.log.log_end_offset:
            data = self.log.read(offset, READ_BYTES).read()
            for batch in read_batches(data):
                if batch.next_offset > offset:
                    if not batch.is_control:
                        yield from _records_of(batch, offset)
                    offset = batch.next_offset

    def _latest_snapshot(self) -> tuple[int, bytes]:
        names = [e.name for e in self._files.list_directory(self.directory) if e.name.endswith(".checkpoint")]
        names = [name for name in names if name[:20].isdigit()]
        if not names:
            return self.log.log_start_offset, b""
        name = max(names)
        return int(name[:20]), self._files.read_bytes(f"{self.directory}/{name}")

    def close(self) -> None:
        """Force the log to disk and close it."""
        if self._log is not None:
            self._log.flush()
            self._log.close()
            self._log = None


def data_records(data: bytes) -> Iterator[Any]:
    """The metadata records of a snapshot or log file, control batches left out."""
    for batch in read_batches(data):
        if not batch.is_control:
            yield from _records_of(batch, 0)


def _records_of(batch: Any, from_offset: int) -> Iterator[Any]:
    from kafkatools.core.protocol.schemas.metadata import decode_record

    assert isinstance(batch, RecordBatch)
    for record in batch.records():
        if record.offset >= from_offset and record.value is not None:
            yield decode_record(record.value)


def open_log(files: FileSystem, directory: str, config: LogConfig, wall_ms: int, *, is_clean: bool) -> PartitionLog:
    """A partition log with recovery of everything when the last stop was not clean."""
    return PartitionLog.open(directory, config, files, wall_ms, had_clean_shutdown=is_clean)
