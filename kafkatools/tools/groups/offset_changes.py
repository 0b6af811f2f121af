"""Change committed offsets: write the undo file, commit the new offsets of all groups, then delete offsets.

The undo file holds the previous offset of each changed partition; `--from-file` restores them. Nothing is changed when
the file cannot be written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import TopicPartition, alter_offsets, delete_offsets, fetch_offsets
from kafkatools.core.admin.results import AlteredOffsets
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.tools.groups.plan_file import undo_lines
from kafkatools.tools.undo_files import OTHER_UNDO_FILE, write_undo_file, write_unnamed_undo_file

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME = 100


class GroupPlan(NamedTuple):
    """The new offsets of a group, in the order of Kafka's hash maps; None deletes an offset."""

    group_id: str
    offsets: dict[TopicPartition, OffsetAndMetadata | None]


class GroupChange(NamedTuple):
    """The outcome of a group's plan: the changed offsets, and the group's error or errors by partition."""

    plan: GroupPlan
    error: KafkaError | None
    errors: Mapping[TopicPartition, KafkaError]

    @property
    def is_complete(self) -> bool:
        """Return whether every offset of the plan was changed."""
        return self.error is None and not self.errors


def change_offsets(admin: AdminClient, plans: Sequence[GroupPlan]) -> list[GroupChange]:
    """Commit the new offsets of all groups, then delete those set to None. Returns the outcome of each plan, with its
    errors. Raises KafkaError if a request as a whole fails."""
    changing = [plan for plan in plans if plan.offsets]
    new = {
        plan.group_id: {key: offset for key, offset in plan.offsets.items() if offset is not None} for plan in changing
    }
    new = {group_id: offsets for group_id, offsets in new.items() if offsets}
    altered = alter_offsets(admin, new) if changing else {}
    deleted = _delete_offsets(admin, changing)
    return [
        _change(plan, [outcomes[plan.group_id] for outcomes in (altered, deleted) if plan.group_id in outcomes])
        for plan in plans
    ]


def _delete_offsets(admin: AdminClient, plans: Sequence[GroupPlan]) -> dict[str, AlteredOffsets]:
    """Delete the offsets that the plans set to None. A group that does not exist counts as success."""
    results = {}
    for plan in plans:
        keys = [key for key, offset in plan.offsets.items() if offset is None]
        if keys:
            result = delete_offsets(admin, plan.group_id, keys)
            is_gone = result.error is not None and result.error.name == "GROUP_ID_NOT_FOUND"
            results[plan.group_id] = AlteredOffsets({}) if is_gone else result
    return results


def _change(plan: GroupPlan, results: Sequence[AlteredOffsets]) -> GroupChange:
    errors: dict[TopicPartition, KafkaError] = {}
    for result in results:
        if result.error is not None:
            return GroupChange(plan._replace(offsets={}), result.error, errors)
        errors.update(result.errors)
    offsets = {key: offset for key, offset in plan.offsets.items() if key not in errors}
    return GroupChange(plan._replace(offsets=offsets), None, errors)


def save_previous(
    admin: AdminClient, plans: Sequence[GroupPlan], path: str | None, wall_ms: int, hint: str = OTHER_UNDO_FILE
) -> str:
    """Write the committed offsets that the plans change to `path` (None: a new file in the working directory); return
    the path. Raises CommandError with `hint` when the file cannot be written, KafkaError when the offsets cannot be
    fetched."""
    before = _offsets_before(admin, plans)
    if not path:
        name = _default_name([plan.group_id for plan in plans])
        return write_unnamed_undo_file(name, wall_ms, ".csv", list(undo_lines(".csv", before)), hint)
    write_undo_file(path, undo_lines(path, before), hint)
    return path


def _offsets_before(
    admin: AdminClient, plans: Sequence[GroupPlan]
) -> dict[str, Mapping[TopicPartition, OffsetAndMetadata | None]]:
    committed = fetch_offsets(admin, [plan.group_id for plan in plans])
    before: dict[str, Mapping[TopicPartition, OffsetAndMetadata | None]] = {}
    for plan in plans:
        group_offsets = committed[plan.group_id]
        error = group_offsets.error or next(
            (problem for key, problem in group_offsets.errors.items() if key in plan.offsets), None
        )
        if error is not None:
            raise error
        before[plan.group_id] = {key: group_offsets.offsets.get(key) for key in plan.offsets}
    return before


def _default_name(group_ids: Sequence[str]) -> str:
    """Return the beginning of the name of an undo file: a group or the number of groups."""
    if len(group_ids) > 1:
        return f"{len(group_ids)}-groups"
    return _UNSAFE.sub("_", group_ids[0])[:_MAX_NAME].lstrip(".-") or "group"
