"""Select the events of a timeline and join consecutive commits of a partition. Without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkatools.tools.timeline.events import Commits, Event, GroupDeleted, OffsetDeleted, Rebalance

PAUSE_MS = 60_000
"""A partition without a commit for longer than this has two events."""


def selected(
    events: Iterable[Event], since_ms: int | None, until_ms: int | None, topic: str | None = None
) -> Iterator[Event]:
    """Yield the events within the times, the end excluded (ms since 1970; None for no bound). With `topic` only commits
    and deletions of its offsets; events of the group stay."""
    for event in events:
        if since_ms is not None and event.time_ms < since_ms or until_ms is not None and event.time_ms >= until_ms:
            continue
        if topic is not None and isinstance(event, (Commits, OffsetDeleted)) and event.topic != topic:
            continue
        yield event


def joined(events: Iterable[Event]) -> list[Event]:
    """Return the events with consecutive commits of a partition as one, at the place of the first. A rebalance, a
    deletion, a lower offset than before or a pause begins another one."""
    found: list[Event] = []
    last: dict[tuple[str, int, bool], int] = {}
    for event in events:
        if isinstance(event, (Rebalance, GroupDeleted)):
            last.clear()
        elif isinstance(event, OffsetDeleted):
            last.pop((event.topic, event.partition, False), None)
        if not isinstance(event, Commits):
            found.append(event)
            continue
        place = event.topic, event.partition, event.is_pending
        index = last.get(place)
        earlier = found[index] if index is not None else None
        if isinstance(earlier, Commits) and index is not None and _continues(earlier, event):
            found[index] = earlier._replace(
                commits=earlier.commits + event.commits,
                last_offset=event.last_offset,
                last_time_ms=event.last_time_ms,
                topic_id=event.topic_id,
            )
        else:
            last[place] = len(found)
            found.append(event)
    return found


def _continues(earlier: Commits, event: Commits) -> bool:
    is_rising = event.first_offset >= earlier.last_offset
    is_soon = event.time_ms - earlier.last_time_ms <= PAUSE_MS
    return is_rising and is_soon and event.topic_id == earlier.topic_id
