"""Carrying a reset out: the undo file first, then new offsets of all groups, then what is to have none.

The undo file holds the previous offsets, one line for each partition that will change; `--from-file` takes it back.
When it cannot be written nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError

if TYPE_CHECKING:
    from kafkatools.commands.consumer_groups.reset import GroupPlan
    from kafkatools.commands.consumer_groups.session import Session
    from kafkatools.core.admin.group_offsets import AlteredOffsets
    from kafkatools.core.group.metadata import OffsetAndMetadata

TopicPartition = tuple[str, int]
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME = 100


def carry_out(session: Session, plans: Sequence[GroupPlan]) -> tuple[list[GroupPlan], bool]:
    """What was done (partitions that failed are left out and named), and whether that is all. Raises CommandError."""
    from kafkatools.core.admin.group_offsets import alter_offsets

    changing = [plan for plan in plans if plan.offsets]
    if not changing:
        return list(plans), True
    if not session.args.no_undo_file:
        _write_undo_file(session, changing)
    new = {
        plan.group_id: {key: offset for key, offset in plan.offsets.items() if offset is not None} for plan in changing
    }
    altered = alter_offsets(session.admin, {group_id: offsets for group_id, offsets in new.items() if offsets})
    deleted = _delete_offsets(session, changing)
    done = []
    is_complete = True
    for plan in plans:
        failed = _failed(session, plan, [each[plan.group_id] for each in (altered, deleted) if plan.group_id in each])
        is_complete = is_complete and not failed
        done.append(plan._replace(offsets={key: one for key, one in plan.offsets.items() if key not in failed}))
    return done, is_complete


def _delete_offsets(session: Session, plans: Sequence[GroupPlan]) -> dict[str, AlteredOffsets]:
    """Deletes what is to have no offset; that a group has none at all is as good."""
    from kafkatools.core.admin.group_offsets import AlteredOffsets, delete_offsets

    results = {}
    for plan in plans:
        keys = [key for key, offset in plan.offsets.items() if offset is None]
        if keys:
            result = delete_offsets(session.admin, plan.group_id, keys)
            is_gone = result.error is not None and result.error.name == "GROUP_ID_NOT_FOUND"
            results[plan.group_id] = AlteredOffsets({}) if is_gone else result
    return results


def _failed(session: Session, plan: GroupPlan, results: Sequence[AlteredOffsets]) -> set[TopicPartition]:
    """The partitions of a group that were not changed; each failure is named."""
    failed: set[TopicPartition] = set()
    for result in results:
        if result.error is not None:
            session.complain_of_group(plan.group_id, result.error)
            return set(plan.offsets)
        for (topic, partition), error in result.errors.items():
            message = f"{session.args.command.error_prefix}group {plan.group_id}, {topic}-{partition}: {error}"
            session.complain(message, error.name, group=plan.group_id, topic=topic, partition=partition)
            failed.add((topic, partition))
    return failed


def _write_undo_file(session: Session, plans: Sequence[GroupPlan]) -> None:
    from kafkatools.tools.groups.plan_file import write_undo

    path = session.args.undo_file or _default_path(session, [plan.group_id for plan in plans])
    before = _offsets_before(session, plans)
    try:
        write_undo(path, before)
    except OSError as error:
        raise CommandError(
            f"The undo file {path} cannot be written, so nothing was changed: {error.strerror}",
            hint="Name another one with --undo-file, or do without it with --no-undo-file.",
        ) from None
    line = f"The previous offsets are saved in {path}; --reset-offsets --from-file restores them."
    session.console.note(line, {"undo_file": path})


def _offsets_before(
    session: Session, plans: Sequence[GroupPlan]
) -> dict[str, Mapping[TopicPartition, OffsetAndMetadata | None]]:
    from kafkatools.core.admin.group_offsets import fetch_offsets

    committed = fetch_offsets(session.admin, [plan.group_id for plan in plans])
    before: dict[str, Mapping[TopicPartition, OffsetAndMetadata | None]] = {}
    for plan in plans:
        found = committed[plan.group_id]
        error = found.error or next((one for key, one in found.errors.items() if key in plan.offsets), None)
        if error is not None:
            raise error
        before[plan.group_id] = {key: found.offsets.get(key) for key in plan.offsets}
    return before


def _default_path(session: Session, group_ids: Sequence[str]) -> str:
    """`GROUP-20260131T134500Z.undo.csv` here, with a number when there is one of this second already."""
    from kafkatools.tools.undo_files import free_undo_path

    name = _UNSAFE.sub("_", group_ids[0])[:_MAX_NAME].lstrip(".-") or "group"
    if len(group_ids) > 1:
        name = f"{len(group_ids)}-groups"
    return free_undo_path(name, session.console.clock.wall_ms(), ".csv")
