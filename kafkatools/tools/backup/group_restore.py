"""Restore the committed offsets of groups, mapped to the offsets of the restored records.

Rules: an offset becomes that of the same record, or of the next restored record. A group with members is left alone,
and so is an offset that a group has already in the target. With a time as the cut only offsets that were read before
that time are used, since later ones may be beyond records that the group has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import alter_offsets, fetch_offsets
from kafkatools.core.admin.groups import DEAD, EMPTY, describe_groups
from kafkatools.core.errors import GroupIdNotFound, KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.output import counted
from kafkatools.tools.backup.generations import generations, read_manifest
from kafkatools.tools.backup.manifest import GroupOffset, Manifest
from kafkatools.tools.backup.store import Store
from kafkatools.tools.redrive.progress import is_progress_group
from kafkatools.tools.rights import GROUP, TOPIC, Right, naming

Groups = dict[str, list[GroupOffset]]
TargetOffset = Callable[[TopicPartition, int], int | None]
"""Returns the target offset of a source partition's offset, None for a partition that was not restored."""


class RestoredGroup(NamedTuple):
    """The outcome of a group: the number of committed offsets, and the reason for missing ones, empty without any."""

    group: str
    committed: int
    reason: str = ""


def groups_for(store: Store, manifest: Manifest, names: Mapping[str, str], until_ms: int | None) -> tuple[Groups, str]:
    """Return the offsets of groups of the restored topics, and a line about missing ones, empty for none. With a time,
    those of the newest generation before it."""
    chosen: Manifest | None = manifest
    if until_ms is not None and manifest.groups_ms >= until_ms:
        chosen = next(
            (
                earlier
                for number in reversed([number for number in generations(store) if number < manifest.generation])
                if (earlier := read_manifest(store, number)).groups_ms < until_ms
            ),
            None,
        )
    if chosen is None:
        return {}, "Group offsets are not restored: no generation read them before the time of --until"
    groups: Groups = {}
    for group, offsets in chosen.groups.items():
        kept = [item for item in offsets if item.topic in names and _is_same_topic(chosen, manifest, item.topic)]
        if kept:
            groups[group] = kept
    return groups, ""


def _is_same_topic(chosen: Manifest, manifest: Manifest, topic: str) -> bool:
    earlier = chosen.topics.get(topic)
    return earlier is not None and earlier.topic_id == manifest.topics[topic].topic_id


def offsets_to_map(groups: Groups) -> dict[TopicPartition, set[int]]:
    """Return the source offsets of all groups by partition."""
    offsets: dict[TopicPartition, set[int]] = {}
    for items in groups.values():
        for item in items:
            offsets.setdefault(TopicPartition(item.topic, item.partition), set()).add(item.offset)
    return offsets


def restore_groups(
    admin: AdminClient,
    groups: Groups,
    names: Mapping[str, str],
    target_offset: TargetOffset,
) -> list[RestoredGroup]:
    """Commit the mapped offsets. `names`: target names by source name. Raises KafkaError."""
    present = _present(admin, groups)
    outcomes = []
    for group, items in sorted(groups.items()):
        offsets = present[group]
        if isinstance(offsets, str):
            outcomes.append(RestoredGroup(group, 0, offsets))
        else:
            outcomes.append(_commit(admin, group, _mapped(group, items, names, target_offset), offsets))
    return outcomes


def check_groups(admin: AdminClient, groups: Groups, names: Mapping[str, str]) -> list[RestoredGroup]:
    """Return for each group the number of offsets that can be committed as far as that is known before the records are
    mapped, and the reason for others. Raises KafkaError."""
    present = _present(admin, groups)
    outcomes = []
    for group, items in sorted(groups.items()):
        offsets = present[group]
        if isinstance(offsets, str):
            outcomes.append(RestoredGroup(group, 0, offsets))
            continue
        kept = {(names[item.topic], item.partition) for item in items} & offsets.keys()
        reason = ""
        if kept:
            topic, number = min(kept)
            reason = f"it has offsets of {counted(len(kept), 'partition')} already, such as {topic}-{number}"
        outcomes.append(RestoredGroup(group, len(items) - len(kept), reason))
    return outcomes


def _present(admin: AdminClient, groups: Groups) -> dict[str, Mapping[tuple[str, int], OffsetAndMetadata] | str]:
    """Return the offsets that each group has in the target, or the reason why it is left alone. Raises KafkaError."""
    found: dict[str, Mapping[tuple[str, int], OffsetAndMetadata] | str] = {}
    described = describe_groups(admin, groups)
    present = fetch_offsets(admin, groups)
    for group in groups:
        state = described[group]
        error = None if isinstance(state.error, GroupIdNotFound) else state.error or present[group].error
        error = error or next(iter(present[group].errors.values()), None)
        if error is not None:
            found[group] = str(naming(error, Right("DESCRIBE", GROUP, group)))
        elif state.error is None and state.state not in (EMPTY, DEAD):
            found[group] = f"it is in use ({state.state})"
        else:
            found[group] = present[group].offsets
    return found


def _mapped(
    group: str, items: list[GroupOffset], names: Mapping[str, str], target_offset: TargetOffset
) -> dict[tuple[str, int], OffsetAndMetadata]:
    """Return the offsets in the target. The metadata of kt redrive has offsets and a topic id of the source, which mean
    nothing there: without it all records below the offset count as sent back."""
    mapped = {}
    for item in items:
        offset = target_offset(TopicPartition(item.topic, item.partition), item.offset)
        if offset is not None:
            metadata = "" if is_progress_group(group) else item.metadata
            mapped[names[item.topic], item.partition] = OffsetAndMetadata(offset, metadata=metadata)
    return mapped


def _commit(
    admin: AdminClient,
    group: str,
    mapped: Mapping[tuple[str, int], OffsetAndMetadata],
    present: Mapping[tuple[str, int], OffsetAndMetadata],
) -> RestoredGroup:
    """Commit the offsets that the group does not have. One that is the same already counts as committed."""
    kept = {key for key, item in mapped.items() if key in present and present[key].offset != item.offset}
    missing = {key: item for key, item in mapped.items() if key not in present}
    reason = ""
    if kept:
        topic, number = min(kept)
        reason = f"it has other offsets of {counted(len(kept), 'partition')} already, such as {topic}-{number}"
    failed: dict[tuple[str, int], KafkaError] = {}
    if missing:
        altered = alter_offsets(admin, {group: missing})[group]
        if altered.error is not None:
            return RestoredGroup(group, 0, str(naming(altered.error, Right("READ", GROUP, group))))
        failed = {key: error for key, error in altered.errors.items() if error is not None}
        for (topic, _), error in list(failed.items())[:1]:
            reason = str(naming(error, Right("READ", TOPIC, topic)))
    return RestoredGroup(group, len(mapped) - len(kept) - len(failed), reason)
