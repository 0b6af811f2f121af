"""The topics that a failed restore leaves: empty ones that it created are removed, those with records stay.

Rules: a topic is removed only if it has the id of the created one and its log ends are read again as 0. The mark of a
restore goes with its topic. A topic with records of somebody else loses its mark, so that no restore goes on behind
them. Nothing is raised, since the command has failed already: what cannot be removed is named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.offsets import LATEST
from kafkatools.core.admin.topics import delete_topics, describe_topics
from kafkatools.core.errors import KafkaError
from kafkatools.output import counted
from kafkatools.tools.backup.cluster_state import log_offsets
from kafkatools.tools.backup.journal import forget
from kafkatools.tools.backup.targets import Target


def remove_empty(admin: AdminClient, targets: Sequence[Target], note: Callable[[str], None]) -> None:
    """Remove the topics that this run created and that have no records, and name the others."""
    created = [target for target in targets if target.was_created]
    if not created:
        return
    try:
        empty, filled = _sorted_out(admin, created)
        errors = delete_topics(admin, [target.name for target in empty]) if empty else {}
    except KafkaError as error:
        note(f"These topics were created and may be empty: {_names(created)} ({error})")
        note(f"To delete one: kt topics --delete --topic {created[0].name}")
        return
    removed = [target for target in empty if errors[target.name].error is None]
    for target in removed:
        with contextlib.suppress(KafkaError):  # a mark with the id of a deleted topic continues nothing
            forget(admin, target.mark, target.name)
    if removed:
        note(f"Removed {counted(len(removed), 'empty topic')} that this run created: {_names(removed)}")
    for target in empty:
        if errors[target.name].error is not None:
            note(f"Topic {target.name} was created and is empty: kt topics --delete --topic {target.name}")
    for target, count in filled:
        note(
            f"Topic {target.name} keeps {counted(count, 'record')}: the same command goes on behind them, or "
            f"kt topics --delete --topic {target.name}"
        )


def forget_mixed(admin: AdminClient, targets: Iterable[Target], names: Collection[str]) -> None:
    """Delete the marks of topics with records of somebody else."""
    for target in targets:
        if target.name in names:
            with contextlib.suppress(KafkaError):
                forget(admin, target.mark, target.name)


def _sorted_out(admin: AdminClient, created: Sequence[Target]) -> tuple[list[Target], list[tuple[Target, int]]]:
    """Return the empty topics, and the others with their number of records. Raises KafkaError."""
    empty: list[Target] = []
    filled: list[tuple[Target, int]] = []
    described = describe_topics(admin, [target.name for target in created])
    for target in created:
        existing = described[target.name]
        if existing.error is not None or target.topic_id not in (None, existing.topic_id):
            continue
        ends = log_offsets(admin, [(target.name, part.partition) for part in existing.partitions], LATEST)
        for end in ends.values():
            if end.error is not None:
                raise end.error
        count = sum(end.offset for end in ends.values())
        if count:
            filled.append((target, count))
        else:
            empty.append(target)
    return empty, filled


def _names(targets: Sequence[Target]) -> str:
    return ", ".join(target.name for target in targets)
