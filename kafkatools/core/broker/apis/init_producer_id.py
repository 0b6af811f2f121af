"""InitProducerId (key 22), versions 0-5.

Without a transactional id: a new producer id with epoch 0. With one: the transaction coordinator's next epoch for it;
a producer that goes on after an error names the identity it has (KIP-360, version 3 on).
Not done: version 6 (KIP-939 is unstable in Apache Kafka 4.3, which does not list it either).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.transactions.coordinator import NOBODY, ProducerIdentity
from kafkatools.core.broker.metadata.controller.acls import (
    CLUSTER,
    CLUSTER_NAME,
    IDEMPOTENT_WRITE,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    InvalidProducerEpoch,
    InvalidRequest,
    KafkaError,
    ProducerFenced,
)

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_IDENTITY = 3
FIRST_VERSION_OF_FENCING = 4
_MILLISECOND = timedelta(milliseconds=1)


def handle(node: Node, request: Request) -> Response:
    """An identity, or why not."""
    entity = request.decode()
    response = LaterResponse(request)

    def answer(code: int, identity: ProducerIdentity) -> None:
        if code == ProducerFenced.code and request.version < FIRST_VERSION_OF_FENCING:
            code = InvalidProducerEpoch.code
        response.respond({"error_code": code, **identity._asdict()})

    try:
        _authorize(node, request, entity)
        expected = _expected(request.version, entity)
        if entity.transactional_id is None:
            answer(0, ProducerIdentity(node.producer_ids.next_id(), 0))
        else:
            timeout_ms = entity.transaction_timeout // _MILLISECOND
            node.transactions.init_producer_id(entity.transactional_id, timeout_ms, expected, answer)
    except KafkaError as error:
        answer(error.code, NOBODY)
    return response.returned()


def _authorize(node: Node, request: Request, entity: Any) -> None:
    if entity.transactional_id is not None:
        node.authorize_or_raise(request, WRITE, TRANSACTIONAL_ID, entity.transactional_id)
    elif not (
        node.authorize(request, IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME) or node.authorize_any(request, WRITE, TOPIC)
    ):
        raise ClusterAuthorizationFailed()


def _expected(version: int, entity: Any) -> ProducerIdentity | None:
    """Both parts of an identity or none."""
    if version < FIRST_VERSION_OF_IDENTITY:
        return None
    identity = ProducerIdentity(entity.producer_id, entity.producer_epoch)
    if identity == NOBODY:
        return None
    if NOBODY.producer_id == identity.producer_id or NOBODY.producer_epoch == identity.producer_epoch:
        raise InvalidRequest()
    return identity
