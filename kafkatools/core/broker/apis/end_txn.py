"""EndTxn (key 26), versions 0-5: commit or abort.

From version 5 on (KIP-890, transaction version 2) the answer holds the identity for the next transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.transactions.coordinator import NOBODY, ProducerIdentity
from kafkatools.core.broker.coordinators.transactions.ending import EndRequest
from kafkatools.core.broker.metadata.controller.acls import TRANSACTIONAL_ID, WRITE
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_FENCING = 2
FIRST_VERSION_OF_EPOCH_BUMP = 5
PLAIN, EPOCH_BUMP = 0, 2


def handle(node: Node, request: Request) -> Response:
    """One error code, and the next identity."""
    entity = request.decode()
    response = LaterResponse(request)

    def answer(code: int, identity: ProducerIdentity) -> None:
        if code == ProducerFenced.code and request.version < FIRST_VERSION_OF_FENCING:
            code = InvalidProducerEpoch.code
        response.respond({"error_code": code, **identity._asdict()})

    try:
        node.authorize_or_raise(request, WRITE, TRANSACTIONAL_ID, entity.transactional_id)
    except KafkaError as error:
        answer(error.code, NOBODY)
        return response.returned()
    client_version = EPOCH_BUMP if request.version >= FIRST_VERSION_OF_EPOCH_BUMP else PLAIN
    wanted = EndRequest(entity.producer_id, entity.producer_epoch, entity.committed, client_version)
    node.transactions.end_transaction(entity.transactional_id, wanted, answer)
    return response.returned()
