"""Causes at the committed offsets of groups, as functions of Observations: the record there cannot be consumed, or it
was or will be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkatools.core.admin.groups import DEAD, EMPTY, SHARE, STREAMS
from kafkatools.tools.diagnosis.findings import Finding, duration, partition_names, partition_places, places
from kafkatools.tools.diagnosis.group_causes import group_command, has_stopped_at, keys_of, lag_text, members_command
from kafkatools.tools.diagnosis.observations import Observations, TopicPartition, committed
from kafkatools.tools.monitor.figures import size
from kafkatools.tools.monitor.view import GroupPartition, GroupView, PartitionView

Words = tuple[str, ...]


def _reset_commands(group: GroupView, keys: Iterable[TopicPartition], *target: str) -> tuple[Words, Words]:
    """Return the next command and the one after it for a group whose offsets need a reset. Brokers refuse a reset while
    the group has members, so the next command lists the members to stop; without members it is the reset itself."""
    by_topic: dict[str, list[str]] = {}
    for topic, partition in sorted(keys):
        by_topic.setdefault(topic, []).append(str(partition))
    option = "--input-topic" if group.type == STREAMS else "--topic"
    where = [word for topic, numbers in by_topic.items() for word in (option, f"{topic}:{','.join(numbers)}")]
    reset = (group_command(group), "--reset-offsets", "--group", group.group_id, *where, *target, "--dry-run")
    return (reset, ()) if group.state in (EMPTY, DEAD) else (members_command(group), reset)


def _group(obs: Observations, name: str) -> GroupView:
    return next(group for group in obs.view.groups if group.group_id == name)


def retention_passed(obs: Observations) -> Iterator[Finding]:
    """The committed offset is before the log start: records were deleted before the group consumed them."""
    for group in obs.view.groups:
        lost = []
        for part in group.partitions or ():
            found = obs.partition((part.topic, part.partition))
            if found is not None and found.start_offset is not None and (number := _deleted(group, part, found)) > 0:
                lost.append((number, part, found.start_offset))
        if not lost:
            continue
        _, part, start = max(lost)
        keys = keys_of(part for _, part, _ in lost)
        command, then = _reset_commands(group, keys, "--to-earliest")
        deleted = sum(number for number, _, _ in lost)
        yield Finding(
            f"{'1 record' if deleted == 1 else f'{deleted:,} records'} of {partition_names(keys)} "
            f"{'was' if deleted == 1 else 'were'} deleted before group {group.group_id} consumed "
            f"{'it' if deleted == 1 else 'them'}",
            (
                f"{part.topic}-{part.partition}: {'start' if group.type == SHARE else 'committed'} offset "
                f"{part.committed:,}, log start offset {start:,}",
                *_deletion_lines(obs, (part.topic, part.partition)),
                lag_text(obs, group),
            ),
            command,
            places(("group", group.group_id), partition_places(keys)),
            then,
        )


def _deleted(group: GroupView, part: GroupPartition, found: PartitionView) -> int:
    """Return how many records were deleted before a group consumed them. The start offset of a share group may be
    before records that are acknowledged, so there it is the lag that the log is too short for."""
    if group.type != SHARE:
        return (found.start_offset or 0) - part.committed
    if part.lag is None or found.end_offset is None:
        return 0
    return part.lag - (found.end_offset - (found.start_offset or 0))


def _deletion_lines(obs: Observations, key: TopicPartition) -> Iterator[str]:
    """Yield lines about the start of a log: its movement between two snapshots, and the settings that delete."""
    found = obs.partition(key)
    before = obs.earlier.by_partition.get(key) if obs.earlier is not None else None
    if found is not None and before is not None and (before.start_offset or 0) < (found.start_offset or 0):
        yield (
            f"The log start moved from offset {before.start_offset or 0:,} to {found.start_offset or 0:,} in "
            f"{obs.seconds or 0:.1f} s"
        )
    settings = obs.settings.get(key[0])
    if settings is None:
        return
    retention_ms, retention_bytes = (int(settings.get(name) or -1) for name in ("retention.ms", "retention.bytes"))
    if "delete" not in settings.get("cleanup.policy", ""):
        yield f"cleanup.policy is {settings.get('cleanup.policy')}: only kt delete-records or DeleteRecords deletes"
    elif retention_ms < 0 and retention_bytes < 0:
        yield "Neither retention.ms nor retention.bytes is set: only kt delete-records or DeleteRecords deletes"
    else:
        limits = [f"retention.ms {duration(retention_ms)}"] if retention_ms >= 0 else []
        if retention_bytes >= 0:
            held = "unknown" if found is None or found.size_bytes is None else size(found.size_bytes)
            limits.append(f"retention.bytes {size(retention_bytes)}, the log of the leader has {held}")
        yield f"Deletion is by {'; or by '.join(limits)}; or by DeleteRecords"


def beyond_end(obs: Observations) -> Iterator[Finding]:
    """The committed offset is beyond the end of the log, as after a topic was created again."""
    for group in obs.view.groups:
        beyond = [
            part
            for part in group.partitions or ()
            if (end := obs.ends.get((part.topic, part.partition))) is not None and part.committed > end.high_watermark
        ]
        if not beyond:
            continue
        part = beyond[0]
        end = obs.ends[part.topic, part.partition]
        others = [f"Also beyond the end: {partition_names(keys_of(beyond[1:]))}"] if len(beyond) > 1 else []
        command, then = _reset_commands(group, keys_of(beyond), "--to-earliest")
        yield Finding(
            f"Group {group.group_id} committed offset {part.committed:,} of {part.topic}-{part.partition}, beyond the "
            f"end of the log ({end.high_watermark:,}): the topic was created again or lost records",
            (*others, lag_text(obs, group)),
            command,
            places(("group", group.group_id), partition_places(keys_of(beyond))),
            then,
        )


def record_undecodable(obs: Observations) -> Iterator[Finding]:
    """The batch at the committed offset is damaged, so every consumer fails there."""
    for (name, key), batch in obs.batches.items():
        if batch.damage is None:
            continue
        group = _group(obs, name)
        at = committed(group)[key]
        command, then = _reset_commands(group, [key], "--to-offset", str(max(batch.next_offset, at + 1)))
        yield Finding(
            f"The batch at offset {at:,} of {key[0]}-{key[1]}, the next one of group {name}, cannot be decoded",
            (f"{batch.damage}; {batch.size_bytes:,} bytes",),
            command,
            places(("group", name), ("partition", key)),
            then,
        )


MAX_PARTITION_FETCH_BYTES = 1 << 20
"""The default of max.partition.fetch.bytes. The limits of the group's consumers are not visible."""


