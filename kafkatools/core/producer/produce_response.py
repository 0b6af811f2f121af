"""Decode Produce responses, versions 3 to 13."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.errors import error_for_code
from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.produce_request import FIRST_TOPIC_ID_VERSION
from kafkatools.core.producer.transaction_manager import ProduceOutcome
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.messages import decode, response_type

_FIRST_WITH_LOG_START = 5
_FIRST_WITH_RECORD_ERRORS = 8
_FIRST_WITH_LEADERS = 10


class ProduceResponse(NamedTuple):
    """The outcome of each partition in a Produce response. `endpoints`: addresses of new leaders that outcomes name
    (KIP-951), empty before version 10."""

    outcomes: dict[TopicPartition, ProduceOutcome]
    throttle_ms: int
    endpoints: tuple[NodeEndpoint, ...]


def read_produce_response(
    body: memoryview | bytes, version: int, topic_names: Mapping[uuid.UUID | None, str]
) -> ProduceResponse:
    """Decode the body of a Produce response. `topic_names`: names by topic id, for version 13, where topics with an
    unknown id are left out. Raises DecodeError."""
    entity, _ = decode(response_type(ApiKey.PRODUCE, version), body)
    outcomes: dict[TopicPartition, ProduceOutcome] = {}
    for topic in entity.responses:
        name = topic_names.get(topic.topic_id) if version >= FIRST_TOPIC_ID_VERSION else topic.name
        if name is not None:
            for partition in topic.partition_responses:
                outcomes[TopicPartition(name, partition.index)] = _outcome(partition, version)
    endpoints = entity.node_endpoints if version >= _FIRST_WITH_LEADERS else ()
    return ProduceResponse(outcomes, entity.throttle_time, tuple(map(NodeEndpoint._make, endpoints)))


def _outcome(entity: Entity, version: int) -> ProduceOutcome:
    with_errors = version >= _FIRST_WITH_RECORD_ERRORS
    leader_id, leader_epoch = entity.current_leader if version >= _FIRST_WITH_LEADERS else (-1, -1)
    return ProduceOutcome(
        None if entity.error_code == 0 else error_for_code(entity.error_code),
        entity.base_offset,
        entity.log_append_time,
        entity.log_start_offset if version >= _FIRST_WITH_LOG_START else -1,
        entity.error_message if with_errors else None,
        tuple(map(tuple, entity.record_errors)) if with_errors else (),
        leader_id,
        leader_epoch,
    )
