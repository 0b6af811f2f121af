"""Names of exception classes as `org.apache.kafka.common.protocol.Errors` of Apache Kafka 4.3 maps its codes."""

from __future__ import annotations

import pytest

from kafkatools.core.errors import (
    FetchSessionTopicIdError,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NonEmptyGroup,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from kafkatools.core.java.exceptions import exception_class


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (FetchSessionTopicIdError, "FetchSessionTopicIdException"),
        (InvalidTopic, "InvalidTopicException"),
        (KafkaStorageError, "KafkaStorageException"),
        (MessageTooLarge, "RecordTooLargeException"),
        (NonEmptyGroup, "GroupNotEmptyException"),
        (RequestTimedOut, "TimeoutException"),
        (UnknownServerError, "UnknownServerException"),
        (UnknownTopicOrPartition, "UnknownTopicOrPartitionException"),
    ],
)
def test_errors_have_the_classes_of_kafka(kind: type[KafkaError], name: str) -> None:
    assert exception_class(kind("x")) == f"org.apache.kafka.common.errors.{name}"
