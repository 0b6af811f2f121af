"""kt consumer-groups --delete, and --dry-run and --undo-file of --delete and --delete-offsets.

The undo file holds the deleted offsets, for --reset-offsets --from-file. Groups with members cannot be deleted, so
their offsets are not saved. The undo file does not restore members: they rejoin by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kafkatools.commands.consumer_groups.session import Session, report_deletions, requested_groups, show_deletions
from kafkatools.core.admin.group_offsets import TopicPartition, fetch_offsets
from kafkatools.core.admin.groups import delete_groups
from kafkatools.core.java.hash_order import hash_order
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.groups.deletions import committed_offsets, refusals, subscribed_topics
from kafkatools.tools.groups.plan_file import undo_lines
from kafkatools.tools.undo_files import write_undo_file


def delete(session: Session) -> ExitStatus:
    """Delete groups, after saving their offsets in --undo-file; with --dry-run only print them. Returns FAILED when a
    group was not deleted or a broker did not list its groups."""
    is_dry = session.args.dry_run
    names, is_complete = requested_groups(session, "" if is_dry else "Deleting")
    if is_dry:
        refused = {name: error for name, error in refusals(session.admin, names).items() if error is not None}
        offsets = fetch_offsets(session.admin, [name for name in names if name not in refused])
        counts = {name: len(group_offsets.offsets) for name, group_offsets in offsets.items()}
        status = show_deletions(session, hash_order(names), refused, counts)
        return max(status, ExitStatus.OK if is_complete else ExitStatus.FAILED)
    if session.args.undo_file is not None:
        errors = refusals(session.admin, names)
        note_offsets(session, {name: None for name in names if errors[name] is None})
    outcome = delete_groups(session.admin, names)
    ordered = hash_order(outcome)
    failed = [name for name in ordered if outcome[name] is not None]
    report_deletions(session, "consumer", ordered, {name: outcome[name] for name in failed})
    return ExitStatus.FAILED if failed or not is_complete else ExitStatus.OK


def show_deletable_offsets(session: Session, group_id: str, partitions: Sequence[TopicPartition]) -> ExitStatus:
    """Print the committed offsets that --delete-offsets would delete. Offsets of subscribed topics are errors: then it
    returns FAILED. Raises KafkaError."""
    offsets = committed_offsets(session.admin, [group_id])[group_id].offsets
    errors = subscribed_topics(session.admin, group_id)
    requested = {key: offsets[key].offset for key in sorted(partitions) if key in offsets}
    line = f"%-{max([15, *(len(topic) for topic, _ in requested)])}s %-10s %s"
    if requested and not session.args.json:
        session.console.print(line % ("TOPIC", "PARTITION", "OFFSET"))
    for (topic, partition), offset in requested.items():
        error = errors.get(topic)
        if session.args.json:
            row = {"group": group_id, "topic": topic, "partition": partition, "deleted": False}
            session.print_json({**row, "error": None if error is None else str(error), "offset": offset})
        else:
            session.console.print(line % (topic, partition, offset if error is None else f"Error: {error}"))
    if not requested and not session.args.json:
        session.console.note("Nothing would change.")
    return ExitStatus.FAILED if any(topic in errors for topic, _ in requested) else ExitStatus.OK


# -- the undo file --


def note_offsets(session: Session, requested: Mapping[str, Collection[TopicPartition] | None]) -> None:
    """Save committed offsets of these groups and partitions (None: all) in --undo-file. Does nothing without groups.
    Raises CommandError, KafkaError."""
    if not requested:
        return
    before = {}
    for name, group_offsets in committed_offsets(session.admin, list(requested)).items():
        keys = requested[name]
        before[name] = {key: offset for key, offset in group_offsets.offsets.items() if keys is None or key in keys}
    write_undo_file(session.args.undo_file, undo_lines(session.args.undo_file, before))
