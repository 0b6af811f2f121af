"""Findings: causes that hold, where, and with which evidence; and the words that all causes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkatools.tools.diagnosis.observations import Observations, TopicPartition

Place = tuple[str, object]
"""A thing that a finding is about or has an effect on: ("group", "shop"), ("partition", ("orders", 0)), ("broker", 2),
("transaction", "copy-1"), ("cluster", "")."""

_MAX_NAMES = 3


class Finding(NamedTuple):
    """One cause at some places. `sentence` is the verdict, `command` the words of the next command after `kt`, without
    the options of the connection. `then` are those of the command that is refused until the user has acted on the
    first, such as a reset of offsets that a member still has; empty if there is none."""

    sentence: str
    evidence: tuple[str, ...]
    command: tuple[str, ...]
    places: frozenset[Place]
    then: tuple[str, ...] = ()


class Cause(NamedTuple):
    """A row of the catalogue. `kinds`: the subjects for which it is examined. `explains`: the causes that are its
    consequences where they share a place."""

    id: str
    title: str
    meaning: str
    remedy: str
    kinds: tuple[str, ...]
    find: Callable[[Observations], Iterable[Finding]]
    explains: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """The section of the documentation about this cause."""
        return f"docs/why.md#{self.id}"


def partition_places(keys: Iterable[TopicPartition]) -> Iterator[Place]:
    """Yield the places of partitions."""
    for key in keys:
        yield "partition", key


def places(*items: Place | Iterable[Place]) -> frozenset[Place]:
    """Return a set of places, of single ones and of iterables of them."""
    found: set[Place] = set()
    for item in items:
        if isinstance(item, tuple) and item and isinstance(item[0], str):
            found.add((item[0], item[1]))
        else:
            found.update(item)  # type: ignore[arg-type]
    return frozenset(found)


def names(items: Sequence[object]) -> str:
    """Return the first three names and how many more there are: `a, b, c and 2 more`."""
    rest = f" and {len(items) - _MAX_NAMES} more" if len(items) > _MAX_NAMES else ""
    return ", ".join(map(str, items[:_MAX_NAMES])) + rest


def partition_names(keys: Iterable[TopicPartition]) -> str:
    """Return the first three partitions, internal topics last, and how many more there are."""
    shown = sorted(keys, key=lambda key: key[0].startswith("__"))
    return names([f"{topic}-{partition}" for topic, partition in shown])


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 member`, `3 members`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def waiting_records(number: int) -> str:
    """Return how many records wait: `1 record waits`, `1,200 records wait`."""
    return "1 record waits" if number == 1 else f"{number:,} records wait"


def duration(ms: float) -> str:
    """Return a duration in words that a person reads: `850 ms`, `12 s`, `5 min`, `3 h`, `2 days`."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    for limit_s, unit_s, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if ms / 1000 < limit_s:
            return f"{ms / 1000 / unit_s:.0f} {unit}"
    return f"{ms / 86_400_000:.0f} days"