def record_too_large(obs: Observations) -> Iterator[Finding]:
    """The next batch is larger than consumers fetch by default, and the committed offset stays there."""
    for (name, key), batch in obs.batches.items():
        group = _group(obs, name)
        if batch.size_bytes <= MAX_PARTITION_FETCH_BYTES or batch.damage is not None:
            continue
        if not group.members or not has_stopped_at(obs, group, key):
            continue
        command, then = _reset_commands(group, [key], "--to-offset", str(batch.next_offset))
        yield Finding(
            f"Group {name} stays before the batch at offset {batch.offset:,} of {key[0]}-{key[1]}, which has "
            f"{batch.size_bytes:,} bytes: more than the default max.partition.fetch.bytes "
            f"({MAX_PARTITION_FETCH_BYTES:,})",
            (lag_text(obs, group), "The limits and the memory of the consumers are not visible from here"),
            command,
            places(("group", name), ("partition", key)),
            then,
        )


_NEAR = 0.1
_SOON_S = 3600
Reason = tuple[str, tuple[str, ...]]
"""The end of a sentence about a record that is soon deleted, and the evidence."""


def retention_near(obs: Observations) -> Iterator[Finding]:
    """The next record of a group may soon be deleted: by age, by size, or since the log start moves towards it."""
    for group in obs.view.groups:
        for part in obs.lagging(group):
            key = part.topic, part.partition
            reason = _near_by_size(obs, part)
            if group.type != SHARE:  # records after its start offset may be acknowledged
                reason = _near_by_time(obs, group, key) or reason or _near_by_movement(obs, group, part)
            if reason is not None:
                yield Finding(
                    f"Retention may delete the next record of group {group.group_id} in {key[0]}-{key[1]} {reason[0]}",
                    reason[1],
                    ("configs", "--describe", "--entity-type", "topics", "--entity-name", key[0], "--all"),
                    places(("group", group.group_id), ("partition", key)),
                )


