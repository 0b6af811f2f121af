"""Predict errors before groups or offsets are deleted: groups with members, subscribed topics, unreadable offsets."""

from __future__ import annotations

from collections.abc import Collection

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import GroupOffsets, fetch_offsets
from kafkatools.core.admin.groups import DEAD, EMPTY, UNKNOWN, describe_groups, list_groups
from kafkatools.core.errors import GroupIdNotFound, GroupSubscribedToTopic, KafkaError, NonEmptyGroup


def refusals(admin: AdminClient, names: Collection[str]) -> dict[str, KafkaError | None]:
    """Return each group's expected deletion error, None if it can be deleted. Raises KafkaError if a broker did not
    list its groups and a requested group was not listed."""
    listings = list_groups(admin)
    states = {listing.group_id: listing.state for listing in listings.groups}
    if listings.errors and any(name not in states for name in names):
        raise next(iter(listings.errors.values()))
    free = (EMPTY, DEAD, UNKNOWN)
    return {
        name: GroupIdNotFound() if name not in states else None if states[name] in free else NonEmptyGroup()
        for name in names
    }


def subscribed_topics(admin: AdminClient, group_id: str) -> dict[str, KafkaError]:
    """Return GroupSubscribedToTopic for each topic assigned to members. Raises KafkaError if the group cannot be
    described."""
    description = describe_groups(admin, [group_id])[group_id]
    if description.error is not None:
        raise description.error
    return {topic: GroupSubscribedToTopic() for member in description.members for topic, _ in member.assignment}


def committed_offsets(admin: AdminClient, names: Collection[str]) -> dict[str, GroupOffsets]:
    """Return the committed offsets of groups. Raises KafkaError when any of them cannot be fetched."""
    committed = fetch_offsets(admin, names)
    for offsets in committed.values():
        error = offsets.error or next(iter(offsets.errors.values()), None)
        if error is not None:
            raise error
    return committed
