"""What a Produce response says, the same for versions 3 to 13: an outcome per partition, the throttle time, the leaders' addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafkatools.core.errors import error_for_code
from kafkatools.core.producer.futures import NO_TIMESTAMP, TopicPartition
from kafkatools.core.producer.transaction_manager import ProduceOutcome


class NodeEndpoint(NamedTuple):
    """The address of a new leader (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None


class ProduceResponse(NamedTuple):
    """`outcomes` by partition; `endpoints` only with errors that name another leader."""

    outcomes: dict[TopicPartition, ProduceOutcome]
    throttle_ms: int
    endpoints: tuple[NodeEndpoint, ...]


def read_produce_response(entity: Any, topic_names: Mapping[Any, str]) -> ProduceResponse:
    """Reads the generated entity; `topic_names` maps topic ids to names, for version 13."""
    outcomes: dict[TopicPartition, ProduceOutcome] = {}
    for topic in entity.responses:
        name = getattr(topic, "name", None)
        if name is None:
            name = topic_names.get(topic.topic_id)
        if name is None:
            continue
        for partition in topic.partition_responses:
            outcomes[TopicPartition(name, partition.index)] = _outcome(partition)
    endpoints = tuple(
        NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in getattr(entity, "node_endpoints", ())
    )
    throttle_ms = round(entity.throttle_time.total_seconds() * 1000)
    return ProduceResponse(outcomes, throttle_ms, endpoints)


def _outcome(partition: Any) -> ProduceOutcome:
    code = int(partition.error_code)
    log_append_time = partition.log_append_time
    timestamp = NO_TIMESTAMP if log_append_time is None else round(log_append_time.timestamp() * 1000)
    log_start_offset = getattr(partition, "log_start_offset", -1)
    if code == 0:
        return ProduceOutcome(None, partition.base_offset, timestamp, log_start_offset)
    leader = getattr(partition, "current_leader", None)
    return ProduceOutcome(
        error_for_code(code),
        partition.base_offset,
        timestamp,
        log_start_offset,
        getattr(partition, "error_message", None),
        tuple((item.batch_index, item.batch_index_error_message) for item in getattr(partition, "record_errors", ())),
        -1 if leader is None else leader.leader_id,
        -1 if leader is None else leader.leader_epoch,
    )
