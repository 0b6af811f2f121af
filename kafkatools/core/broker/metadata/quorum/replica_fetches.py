"""The Fetch and FetchSnapshot requests of a follower or observer, with its metadata log's directory id (KIP-853)."""

from __future__ import annotations

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.member import Member
from kafkatools.core.broker.metadata.snapshot import SnapshotDownload


def fetch_request(raft: Member) -> wire.Fields:
    """Build a Fetch request from the end of this member's log."""
    end, settings = raft.log.end, raft.settings
    limits = (settings.fetch_max_wait_ms, settings.fetch_max_bytes)
    partition = {
        "current_leader_epoch": raft.epoch,
        "fetch_offset": end.offset,
        "last_fetched_epoch": end.epoch,
        "log_start_offset": raft.log.start_offset,
        "replica_directory_id": settings.directory_id,
        "high_watermark": raft.high_watermark,
    }
    return wire.fetch_request(settings.cluster_id, raft.node_id, limits, partition)


def snapshot_request(raft: Member, download: SnapshotDownload) -> wire.Fields:
    """Build a FetchSnapshot request for the next part of a snapshot."""
    settings = raft.settings
    partition = {
        "current_leader_epoch": raft.epoch,
        "snapshot_id": {"end_offset": download.snapshot_id.offset, "epoch": download.snapshot_id.epoch},
        "position": download.size_bytes,
        "replica_directory_id": settings.directory_id,
    }
    return wire.snapshot_request(settings.cluster_id, raft.node_id, settings.fetch_snapshot_max_bytes, partition)
