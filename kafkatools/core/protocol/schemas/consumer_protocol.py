"""What members of a classic consumer group send each other: subscription and assignment.

Source: clients/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.definition import Field, Schema

ConsumerProtocolSubscription = Schema(
    "ConsumerProtocolSubscription",
    -1,
    "0-3",
    "none",
    (
        Field("topics", "[]string"),
        Field("userData", "bytes", nullable="0+", default=None),
        Field(
            "ownedPartitions",
            "[]TopicPartition",
            versions="1+",
            fields=(
                Field("topic", "string", versions="1+"),
                Field("partitions", "[]int32", versions="1+"),
            ),
        ),
        Field("generationId", "int32", versions="2+", default=-1),
        Field("rackId", "string", versions="3+", nullable="3+", default=None),
    ),
)

ConsumerProtocolAssignment = Schema(
    "ConsumerProtocolAssignment",
    -1,
    "0-3",
    "none",
    (
        Field(
            "assignedPartitions",
            "[]TopicPartition",
            fields=(
                Field("topic", "string"),
                Field("partitions", "[]int32"),
            ),
        ),
        Field("userData", "bytes", nullable="0+", default=None),
    ),
)
