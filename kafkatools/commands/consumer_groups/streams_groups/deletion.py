"""kt streams-groups --delete and --delete-offsets (StreamsGroupCommand)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kafkatools.commands.consumer_groups.deleted_offsets import complain_of_topics, delete_committed
from kafkatools.commands.consumer_groups.reset import topic_scope
from kafkatools.commands.consumer_groups.session import (
    Session,
    deletable_groups,
    delete_deletable,
    show_deletions,
    streams_groups,
)
from kafkatools.commands.consumer_groups.streams_groups.describe import committed_offsets
from kafkatools.commands.consumer_groups.streams_groups.internal_topics import delete_internal_topics, internal_topics
from kafkatools.core.admin.group_offsets import TopicPartition
from kafkatools.core.admin.streams_groups import describe_streams_groups
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.groups.plan_file import undo_lines
from kafkatools.tools.groups.targets import TopicScope, partitions_of
from kafkatools.tools.undo_files import write_undo_file


# -- offsets --
def prepare_delete_offsets(args: Args) -> Callable[[Session], ExitStatus]:
    """Parse --input-topic; return the action for a Session. Raises UsageError."""
    scope = topic_scope(args.input_topic, args.command.error_prefix) if args.input_topic else None
    return lambda session: _delete_offsets(session, scope)


def _delete_offsets(session: Session, scope: TopicScope | None) -> ExitStatus:
    """Delete committed offsets, or print them with --dry-run. Returns FAILED if a partition failed or a topic cannot be
    described. Raises KafkaError."""
    group_id = session.args.group[0]
    errors: dict[str, KafkaError] = {}
    if scope is None:
        description = describe_streams_groups(session.admin, [group_id])[group_id]
        if description.error is not None:
            raise description.error
        committed = committed_offsets(session, group_id).offsets
        partitions = [key for key in committed if key[0] in description.source_topics]
    else:
        partitions, errors = partitions_of(session.admin, scope)
    if session.args.dry_run:
        return _show_offsets(session, group_id, partitions, errors)
    _note_offsets(session, {group_id: set(partitions)})
    return delete_committed(session, group_id, partitions, errors, str)


def _show_offsets(
    session: Session, group_id: str, partitions: Sequence[TopicPartition], errors: Mapping[str, KafkaError]
) -> ExitStatus:
    complain_of_topics(session, group_id, errors)
    committed = committed_offsets(session, group_id).offsets
    rows = [(*key, committed[key].offset) for key in sorted(partitions) if key in committed]
    line = f"%-{max([15, *(len(row[0]) for row in rows)])}s %-10s %s"
    if rows and not session.args.json:
        session.console.print(line % ("TOPIC", "PARTITION", "OFFSET"))
    for topic, partition, offset in rows:
        place = {"group": group_id, "topic": topic, "partition": partition}
        session.console.print(
            line % (topic, partition, offset), {**place, "deleted": False, "error": None, "offset": offset}
        )
    if not rows and not session.args.json:
        session.console.note("Nothing would change.")
    return ExitStatus.FAILED if errors else ExitStatus.OK


# -- groups --
def delete(session: Session) -> ExitStatus:
    """Delete streams groups without members, after saving their offsets in --undo-file; with --dry-run only print them.
    Returns FAILED when a group or one of its internal topics was not deleted, or a broker did not list its groups."""
    args = session.args
    names, refused, is_complete = deletable_groups(
        session, "Streams", streams_groups(session), "Group '{}' does not exist or is not a streams group."
    )
    requested = [name for name in names if name not in refused]
    topics = _internal_topics(session, requested) if args.delete_all_internal_topics else {}
    if args.dry_run:
        status = show_deletions(session, names, refused)
        for name in () if args.json else topics:
            session.console.print(f"Internal topics of group '{name}' would be deleted: {', '.join(topics[name])}")
        return max(status, ExitStatus.OK if is_complete else ExitStatus.FAILED)
    _note_offsets(session, dict.fromkeys(requested))
    failed = delete_deletable(session, "streams", names, refused)
    is_clean = _delete_topics(session, {name: topics[name] for name in topics if name not in failed})
    return ExitStatus.FAILED if failed or not is_complete or not is_clean else ExitStatus.OK


def _internal_topics(session: Session, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the internal topics of the groups that have some. Raises KafkaError."""
    found = {}
    for name, description in describe_streams_groups(session.admin, names).items():
        if description.error is not None:
            raise description.error
        topics = internal_topics(session, description)
        if topics:
            found[name] = topics
    return found


def _delete_topics(session: Session, topics_by_group: Mapping[str, Sequence[str]]) -> bool:
    """Delete the internal topics of deleted groups. Returns False if one was not deleted, which is printed."""
    is_clean, done = True, []
    for name, topics in topics_by_group.items():
        failed = delete_internal_topics(session, topics)
        for topic, error in failed.items():
            message = (
                f"Error: Internal topic {topic} of the streams group '{name}' could not be deleted due to: {error}"
            )
            session.complain(message, error.name, group=name, topic=topic)
        is_clean = is_clean and not failed
        if not failed:
            done.append(name)
    if done and not session.args.json:
        names = "', '".join(hash_order(done))
        session.console.print(
            f"Deletion of associated internal topics of the streams groups ('{names}') was successful."
        )
    return is_clean


def _note_offsets(session: Session, requested: Mapping[str, Collection[TopicPartition] | None]) -> None:
    """Save committed offsets of these groups and partitions (None: all) in --undo-file. Does nothing without that
    option or without groups. Raises CommandError, KafkaError."""
    path = session.args.undo_file
    if path is None or not requested:
        return
    before = {}
    for name, keys in requested.items():
        offsets = committed_offsets(session, name).offsets
        before[name] = {key: offset for key, offset in offsets.items() if keys is None or key in keys}
    write_undo_file(path, undo_lines(path, before))
