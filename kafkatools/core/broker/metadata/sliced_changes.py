"""Applies metadata changes on a broker a few partitions at a time, in between the requests of other clients.

Rules:
- Changes are applied in order. While one is being applied, later ones queue up behind it, whichever thread makes them.
- On a node alone a change is applied at once, except for a thread inside of `collect`. A slow-lane request collects its
  changes and then applies them with pauses (`work_off`). If its client disconnects, `tick` applies the rest. `tick`
  also applies the topics that a Metadata request creates.
- A request for a partition that is not applied yet gets a retriable error.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from kafkatools.core.broker.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    MetadataDelta,
    MetadataImage,
    TopicState,
)

PARTITIONS_AT_ONCE = 4
TOPICS_AT_ONCE = 10


class SlicedChanges:
    """The queue of metadata changes that a node has yet to apply."""

    def __init__(self, apply: Callable[[MetadataDelta], None], image: MetadataImage) -> None:
        self._apply = apply
        self._image = image
        self._parts: deque[Iterator[MetadataDelta]] = deque()
        self._collectors: set[int] = set()  # the threads whose changes wait for `work_off`
        self._workers = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """Return 0 while `tick` has queued changes to apply, else None."""
        return 0 if self._parts and not self._workers else None

    def tick(self, now_ms: int) -> None:
        """Apply one slice of the queue, unless a request is applying it."""
        if self._parts and not self._workers:
            self._step()

    def take(self, delta: MetadataDelta) -> None:
        """Apply a change at once. It is queued instead if other changes are queued, or if this thread is inside of
        `collect`."""
        if self._parts or threading.get_ident() in self._collectors:
            self._parts.append(slices(delta, PARTITIONS_AT_ONCE, self._image))
        else:
            self._apply(delta)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Queue the changes that this thread makes inside of the `with` block."""
        self._collectors.add(threading.get_ident())
        try:
            yield
        finally:
            self._collectors.discard(threading.get_ident())

    def work_off(self, pause: Callable[[], None]) -> None:
        """Apply all queued changes, also those queued meanwhile, and call `pause` after each slice."""
        self._workers += 1
        try:
            while self._parts:
                self._step()
                pause()
        finally:
            self._workers -= 1

    def _step(self) -> None:
        part = next(self._parts[0], None)
        if part is None:
            self._parts.popleft()
        else:
            self._apply(still_there(part, self._image))


def slices(delta: MetadataDelta, partitions_at_once: int, image: MetadataImage) -> Iterator[MetadataDelta]:
    """Split a delta into parts of at most `partitions_at_once` partitions, or of the settings of `TOPICS_AT_ONCE`
    topics. Settings come first, then removed and then changed topics. A removed topic comes with its last
    partitions."""
    yield from _settings(delta, image)
    part, room = MetadataDelta(changed_brokers=delta.changed_brokers), partitions_at_once
    for topic in delta.removed_topics.values():
        *pieces, last = _pieces(topic, room, partitions_at_once)
        for piece in pieces:
            part.removed_partitions[topic.topic_id] = piece
            yield part
            part, room = MetadataDelta(), partitions_at_once
        part.removed_topics[topic.topic_id] = topic
        room -= len(last.partitions)
        if room <= 0:
            yield part
            part, room = MetadataDelta(), partitions_at_once
    for topic in delta.changed_topics.values():
        for piece in _pieces(topic, room, partitions_at_once):
            part.changed_topics[topic.topic_id] = piece
            room -= len(piece.partitions)
            if room <= 0:
                yield part
                part, room = MetadataDelta(), partitions_at_once
    if part.removed_topics or part.changed_topics or part.changed_brokers:
        yield part


def _settings(delta: MetadataDelta, image: MetadataImage) -> Iterator[MetadataDelta]:
    """Yield the changed settings of topics in parts. A broker's settings are the defaults of all topics."""
    names = {name: None for kind, name in delta.changed_configs if kind == TOPIC_RESOURCE}
    if any(kind == BROKER_RESOURCE for kind, _ in delta.changed_configs):
        names |= dict.fromkeys(image.topics)
    keys = [(TOPIC_RESOURCE, name) for name in names]
    for start in range(0, len(keys), TOPICS_AT_ONCE):
        yield MetadataDelta(changed_configs=set(keys[start : start + TOPICS_AT_ONCE]))


def _pieces(topic: TopicState, room: int, partitions_at_once: int) -> list[TopicState]:
    """Split a topic's partitions: at most `room` of them first, then `partitions_at_once` each. A topic that fits is
    returned itself."""
    indexes = list(topic.partitions)
    if len(indexes) <= room:
        return [topic]
    starts = [0, *range(room, len(indexes), partitions_at_once)]
    return [
        replace(topic, partitions={index: topic.partitions[index] for index in indexes[start:end]})
        for start, end in zip(starts, [*starts[1:], len(indexes)], strict=True)
    ]


def still_there(part: MetadataDelta, image: MetadataImage) -> MetadataDelta:
    """Remove the topics that have been deleted since from a delta, in place, and return it."""
    deleted_ids = [topic_id for topic_id in part.changed_topics if topic_id not in image.topics_by_id]
    for topic_id in deleted_ids:
        del part.changed_topics[topic_id]
    return part
