"""The events of a group's timeline. Offsets named `log_offset` are those of records of `__consumer_offsets`.

A `Place` names its topic by name or, in assignments of the newer protocols, by id: `TopicNames` has the names.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.protocol.uuids import uuid_text

Place = tuple[str | uuid.UUID, int]

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"
_LEAST_MS = 1000


class Member(NamedTuple):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str


class Moved(NamedTuple):
    """The partitions (in streams groups: tasks) that a new assignment gives to a member or takes from it."""

    member_id: str
    added: tuple[Place, ...]
    removed: tuple[Place, ...]


class Rebalance(NamedTuple):
    """A new generation of a classic group, or a new epoch or target assignment of another group. `generation` is the
    generation or group epoch, None if no record has it. `assignor` and `leader` are those of classic groups."""

    log_offset: int
    time_ms: int
    protocol: str
    state: str
    generation: int | None
    assignor: str | None
    leader: str | None
    members: int
    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    moved: tuple[Moved, ...]


class Handover(NamedTuple):
    """A member of a group of a newer protocol got or gave up partitions. `revoking`: those that it has to give up
    from now on; it still has them."""

    log_offset: int
    time_ms: int
    member: Member
    epoch: int
    added: tuple[Place, ...]
    removed: tuple[Place, ...]
    revoking: tuple[Place, ...]


class Commits(NamedTuple):
    """Consecutive commits of one partition. `previous`: the committed offset before them, None if unknown. `log_end`:
    the log end offset at the last of them, None if unknown. `is_pending`: in a transaction without a marker so far."""

    log_offset: int
    time_ms: int
    topic: str
    partition: int
    commits: int
    previous: int | None
    first_offset: int
    last_offset: int
    last_time_ms: int
    topic_id: uuid.UUID | None = None
    is_pending: bool = False
    log_end: int | None = None

    @property
    def lag(self) -> int | None:
        """Records between the last committed offset and the log end, None if unknown."""
        return None if self.log_end is None else self.log_end - self.last_offset

    @property
    def per_second(self) -> float | None:
        """Records consumed per second between the first and the last commit, None if they are less than a second
        apart."""
        duration_ms = self.last_time_ms - self.time_ms
        return None if duration_ms < _LEAST_MS else (self.last_offset - self.first_offset) * 1000 / duration_ms


class OffsetDeleted(NamedTuple):
    """A committed offset expired or was deleted. `offset`: the deleted one, None if unknown."""

    log_offset: int
    time_ms: int
    topic: str
    partition: int
    offset: int | None


class GroupDeleted(NamedTuple):
    """The group was deleted, or expired without members and offsets."""

    log_offset: int
    time_ms: int
    protocol: str


Event = Rebalance | Handover | Commits | OffsetDeleted | GroupDeleted


class TopicNames:
    """The names of topic ids. An id without a name is its own text."""

    def __init__(self, names: Mapping[uuid.UUID, str]) -> None:
        self._names = dict(names)

    def learn(self, topic_id: uuid.UUID | None, name: str) -> None:
        """Note the name that a record has for an id, unless one is known."""
        if topic_id is not None and topic_id.int:
            self._names.setdefault(topic_id, name)

    def name(self, topic: str | uuid.UUID) -> str:
        """Return the name of a topic."""
        if isinstance(topic, str):
            return topic
        return self._names.get(topic) or uuid_text(topic)

    def places(self, places: Iterable[Place]) -> list[tuple[str, int]]:
        """Return the partitions with the names of their topics, sorted."""
        return sorted((self.name(topic), number) for topic, number in places)
