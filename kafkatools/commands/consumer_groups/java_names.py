"""Names of Kafka's exception classes, where a tool prints them into a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkatools.core.errors import KafkaError

_OTHERWISE = {
    "NON_EMPTY_GROUP": "GroupNotEmpty",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorization",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorization",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorization",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "TransactionalIdAuthorization",
    "REQUEST_TIMED_OUT": "Timeout",
    "NO_BROKERS_AVAILABLE": "Timeout",
}


def exception_name(error: KafkaError) -> str:
    """`org.apache.kafka.common.errors.UnknownTopicOrPartitionException` for an error of that kind."""
    words = _OTHERWISE.get(error.name) or "".join(word.capitalize() for word in error.name.split("_"))
    return f"org.apache.kafka.common.errors.{words}Exception"
