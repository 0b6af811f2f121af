"""All views by the name of their places, and the names of places on the screen."""

from __future__ import annotations

from kafkatools.commands.monitor.terminal import cluster_views, group_views, places, topic_views
from kafkatools.commands.monitor.terminal.model import Model
from kafkatools.commands.monitor.terminal.places import Place
from kafkatools.commands.monitor.terminal.views import View
from kafkatools.output import visible

VIEWS: dict[str, View] = {
    places.OVERVIEW: cluster_views.OVERVIEW,
    places.BROKERS: cluster_views.BROKERS,
    places.TOPICS: topic_views.TOPICS,
    places.GROUPS: group_views.GROUPS,
    places.EVENTS: cluster_views.EVENTS,
    places.PARTITIONS: topic_views.PARTITIONS,
    places.LAG: group_views.LAG,
    places.QUORUM: cluster_views.QUORUM,
    places.LOG_DIRS: cluster_views.LOG_DIRS,
    places.BROKER: topic_views.ONE_BROKER,
    places.TOPIC: topic_views.ONE_TOPIC,
    places.PARTITION: topic_views.ONE_PARTITION,
    places.GROUP: group_views.ONE_GROUP,
    places.MEMBER: group_views.ONE_MEMBER,
}


def title_of(place: Place, model: Model) -> str:
    """Return a place as a step of the breadcrumb, with control characters escaped."""
    if not place.target:
        return VIEWS[place.view].title
    if place.view == places.PARTITIONS:
        return f"{place.name} partitions"
    if place.view == places.PARTITION:
        return visible(place.name)
    if place.view == places.MEMBER:
        return visible(_member(place, model))
    return visible(f"{place.view} {place.name}")


def _member(place: Place, model: Model) -> str:
    member_id = str(place.target[1])
    described = None if model.details is None else model.details.group
    for member in described.members if described is not None else ():
        if member.member_id == member_id:
            return f"member {member.client_id or member_id}"
    return f"member {member_id}" if member_id else "no member"
