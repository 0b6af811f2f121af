"""The Java class names of Kafka's exceptions, for tools that print the class of an error."""

from __future__ import annotations

from kafkatools.core.errors import KafkaError

_PACKAGE = "org.apache.kafka.common.errors"
_OTHERWISE = {
    "UnknownServerError": "UnknownServer",
    "RequestTimedOut": "Timeout",
    "MessageTooLarge": "RecordTooLarge",
    "TopicAuthorizationFailed": "TopicAuthorization",
    "GroupAuthorizationFailed": "GroupAuthorization",
    "ClusterAuthorizationFailed": "ClusterAuthorization",
    "TransactionalIdAuthorizationFailed": "TransactionalIdAuthorization",
    "OutOfOrderSequenceNumber": "OutOfOrderSequence",
    "KafkaStorageError": "KafkaStorage",
    "NonEmptyGroup": "GroupNotEmpty",
    "FetchSessionTopicIdError": "FetchSessionTopicId",
    "DeliveryTimeout": "Timeout",
    "NoBrokersAvailable": "Timeout",
    "ConnectionFailed": "Network",
    "Disconnected": "Disconnect",
}
"""Errors whose Java class has another name than ours (org.apache.kafka.common.protocol.Errors)."""


def exception_class(error: KafkaError) -> str:
    """The full Java class name of an error, such as `org.apache.kafka.common.errors.UnknownTopicOrPartitionException`.
    For a local error that Kafka lacks, the name is formed in the same way and no such class exists."""
    name = type(error).__name__
    return f"{_PACKAGE}.{_OTHERWISE.get(name, name)}Exception"
