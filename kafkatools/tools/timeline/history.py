"""Turn the records of a group into events, batch by batch in the order of the log. Without I/O.

Rules: a coordinator writes the records of one change together, so the members and assignments before and after a change
are compared. A tombstone deletes the group unless the same change has records of another protocol, to which it was
converted. Source: GroupCoordinatorRecordHelpers and the replay methods of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kafkatools.core.errors import DecodeError
from kafkatools.core.group.subscription_protocol import decode_assignment
from kafkatools.core.protocol.entities import Entity
from kafkatools.tools.timeline.events import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    Commits,
    Event,
    GroupDeleted,
    Handover,
    Member,
    Moved,
    OffsetDeleted,
    Place,
    Rebalance,
    TopicNames,
)
from kafkatools.tools.timeline.group_records import GroupRecord

_CONSUMERS = "consumer"
_STABLE_MEMBER = {CONSUMER: 0, STREAMS: 1}
"""The state of a member that has what it is assigned (MemberState of the packages modern and streams)."""
_OFFSET_KEYS = ("OffsetCommitKey", "LegacyOffsetCommitKey")
_PREFIXES = {CONSUMER: "ConsumerGroup", SHARE: "ShareGroup", STREAMS: "StreamsGroup"}
_PROTOCOLS = {f"{prefix}MetadataKey": protocol for protocol, prefix in {CLASSIC: "Group", **_PREFIXES}.items()}
"""The protocol of a group by the key whose tombstone deletes the group."""

Places = frozenset[Place]


class _Owned(NamedTuple):
    """The partitions that a member has, and those that it has to give up."""

    epoch: int
    state: int
    places: Places
    revoking: Places

    @property
    def held(self) -> Places:
        """The partitions that no other member may have."""
        return self.places | self.revoking


_NOTHING = _Owned(-1, 0, frozenset(), frozenset())


class _State(NamedTuple):
    """The group before a batch."""

    members: Mapping[str, Member]
    targets: Mapping[str, Places]
    owned: Mapping[str, _Owned]
    epoch: int | None
    target_epoch: int | None


class History:
    """The group after the batches so far. `names` learns the topics of commits."""

    def __init__(self, names: TopicNames) -> None:
        self._names = names
        self._protocol: str | None = None
        self._epoch: int | None = None
        self._target_epoch: int | None = None
        self._assignor: str | None = None
        self._leader: str | None = None
        self._topology_epoch: int | None = None
        self._validated_topology_epoch: int | None = None
        self._members: dict[str, Member] = {}
        self._targets: dict[str, Places] = {}
        self._owned: dict[str, _Owned] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self.topics: set[str] = set()
        """The topics with commits so far."""
        self._appliers = self._table()

    def _table(self) -> dict[str, Callable[[GroupRecord], None]]:
        """Return the method for each type of key that changes members or assignments."""
        table: dict[str, Callable[[GroupRecord], None]] = {"GroupMetadataKey": self._apply_classic}
        for protocol, prefix in _PREFIXES.items():
            table[f"{prefix}MetadataKey"] = partial(self._apply_epoch, protocol)
            table[f"{prefix}MemberMetadataKey"] = self._apply_member
            table[f"{prefix}TargetAssignmentMetadataKey"] = self._apply_target_epoch
            table[f"{prefix}TargetAssignmentMemberKey"] = self._apply_target
            table[f"{prefix}CurrentMemberAssignmentKey"] = self._apply_owned
        table["StreamsGroupTopologyKey"] = self._apply_topology
        return table

    def events(self, records: Sequence[GroupRecord]) -> Iterator[Event]:
        """Apply the records of one batch; yield the resulting events."""
        changes = [record for record in records if _kind(record) in self._appliers]
        for change in _single_changes(changes):
            yield from self._changes(change)
        for record in records:
            if _kind(record) in _OFFSET_KEYS:
                yield self._offset(record)

    def pending(self, records: Iterable[GroupRecord]) -> Iterator[Event]:
        """Yield the commits of open transactions. They change nothing."""
        for record in records:
            if _kind(record) in _OFFSET_KEYS and record.value is not None:
                yield self._commit(record, record.value)._replace(is_pending=True)

    # --- offsets

    def _offset(self, record: GroupRecord) -> Event:
        place = record.key.topic, record.key.partition
        if record.value is None:
            return OffsetDeleted(record.log_offset, record.time_ms, *place, self._offsets.pop(place, None))
        commit = self._commit(record, record.value)
        self._offsets[place] = commit.last_offset
        return commit

    def _commit(self, record: GroupRecord, value: Entity) -> Commits:
        key = record.key
        topic_id = getattr(value, "topic_id", None)
        self._names.learn(topic_id, key.topic)
        self.topics.add(key.topic)
        previous, time_ms = self._offsets.get((key.topic, key.partition)), value.commit_timestamp
        return Commits(
            record.log_offset, time_ms, key.topic, key.partition, 1, previous, value.offset, value.offset, time_ms,
            topic_id if topic_id is not None and topic_id.int else None,
        )  # fmt: skip

    # --- members and assignments

    def _changes(self, records: Sequence[GroupRecord]) -> Iterator[Event]:
        before = _State(dict(self._members), dict(self._targets), dict(self._owned), self._epoch, self._target_epoch)
        for record in records:
            self._appliers[_kind(record)](record)
        first = records[0]
        deleted = [
            _PROTOCOLS[_kind(record)] for record in records if _kind(record) in _PROTOCOLS and record.value is None
        ]
        if deleted and self._protocol is None:
            yield GroupDeleted(first.log_offset, first.time_ms, deleted[0])
            return
        rebalance = self._rebalance(first, before)
        is_classic = any(_kind(record) == "GroupMetadataKey" and record.value is not None for record in records)
        is_new = (self._epoch, self._target_epoch) != (before.epoch, before.target_epoch)
        if is_classic or is_new or rebalance.joined or rebalance.left or rebalance.moved:
            yield rebalance
        yield from self._handovers(records, before)

    def _rebalance(self, first: GroupRecord, before: _State) -> Rebalance:
        joined = tuple(member for name, member in sorted(self._members.items()) if name not in before.members)
        left = tuple(member for name, member in sorted(before.members.items()) if name not in self._members)
        moved = tuple(
            Moved(name, added, removed)
            for name in sorted(self._targets.keys() | before.targets.keys())
            for added, removed in [self._difference(self._targets.get(name), before.targets.get(name))]
            if added or removed
        )
        return Rebalance(
            first.log_offset, first.time_ms, self._protocol or CLASSIC, self._group_state(), self._epoch,
            self._assignor, self._leader, len(self._members), joined, left, moved,
        )  # fmt: skip

    def _group_state(self) -> str:
        """Return Kafka's name of the state that the records describe (maybeUpdateGroupState of ConsumerGroup and
        StreamsGroup)."""
        if not self._members:
            return "Empty"
        if self._protocol in (CLASSIC, SHARE) or self._protocol is None:
            return "Stable"
        if self._protocol == STREAMS and self._topology_epoch != self._validated_topology_epoch:
            return "NotReady"
        if self._epoch is not None and (self._target_epoch is None or self._target_epoch < self._epoch):
            return "Assigning"
        for name in self._members:
            owned = self._owned.get(name)
            if owned is None or owned.state != _STABLE_MEMBER[self._protocol] or owned.epoch != self._target_epoch:
                return "Reconciling"
        return "Stable"

    def _handovers(self, records: Sequence[GroupRecord], before: _State) -> Iterator[Handover]:
        for record in records:
            if not _kind(record).endswith("CurrentMemberAssignmentKey") or record.value is None:
                continue
            name = record.key.member_id
            owned, earlier = self._owned.get(name, _NOTHING), before.owned.get(name, _NOTHING)
            added, removed = self._difference(owned.held, earlier.held)
            revoking = _sorted(owned.revoking - earlier.revoking)
            if added or removed or revoking:
                member = self._members.get(name) or Member(name, None, "", "")
                yield Handover(record.log_offset, record.time_ms, member, owned.epoch, added, removed, revoking)

    def _difference(self, now: Places | None, before: Places | None) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return the added and the removed partitions. Their topics are compared by name: a group that was converted
        had names and has ids, or the other way round."""
        current = {(self._names.name(place[0]), place[1]): place for place in now or ()}
        earlier = {(self._names.name(place[0]), place[1]): place for place in before or ()}
        added = frozenset(current[key] for key in current.keys() - earlier.keys())
        removed = frozenset(earlier[key] for key in earlier.keys() - current.keys())
        return _sorted(added), _sorted(removed)

    def _apply_classic(self, record: GroupRecord) -> None:
        value = record.value
        if value is None:
            self._delete(CLASSIC)
            return
        self._enter(CLASSIC)
        self._epoch, self._assignor, self._leader = value.generation, value.protocol or None, value.leader or None
        self._members = {
            one.member_id: Member(
                one.member_id, getattr(one, "group_instance_id", None), one.client_id, one.client_host
            )
            for one in value.members
        }
        is_of_consumers = value.protocol_type == _CONSUMERS
        self._targets = {one.member_id: _assigned(one.assignment, is_of_consumers) for one in value.members}

    def _apply_epoch(self, protocol: str, record: GroupRecord) -> None:
        if record.value is None:
            self._delete(protocol)
            return
        self._enter(protocol)
        self._epoch = record.value.epoch
        self._validated_topology_epoch = getattr(record.value, "validated_topology_epoch", None)

    def _apply_topology(self, record: GroupRecord) -> None:
        self._topology_epoch = None if record.value is None else record.value.epoch

    def _apply_member(self, record: GroupRecord) -> None:
        key, value = record.key, record.value
        if value is None:
            self._members.pop(key.member_id, None)
            return
        self._members[key.member_id] = Member(
            key.member_id, getattr(value, "instance_id", None), value.client_id, value.client_host
        )

    def _apply_target_epoch(self, record: GroupRecord) -> None:
        self._target_epoch = None if record.value is None else record.value.assignment_epoch

    def _apply_target(self, record: GroupRecord) -> None:
        if record.value is None:
            self._targets.pop(record.key.member_id, None)
        else:
            self._targets[record.key.member_id] = _places(record.value)

    def _apply_owned(self, record: GroupRecord) -> None:
        value = record.value
        if value is None:
            self._owned.pop(record.key.member_id, None)
            return
        revoking = _flat(getattr(value, "partitions_pending_revocation", ())) or _tasks(
            getattr(value, "active_tasks_pending_revocation", ())
        )
        self._owned[record.key.member_id] = _Owned(value.member_epoch, value.state, _places(value), revoking)

    def _enter(self, protocol: str) -> None:
        """Begin a group of this protocol, if it is another one than before."""
        if self._protocol != protocol:
            self._protocol = protocol
            self._epoch = self._target_epoch = self._assignor = self._leader = None
            self._owned = {}

    def _delete(self, protocol: str) -> None:
        if self._protocol not in (protocol, None):
            return
        self._protocol = self._epoch = self._target_epoch = self._assignor = self._leader = None
        self._members, self._targets, self._owned = {}, {}, {}


