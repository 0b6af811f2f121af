"""What members of a classic consumer group send each other: subscription and assignment.

Source: clients/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.schema import Schema

ConsumerProtocolSubscription = Schema("ConsumerProtocolSubscription")
ConsumerProtocolAssignment = Schema("ConsumerProtocolAssignment")
