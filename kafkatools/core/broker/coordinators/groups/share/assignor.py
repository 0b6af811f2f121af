"""The assignor of share groups (Kafka's SimpleAssignor, KIP-932).

Each partition with a subscriber is assigned to a member. Members with equal subscriptions get numbers of partitions
that differ by about one; with different ones each topic is divided on its own. With fewer members than partitions each
partition goes to one member, with more members several share a partition. Members keep their partitions where this
allows.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment

Place = tuple[uuid.UUID, int]


def assign(
    subscriptions: Mapping[str, frozenset[uuid.UUID]],
    partitions: Mapping[uuid.UUID, frozenset[int]],
    present: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The target assignment of each member of a share group, as partitions by topic id. `subscriptions` is by member,
    `partitions` by topic; topics that `partitions` lacks are left out. `present` has the assignments to keep where
    possible, by member."""
    members = sorted(subscriptions)
    if len(set(subscriptions.values())) == 1:
        topics = next(iter(subscriptions.values()))
        return _shared(members, _places(topics, partitions), present)
    result: dict[str, dict[uuid.UUID, frozenset[int]]] = {member: {} for member in members}
    for topic_id in sorted({topic for topics in subscriptions.values() for topic in topics}):
        readers = [member for member in members if topic_id in subscriptions[member]]
        places = _places({topic_id}, partitions)
        for member, assignment in _shared(readers, places, present).items():
            result[member].update(assignment)
    return dict(result)


def _places(
    topics: frozenset[uuid.UUID] | set[uuid.UUID], partitions: Mapping[uuid.UUID, frozenset[int]]
) -> list[Place]:
    return [(topic, partition) for topic in sorted(topics) for partition in sorted(partitions.get(topic, ()))]


def _shared(members: list[str], places: list[Place], present: Mapping[str, Assignment]) -> dict[str, Assignment]:
    if not members or not places:
        return {member: {} for member in members}
    readers_each = -(-len(members) // len(places))
    room = _shares(members, readers_each * len(places))
    missing = dict.fromkeys(places, readers_each)
    result: dict[str, dict[Place, None]] = {member: {} for member in members}
    for member in members:
        for topic_id, partitions in sorted(present.get(member, {}).items()):
            for partition in sorted(partitions):
                place = (topic_id, partition)
                if room[member] and missing.get(place):
                    room[member] -= 1
                    missing[place] -= 1
                    result[member][place] = None
    _fill(members, room, missing, result)
    return {member: _by_topic(member_places) for member, member_places in result.items()}


def _shares(members: list[str], total: int) -> dict[str, int]:
    """The number of partitions for each member: `total` divided into parts that differ by one at most."""
    bounds = [-(-total * index // len(members)) for index in range(len(members) + 1)]
    return {member: bounds[i + 1] - bounds[i] for i, member in enumerate(members)}


def _fill(
    members: list[str], room: dict[str, int], missing: dict[Place, int], result: dict[str, dict[Place, None]]
) -> None:
    """Give partitions with too few members to members with too few partitions, never twice to one member. A partition
    that is still without a member goes to the member with the fewest partitions."""
    for member in members:
        if not room[member]:
            continue
        for place in sorted((place for place in missing if missing[place]), key=lambda place: -missing[place]):
            if not room[member]:
                break
            if place not in result[member]:
                missing[place] -= 1
                room[member] -= 1
                result[member][place] = None
    for place in [place for place, count in missing.items() if count and not _is_read(place, result)]:
        result[min(members, key=lambda member: len(result[member]))][place] = None


def _is_read(place: Place, result: dict[str, dict[Place, None]]) -> bool:
    return any(place in member_places for member_places in result.values())


def _by_topic(places: dict[Place, None]) -> Assignment:
    topics: dict[uuid.UUID, set[int]] = {}
    for topic_id, partition in places:
        topics.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