def _kind(record: GroupRecord) -> str:
    name: str = type(record.key).__schema__.name
    return name


def _single_changes(records: Sequence[GroupRecord]) -> Iterator[list[GroupRecord]]:
    """Split the records of a batch into changes: a coordinator may write several in one (append.linger.ms). A change
    has at most one record of the group, and begins with those of its members."""
    change: list[GroupRecord] = []
    is_written = False
    for record in records:
        kind, is_tombstone = _kind(record), record.value is None
        is_of_group = kind in _PROTOCOLS and not is_tombstone
        begins = kind.endswith("MemberMetadataKey") or (kind.endswith("CurrentMemberAssignmentKey") and is_tombstone)
        if is_written and (is_of_group or begins):
            yield change
            change, is_written = [], False
        change.append(record)
        is_written = is_written or is_of_group
    if change:
        yield change


def _assigned(data: bytes | memoryview, is_of_consumers: bool) -> Places:
    """Return the partitions of a classic member; none for other kinds of members, such as workers of Connect, and for
    bytes that cannot be decoded."""
    if not is_of_consumers:
        return frozenset()
    try:
        return frozenset((part[0], part[1]) for part in decode_assignment(bytes(data)).partitions)
    except DecodeError:
        return frozenset()


def _places(value: Entity) -> Places:
    """Return the partitions of an assignment; the active tasks of a streams member."""
    if hasattr(value, "active_tasks"):
        return _tasks(value.active_tasks)
    return _flat(value.assigned_partitions if hasattr(value, "assigned_partitions") else value.topic_partitions)


def _flat(topics: Iterable[Entity]) -> Places:
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)


def _tasks(tasks: Iterable[Entity]) -> Places:
    return frozenset((task.subtopology_id, number) for task in tasks for number in task.partitions)


def _sorted(places: Places) -> tuple[Place, ...]:
    return tuple(sorted(places, key=lambda place: (str(place[0]), place[1])))
