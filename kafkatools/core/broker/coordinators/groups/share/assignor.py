"""The assignor of share groups (Kafka's SimpleAssignor, KIP-932).

Each partition with a subscriber is assigned to a member. Members with equal subscriptions get numbers of partitions
that differ by about one; with different ones each topic is divided on its own. With fewer members than partitions each
partition goes to one member, with more members several share a partition. Members keep their partitions where this
allows. Which member gets which partition follows from the order of Java's hash maps, as in Kafka; partitions of one
bucket count as added in ascending order, where Kafka's order depends on earlier assignments.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment
from kafkatools.core.java.hash_order import copied_partition_order, hash_order, topic_order
from kafkatools.core.java.hashes import uuid_hash

Place = tuple[uuid.UUID, int]


def assign(
    subscriptions: Mapping[str, frozenset[uuid.UUID]],
    partitions: Mapping[uuid.UUID, frozenset[int]],
    present: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The target assignment of each member of a share group, as partitions by topic id. `subscriptions` is by member,
    `partitions` by topic; topics that `partitions` lacks are left out. `present` has the assignments to keep where
    possible, by member."""
    members = hash_order(subscriptions)
    result: dict[str, dict[uuid.UUID, frozenset[int]]] = {member: {} for member in members}
    topics = {topic for chosen in subscriptions.values() for topic in chosen}
    is_equal = len(set(subscriptions.values())) == 1
    for together in [topics] if is_equal else [{topic} for topic in topic_order(topics)]:
        readers = [index for index, member in enumerate(members) if together <= subscriptions[members[index]]]
        places = [(topic, number) for topic in topic_order(together) for number in sorted(partitions.get(topic, ()))]
        owned = [_places_of(present.get(member, {}), together) for member in members]
        division = _Division(places, readers, owned, is_by_topic=not is_equal)
        for member, member_places in zip(members, division.divided(), strict=True):
            result[member].update(_by_topic(member_places))
    return dict(result)


def _places_of(assignment: Assignment, topics: set[uuid.UUID]) -> list[Place]:
    return [
        (topic, number)
        for topic in topic_order(assignment)
        if topic in topics
        for number in copied_partition_order(assignment[topic])
    ]


def _by_topic(places: Iterable[Place]) -> Assignment:
    topics: dict[uuid.UUID, set[int]] = {}
    for topic, number in places:
        topics.setdefault(topic, set()).add(number)
    return {topic: frozenset(numbers) for topic, numbers in topics.items()}


class _Division:
    """Divides partitions among readers, which are indexes of members. `owned` has the present partitions of each
    member. `is_by_topic`: the partitions are those of one topic, since subscriptions differ."""

    def __init__(self, places: list[Place], readers: list[int], owned: list[list[Place]], *, is_by_topic: bool) -> None:
        self._places = places
        self._readers = readers
        self._is_by_topic = is_by_topic
        self._sharing = -(-len(readers) // len(places)) if places else 0
        self._counts = self._desired_counts(len(owned))
        self._owned = owned
        self._by_member: list[dict[Place, None]] = [dict.fromkeys(member_places) for member_places in owned]
        self._by_place: dict[Place, dict[int, None]] = {}
        for index, member_places in enumerate(owned):
            for place in member_places:
                self._by_place.setdefault(place, {})[index] = None

    def _desired_counts(self, members: int) -> list[int]:
        """The number of partitions for each member. The parts differ by one at most; by one more where Kafka's
        floating-point numbers round up."""
        counts, total = [0] * members, self._sharing * len(self._places)
        for position, index in enumerate(self._readers):
            precise = total / len(self._readers)
            counts[index] = math.ceil(precise * (position + 1)) - math.ceil(precise * position)
        return counts

    def divided(self) -> list[dict[Place, None]]:
        """Return the partitions of each member."""
        unfilled = self._unfilled()
        self._revoke_excess()
        revoked = self._revoke_shared()
        unfilled = self._unfilled() if self._is_by_topic else unfilled | revoked
        for place in self._places:
            self._by_place.setdefault(place, {})
        self._fill(sorted(unfilled))
        return self._by_member

    def _unfilled(self) -> set[int]:
        return {index for index in self._readers if len(self._by_member[index]) < self._counts[index]}

    def _order(self) -> list[Place]:
        """The partitions in the order of a HashMap that was made for that many (AssignorHelpers.newHashMap).
        `computeIfAbsent` adds a key in front of the others of its bucket."""
        hash_of = _number_of if self._is_by_topic else _place_hash
        return hash_order(reversed(self._by_place), hash_of, int((len(self._places) + 1) / 0.75 + 1))

    def _revoke(self, place: Place, index: int) -> None:
        self._by_place[place].pop(index, None)
        self._by_member[index].pop(place, None)

    def _revoke_excess(self) -> None:
        """Take partitions from members with too many."""
        for index, owned in enumerate(self._owned):
            for place in hash_order(owned, _number_of if self._is_by_topic else _place_hash):
                if len(self._by_member[index]) <= self._counts[index]:
                    break
                if place in self._by_member[index]:
                    self._revoke(place, index)

    def _revoke_shared(self) -> set[int]:
        """Take partitions with too many members from some of them; return the members that lost any."""
        revoked = set()
        for place in self._order():
            for index in hash_order(self._by_place[place], int)[: max(0, len(self._by_place[place]) - self._sharing)]:
                self._revoke(place, index)
                revoked.add(index)
        return revoked

    def _fill(self, unfilled: list[int]) -> None:
        """Give partitions with too few members to members with too few partitions, in turns. If none of these can take
        a partition, because they have it already, it stays with fewer members."""
        position, has_given = 0, False
        for place in self._order():
            before = set(self._by_place[place])
            missing = self._sharing - len(before)
            while missing > 0 and unfilled:
                if position >= len(unfilled):
                    if not has_given:
                        break
                    position, has_given = 0, False
                index = unfilled[position]
                position += 1
                if index in before:
                    continue
                self._by_member[index][place] = None
                missing, has_given = missing - 1, True
                if len(self._by_member[index]) >= self._counts[index]:
                    position -= 1
                    del unfilled[position]


def _number_of(place: Place) -> int:
    return place[1]


def _place_hash(place: Place) -> int:
    return 31 * uuid_hash(place[0]) + place[1] & 0xFFFFFFFF
