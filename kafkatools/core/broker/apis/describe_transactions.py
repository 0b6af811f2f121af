"""DescribeTransactions (key 65), version 0: one answer per transactional id.

Topics that the client may not describe are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.transactions.log_records import by_topic
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, TOPIC, TRANSACTIONAL_ID
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InvalidProducerIdMapping, InvalidRequest, KafkaError, TransactionalIdNotFound

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """The state of each."""
    entity = request.decode()
    return request.respond(
        {"transaction_states": [_describe(node, request, name) for name in entity.transactional_ids]}
    )


def _describe(node: Node, request: Request, transactional_id: str) -> dict[str, Any]:
    try:
        node.authorize_or_raise(request, DESCRIBE, TRANSACTIONAL_ID, transactional_id)
        if not transactional_id:
            raise InvalidRequest()
        value = node.transactions.find(transactional_id).value
    except InvalidProducerIdMapping:
        return {"transactional_id": transactional_id, "error_code": TransactionalIdNotFound.code}
    except KafkaError as error:
        return {"transactional_id": transactional_id, "error_code": error.code}
    topics = [
        {"topic": topic, "partitions": indexes}
        for topic, indexes in by_topic(value.partitions).items()
        if node.authorize(request, DESCRIBE, TOPIC, topic)
    ]
    return {
        "error_code": 0,
        "transactional_id": transactional_id,
        "transaction_state": value.state.label,
        "transaction_timeout": value.timeout_ms,
        "transaction_start_time": value.start_ms,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "topics": topics,
    }
