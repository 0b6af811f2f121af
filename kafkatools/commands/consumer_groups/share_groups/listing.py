"""The share groups of a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.commands.consumer_groups.session import Session
from kafkatools.core.admin.groups import SHARE, GroupListing, list_groups


def share_groups(session: Session, states: Iterable[str] = ()) -> tuple[list[GroupListing], bool]:
    """All share groups in the order of Kafka's hash map, and whether every broker answered.

    Raises KafkaError when no broker did.
    """
    found = list_groups(session.admin, states=tuple(states), types=(SHARE.lower(),))
    return session.ordered(found)
