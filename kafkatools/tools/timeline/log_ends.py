"""Look up the log ends of partitions at the times of commits.

Rules: the end at a time is the offset of the first record that is newer, or the log end offset without such a record.
It is unknown if the record is the first one of a log whose start was deleted, if the topic was created again since, or
if it is below the committed offset: timestamps that producers set need not rise.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kafkatools.tools.timeline.events import Commits, Event

MAX_LOOKUPS = 200
"""The most commits of one partition whose log end is looked up, the newest ones."""

TopicPartition = tuple[str, int]


class Log(NamedTuple):
    """The present log of a partition. The topic id is None if it is unknown."""

    start: int
    end: int
    topic_id: uuid.UUID | None


class Logs(Protocol):
    """Partitions of a cluster or of a log directory."""

    def present(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Log]:
        """Return the present logs, without those that cannot be read."""

    def first_after(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record of each partition that is newer than a time (ms since 1970), None
        without one. A partition that cannot be read is left out."""


def with_log_ends(events: list[Event], logs: Logs) -> tuple[list[Event], int]:
    """Return the events, commits with the log end at the last of them where it is known, and the number of commits that
    were not looked up because there are too many."""
    indexes: dict[TopicPartition, list[int]] = {}
    for index, event in enumerate(events):
        if isinstance(event, Commits) and not event.is_pending:
            indexes.setdefault((event.topic, event.partition), []).append(index)
    present = logs.present(indexes) if indexes else {}
    found = list(events)
    skipped = sum(max(0, len(places) - MAX_LOOKUPS) for place, places in indexes.items() if place in present)
    for turn in range(1, MAX_LOOKUPS + 1):
        requested = {
            place: places[-turn] for place, places in indexes.items() if place in present and len(places) >= turn
        }
        if not requested:
            break
        times = {place: commit.last_time_ms for place, commit in _commits(found, requested).items()}
        answers = logs.first_after(times)
        for place, commit in _commits(found, requested).items():
            if place in answers:
                found[requested[place]] = commit._replace(log_end=_end(commit, present[place], answers[place]))
    return found, skipped


def _commits(events: list[Event], indexes: Mapping[TopicPartition, int]) -> dict[TopicPartition, Commits]:
    return {place: event for place, index in indexes.items() if isinstance(event := events[index], Commits)}


def _end(commit: Commits, log: Log, first_newer: int | None) -> int | None:
    if commit.topic_id is not None and log.topic_id is not None and commit.topic_id != log.topic_id:
        return None
    end = log.end if first_newer is None else first_newer
    is_deleted = first_newer is not None and first_newer == log.start > 0
    return None if is_deleted or end < commit.last_offset else end
