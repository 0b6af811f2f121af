"""The repartition and changelog topics of streams groups, as --delete-all-internal-topics deletes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kafkatools.commands.consumer_groups.session import Session
from kafkatools.core.admin.streams_groups import StreamsGroupDescription
from kafkatools.core.admin.topics import delete_topics
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition

_FORM = re.compile(
    r".*-(changelog|repartition|subscription-registration-topic|subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic"
)


def is_internal_topic(topic: str, group_id: str) -> bool:
    """Return whether a topic's name is that of an internal topic of this application
    (StreamsGroupCommand.isInferredInternalTopic)."""
    return topic.startswith(f"{group_id}-") and _FORM.fullmatch(topic) is not None


def internal_topics(session: Session, description: StreamsGroupDescription) -> list[str]:
    """Return the internal topics of a group. Prints those whose names do not show it: they are not deleted."""
    group_id, found = description.group_id, []
    for topic in description.internal_topics:
        if is_internal_topic(topic, group_id):
            found.append(topic)
        else:
            session.complain(
                f"Error: The internal topic '{topic}' is not inferred as internal and thus will not be deleted with "
                f"the group '{group_id}'.",
                group=group_id,
                topic=topic,
            )
    return found


def delete_internal_topics(session: Session, topics: Sequence[str]) -> dict[str, KafkaError]:
    """Delete topics; return the errors by topic. A topic that does not exist counts as deleted."""
    if not topics:
        return {}
    outcomes = delete_topics(session.admin, topics)
    errors = {topic: outcome.error for topic, outcome in outcomes.items() if outcome.error is not None}
    return {topic: error for topic, error in errors.items() if not isinstance(error, UnknownTopicOrPartition)}
