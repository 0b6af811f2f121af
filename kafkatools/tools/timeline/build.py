"""Build the timeline of a group from a cluster or from log directories."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.groups import list_groups
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.timeline.broker_log import BrokerLog, BrokerLogs
from kafkatools.tools.timeline.events import Event, TopicNames
from kafkatools.tools.timeline.file_log import LogDirectories
from kafkatools.tools.timeline.group_records import TOPIC, Damage, GroupReader, group_names
from kafkatools.tools.timeline.history import History
from kafkatools.tools.timeline.log_ends import Logs, with_log_ends
from kafkatools.tools.timeline.stretches import joined, selected

if TYPE_CHECKING:
    from kafkatools.core.records.batch import AnyBatch

_MOST_SIMILAR = 3
_MOST_TOPICS = 8


class Selection(NamedTuple):
    """The requested events. Times in ms since 1970, the end excluded; `last`: only that many, the newest ones.
    `every_commit`: do not join commits."""

    since_ms: int | None = None
    until_ms: int | None = None
    last: int | None = None
    topic: str | None = None
    every_commit: bool = False


class Timeline(NamedTuple):
    """The requested events of a group, the reader with the gaps and damage of the log, and the number of commits whose
    log end was not looked up."""

    group_id: str
    partition: int
    events: list[Event]
    names: TopicNames
    reader: GroupReader
    not_looked_up: int


def timeline_of_cluster(admin: AdminClient, group_id: str, selection: Selection) -> Timeline:
    """Return the timeline of a group, read from the leader of its partition. Raises CommandError for a group without
    records and without permission to read them, KafkaError."""
    log = BrokerLog(admin, group_id)
    logs = BrokerLogs(admin)

    def others() -> set[str]:
        return {listed.group_id for listed in list_groups(admin).groups} | group_names(log.batches())

    place = f"{TOPIC}-{log.partition}"
    return _timeline(group_id, log.partition, log.batches(), logs.topic_ids(), logs, selection, place, others)


def timeline_of_files(paths: str, group_id: str, selection: Selection, note: Callable[[str], None]) -> Timeline:
    """Return the timeline of a group, read from log directories. Raises CommandError for a group without records there
    and for one in several partitions, KafkaError, OSError."""
    logs = LogDirectories(paths, note)
    holding = logs.holding(group_id)
    if len(holding) > 1:
        raise CommandError(
            f"Group '{group_id}' has records in several partitions of {TOPIC}: {', '.join(map(str, holding))}. Name "
            "the directory of one with --from log:DIRECTORY"
        )
    partition = holding[0] if holding else logs.partitions[0]
    numbers = f"{TOPIC}-{logs.partitions[0]}" if len(logs.partitions) == 1 else f"{len(logs.partitions)} partitions"
    place = f"the files of {numbers}" + (f" of {TOPIC}" if len(logs.partitions) > 1 else "")

    def others() -> set[str]:
        return {name for number in logs.partitions for name in group_names(logs.batches(number))}

    batches = logs.batches(partition) if holding else iter(())
    return _timeline(group_id, partition, batches, logs.topic_ids(), logs, selection, place, others)


def _timeline(
    group_id: str,
    partition: int,
    batches: Iterable[AnyBatch | Damage],
    topic_ids: Mapping[uuid.UUID, str],
    logs: Logs,
    selection: Selection,
    place: str,
    others: Callable[[], set[str]],
) -> Timeline:
    names, reader = TopicNames(topic_ids), GroupReader(group_id)
    history = History(names)
    is_there = False

    def all_events() -> Iterator[Event]:
        nonlocal is_there
        for records in reader.read(batches):
            is_there = True
            yield from history.events(records)
        yield from history.pending(reader.pending)

    chosen = selected(all_events(), selection.since_ms, selection.until_ms, selection.topic)
    events = list(chosen) if selection.every_commit else joined(chosen)
    if not is_there and not reader.pending and not reader.undecodable:
        raise _no_records(group_id, place, others)
    if selection.topic is not None and selection.topic not in history.topics:
        known = f"it committed {', '.join(sorted(history.topics)[:_MOST_TOPICS])}" if history.topics else "it has none"
        raise CommandError(
            f"Group '{group_id}' has no commits of topic '{selection.topic}' in {place}; {known}",
            kind="TOPIC_NOT_FOUND",
        )
    if selection.last is not None:
        events = events[-selection.last :]
    events, not_looked_up = with_log_ends(events, logs)
    return Timeline(group_id, partition, events, names, reader, not_looked_up)


def _no_records(group_id: str, place: str, others: Callable[[], set[str]]) -> CommandError:
    """Return the error for a group without records, with up to three similar names."""
    try:
        similar = difflib.get_close_matches(group_id, sorted(others() - {group_id}), _MOST_SIMILAR, 0.6)
    except KafkaError:
        similar = []
    hint = f". Similar names: {', '.join(similar)}" if similar else ""
    return CommandError(f"Group '{group_id}' has no records in {place}{hint}", kind="GROUP_NOT_FOUND")
