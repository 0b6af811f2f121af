"""AddOffsetsToTxn (key 25), versions 0-4: the partition of `__consumer_offsets` that holds a group becomes part of the
transaction. Clients of transaction version 2 do without: TxnOffsetCommit adds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.groups.offsets_topic import TOPIC
from kafkatools.core.broker.coordinators.transactions.coordinator import ProducerIdentity
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ, TRANSACTIONAL_ID, WRITE
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_FENCING = 2
CLIENT_VERSION = 0


def handle(node: Node, request: Request) -> Response:
    """One error code."""
    entity = request.decode()
    response = LaterResponse(request)

    def answer(code: int) -> None:
        if code == ProducerFenced.code and request.version < FIRST_VERSION_OF_FENCING:
            code = InvalidProducerEpoch.code
        response.respond({"error_code": code})

    try:
        node.authorize_or_raise(request, WRITE, TRANSACTIONAL_ID, entity.transactional_id)
        node.authorize_or_raise(request, READ, GROUP, entity.group_id)
        place = (TOPIC, node.coordination.offsets_topic.partition_of(entity.group_id))
        producer = ProducerIdentity(entity.producer_id, entity.producer_epoch)
        node.transactions.add_partitions(entity.transactional_id, producer, [place], CLIENT_VERSION, answer)
    except KafkaError as error:
        answer(error.code)
    return response.returned()
