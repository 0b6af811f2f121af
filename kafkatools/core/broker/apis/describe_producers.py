"""DescribeProducers (key 61), version 0: the producers that a replica remembers, and their open transactions. Any
replica answers, for it may be followers that are in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import READ, TOPIC
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import long_hash
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """The producers of each partition."""
    entity = request.decode()
    topics = [
        {
            "name": topic.name,
            "partitions": [_describe(node, request, topic.name, index) for index in paced(topic.partition_indexes)],
        }
        for topic in paced(entity.topics)
    ]
    return request.respond({"topics": topics})


def _describe(node: Node, request: Request, topic: str, index: int) -> dict[str, Any]:
    try:
        node.authorize_or_raise(request, READ, TOPIC, topic)
        replica = node.replicas.partitions.get(topic, {}).get(index)
        if replica is None:
            raise node.replicas.absence(topic, index)
        state = replica.log.producer_state
    except KafkaError as error:
        return {
            "partition_index": index,
            "error_code": error.code,
            "error_message": error.message,
            "active_producers": [],
        }
    entries = [state.producers[producer_id] for producer_id in hash_order(state.producers, long_hash)]
    producers = [
        {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_start_offset": entry.current_txn_first_offset,
        }
        for entry in entries
    ]
    return {"partition_index": index, "error_code": 0, "error_message": None, "active_producers": producers}
