"""Subscription and assignment of classic consumer group members, as carried in JoinGroup and SyncGroup.

Source: clients/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.schema import Schema

ConsumerProtocolSubscription = Schema("ConsumerProtocolSubscription")
ConsumerProtocolAssignment = Schema("ConsumerProtocolAssignment")