def _near_by_time(obs: Observations, group: GroupView, key: TopicPartition) -> Reason | None:
    """Less than a tenth of retention.ms is left until the record may be deleted."""
    batch = obs.batches.get((group.group_id, key))
    retention_ms = _limit(obs, key[0], "retention.ms")
    if batch is None or batch.timestamp <= 0 or retention_ms <= 0:
        return None
    left_ms = batch.timestamp + retention_ms - obs.now_ms
    if left_ms >= retention_ms * _NEAR:
        return None
    evidence = (
        f"The record is {duration(obs.now_ms - batch.timestamp)} old, retention.ms {duration(retention_ms)}",
        "A segment is deleted when its newest record is old enough, so the record may stay longer",
    )
    return f"in {duration(left_ms)}" if left_ms > 0 else "at any time", evidence


def _near_by_size(obs: Observations, part: GroupPartition) -> Reason | None:
    """The record and those after it take more than nine tenths of retention.bytes. A log of one segment is left out:
    the active segment is not deleted."""
    view = obs.partition((part.topic, part.partition))
    retention_bytes, segment_bytes = (_limit(obs, part.topic, name) for name in ("retention.bytes", "segment.bytes"))
    if view is None or view.size_bytes is None or view.end_offset is None or retention_bytes <= 0:
        return None
    held = view.end_offset - (view.start_offset or 0)
    if held <= 0 or view.size_bytes <= segment_bytes:
        return None
    waiting_bytes = view.size_bytes / held * (part.lag or 0)
    if waiting_bytes < retention_bytes * (1 - _NEAR):
        return None
    evidence = (
        f"About {size(waiting_bytes)} wait in the log of {size(view.size_bytes)}, retention.bytes is "
        f"{size(retention_bytes)}",
        "Whole segments are deleted, so the record may stay longer",
    )
    return "by size", evidence


def _near_by_movement(obs: Observations, group: GroupView, part: GroupPartition) -> Reason | None:
    """The log start moved faster than the committed offset between two snapshots, and reaches it within an hour."""
    key = part.topic, part.partition
    view = obs.partition(key)
    before = obs.earlier.by_partition.get(key) if obs.earlier is not None else None
    old = committed(earlier).get(key) if (earlier := obs.before(group.group_id)) is not None else None
    if view is None or before is None or view.start_offset is None or before.start_offset is None or old is None:
        return None
    closer = (view.start_offset - before.start_offset) - (part.committed - old)
    distance = part.committed - view.start_offset
    if view.start_offset <= before.start_offset or closer <= 0 or distance < 0:
        return None
    seconds = distance / closer * (obs.seconds or 0)
    if seconds > _SOON_S:
        return None
    evidence = (
        f"The log start moved from offset {before.start_offset:,} to {view.start_offset:,}, the committed offset from "
        f"{old:,} to {part.committed:,}",
    )
    return f"in {duration(seconds * 1000)}: the log start moves towards it", evidence


def _limit(obs: Observations, topic: str, name: str) -> int:
    """Return a limit of a topic, -1 if it has none, is unknown, or if the topic is not cleaned by deletion."""
    settings = obs.settings.get(topic, {})
    if "delete" not in settings.get("cleanup.policy", ""):
        return -1
    return int(settings.get(name) or -1)
