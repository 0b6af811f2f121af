"""AddPartitionsToTxn (key 24), versions 0-5.

To version 3 of one transaction, from a client. From version 4 on of several, from brokers (CLUSTER_ACTION), which may
also only verify. Either all partitions of a transaction are added, or those without a fault of their own say
OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.transactions.coordinator import ProducerIdentity
from kafkatools.core.broker.coordinators.transactions.transaction import TopicPartition
from kafkatools.core.broker.metadata.controller.acls import (
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kafkatools.core.broker.metadata.image import INTERNAL_TOPICS
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    InvalidProducerEpoch,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_FENCING = 2
FIRST_VERSION_OF_BATCHES = 4
CLIENT_VERSION, BROKER_VERSION = 0, 2
Codes = Mapping[TopicPartition, int]


def handle(node: Node, request: Request) -> Response:
    """One error code per partition."""
    entity = request.decode()
    if request.version < FIRST_VERSION_OF_BATCHES:
        return _handle_client(node, request, entity)
    return _handle_broker(node, request, entity)


def _handle_client(node: Node, request: Request, entity: Any) -> Response:
    response = LaterResponse(request)
    producer = ProducerIdentity(entity.v3_and_below_producer_id, entity.v3_and_below_producer_epoch)
    wanted = _places(entity.v3_and_below_topics)

    def answer(codes: Codes) -> None:
        response.respond({"results_by_topic_v3_and_below": _topics(codes)})

    _add(node, request, (entity.v3_and_below_transactional_id, producer), wanted, answer)
    return response.returned()


def _handle_broker(node: Node, request: Request, entity: Any) -> Response:
    if not node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
        return request.respond({"error_code": ClusterAuthorizationFailed.code, "results_by_transaction": []})
    response = LaterResponse(request)
    transactions = list(entity.transactions)
    results: dict[int, dict[str, Any]] = {}

    def note(index: int, codes: Codes) -> None:
        name = transactions[index].transactional_id
        results[index] = {"transactional_id": name, "topic_results": _topics(codes)}
        if len(results) == len(transactions):
            response.respond({"error_code": 0, "results_by_transaction": [results[i] for i in range(len(results))]})

    for index, each in enumerate(transactions):
        producer = ProducerIdentity(each.producer_id, each.producer_epoch)
        wanted = _places(each.topics)
        if each.verify_only:
            note(index, node.transactions.verify_partitions(each.transactional_id, producer, wanted))
        else:
            _add(node, request, (each.transactional_id, producer), wanted, partial(note, index))
    if not transactions:
        response.respond({"error_code": 0, "results_by_transaction": []})
    return response.returned()


def _add(
    node: Node,
    request: Request,
    transaction: tuple[str, ProducerIdentity],
    wanted: Sequence[TopicPartition],
    answer: Callable[[Codes], None],
) -> None:
    transactional_id, producer = transaction
    if not node.authorize(request, WRITE, TRANSACTIONAL_ID, transactional_id):
        answer(dict.fromkeys(wanted, TransactionalIdAuthorizationFailed.code))
        return
    faults = {place: code for place in wanted if (code := _fault(node, request, place))}
    if faults:
        answer({place: faults.get(place, OperationNotAttempted.code) for place in wanted})
        return

    def added(code: int) -> None:
        if code == ProducerFenced.code and request.version < FIRST_VERSION_OF_FENCING:
            code = InvalidProducerEpoch.code
        answer(dict.fromkeys(wanted, code))

    client_version = BROKER_VERSION if request.version >= FIRST_VERSION_OF_BATCHES else CLIENT_VERSION
    node.transactions.add_partitions(transactional_id, producer, wanted, client_version, added)


def _fault(node: Node, request: Request, place: TopicPartition) -> int:
    """What keeps a partition from being added, of itself."""
    topic, index = place
    is_internal_write = topic in INTERNAL_TOPICS and request.version < FIRST_VERSION_OF_BATCHES
    if is_internal_write or not node.authorize(request, WRITE, TOPIC, topic):
        return TopicAuthorizationFailed.code
    known = node.image.topics.get(topic)
    if known is None or index not in known.partitions:
        return UnknownTopicOrPartition.code
    return 0


def _places(topics: Any) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _topics(codes: Codes) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append({"partition_index": index, "partition_error_code": code})
    return [{"name": topic, "results_by_partition": partitions} for topic, partitions in topics.items()]
