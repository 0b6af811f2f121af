"""Handlers for transactions: AddPartitionsToTxn, EndTxn, WriteTxnMarkers, DescribeTransactions, ListTransactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kafkatools.core.broker.apis.contexts import TransactionContext
from kafkatools.core.broker.apis.producers import identity_responder
from kafkatools.core.broker.coordinators.transactions.coordinator import NOBODY, ProducerIdentity
from kafkatools.core.broker.coordinators.transactions.ending import EndRequest
from kafkatools.core.broker.coordinators.transactions.markers import Marker
from kafkatools.core.broker.coordinators.transactions.states import STATES_BY_LABEL
from kafkatools.core.broker.coordinators.transactions.transaction import TopicPartition
from kafkatools.core.broker.metadata.controller.acls import (
    ALTER,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    DESCRIBE,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kafkatools.core.broker.metadata.image import INTERNAL_TOPICS
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.replica_manager import error_code_of
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRegularExpression,
    InvalidRequest,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.slices import paced
from kafkatools.core.topic_partition import numbers_by_topic, topic_fields

# AddPartitionsToTxn
FIRST_ADD_PARTITIONS_TO_TXN_VERSION_OF_FENCING = 2
FIRST_VERSION_OF_BATCHES = 4
CLIENT_VERSION, BROKER_VERSION = 0, 2
Codes = Mapping[TopicPartition, int]
# EndTxn
FIRST_END_TXN_VERSION_OF_FENCING = 2
FIRST_VERSION_OF_EPOCH_BUMP = 5
PLAIN, EPOCH_BUMP = 0, 2
# WriteTxnMarkers
Waiting = list[tuple[dict[str, int], ProduceStatus]]


def handle_add_partitions_to_txn(node: TransactionContext, request: Request) -> Response:
    """Answer AddPartitionsToTxn: add partitions to transactions, or only verify them; one error code per partition.

    Up to version 3 a client sends one transaction. From version 4 on brokers send several and may only verify; without
    CLUSTER_ACTION raises ClusterAuthorizationFailed. If a partition may not be added or does not exist, none of its
    transaction is added: the others have OPERATION_NOT_ATTEMPTED.
    """
    entity = request.decode()
    if _is_of_client(request):
        return _handle_client(node, request, entity)
    return _handle_broker(node, request, entity)


def _is_of_client(request: Request) -> bool:
    """Return whether a client sends the request. Another broker, which sends later versions, has checked the rights of
    its client."""
    return request.version < FIRST_VERSION_OF_BATCHES


def _handle_client(node: TransactionContext, request: Request, entity: Entity) -> Response:
    response = Deferred(request)
    producer = ProducerIdentity(entity.v3_and_below_producer_id, entity.v3_and_below_producer_epoch)
    partitions = _partitions(entity.v3_and_below_topics)

    def respond(codes: Codes) -> None:
        response.respond({"results_by_topic_v3_and_below": _topics(codes)})

    _add(node, request, (entity.v3_and_below_transactional_id, producer), partitions, respond)
    return response.result()


def _handle_broker(node: TransactionContext, request: Request, entity: Entity) -> Response:
    node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    response = Deferred(request)
    transactions = list(entity.transactions)
    results: dict[int, dict[str, Any]] = {}

    def note(index: int, codes: Codes) -> None:
        name = transactions[index].transactional_id
        results[index] = {"transactional_id": name, "topic_results": _topics(codes)}
        if len(results) == len(transactions):
            response.respond({"results_by_transaction": [results[i] for i in range(len(results))]})

    for index, transaction in enumerate(transactions):
        name, producer = (
            transaction.transactional_id,
            ProducerIdentity(transaction.producer_id, transaction.producer_epoch),
        )
        partitions = _partitions(transaction.topics)
        if transaction.verify_only:
            note(index, node.transactions.verify_partitions(name, producer, partitions))
        else:
            _add(node, request, (name, producer), partitions, partial(note, index))
    if not transactions:
        response.respond({})
    return response.result()


def _add(
    node: TransactionContext,
    request: Request,
    transaction: tuple[str, ProducerIdentity],
    partitions: Sequence[TopicPartition],
    respond: Callable[[Codes], None],
) -> None:
    transactional_id, producer = transaction
    if _is_of_client(request) and not node.authorize(request, WRITE, TRANSACTIONAL_ID, transactional_id):
        respond(dict.fromkeys(partitions, TransactionalIdAuthorizationFailed.code))
        return
    faults = {place: code for place in partitions if (code := _fault(node, request, place))}
    if faults:
        respond({place: faults.get(place, OperationNotAttempted.code) for place in partitions})
        return

    def added(code: int) -> None:
        if code == ProducerFenced.code and request.version < FIRST_ADD_PARTITIONS_TO_TXN_VERSION_OF_FENCING:
            code = InvalidProducerEpoch.code
        respond(dict.fromkeys(partitions, code))

    client_version = BROKER_VERSION if request.version >= FIRST_VERSION_OF_BATCHES else CLIENT_VERSION
    node.transactions.add_partitions(transactional_id, producer, partitions, client_version, added)


def _fault(node: TransactionContext, request: Request, place: TopicPartition) -> int:
    """The error code that keeps a partition from being added to a transaction, 0 when nothing does."""
    topic, index = place
    if _is_of_client(request) and (topic in INTERNAL_TOPICS or not node.authorize(request, WRITE, TOPIC, topic)):
        return TopicAuthorizationFailed.code
    image = node.image.topics.get(topic)
    return 0 if image is not None and index in image.partitions else UnknownTopicOrPartition.code


def _partitions(topics: Any) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _topics(codes: Codes) -> list[Fields]:
    results = ((place, {"partition_index": place[1], "partition_error_code": code}) for place, code in codes.items())
    return topic_fields(results, partitions="results_by_partition")


def handle_end_txn(node: TransactionContext, request: Request) -> Response:
    """Answer EndTxn: commit or abort a transaction. Version 5 returns the id and epoch for the next one (KIP-890). With
    an error code the id and epoch may be -1."""
    entity = request.decode()
    response = Deferred(request)
    respond = identity_responder(request, response, FIRST_END_TXN_VERSION_OF_FENCING)
    try:
        node.authorize_or_raise(request, WRITE, TRANSACTIONAL_ID, entity.transactional_id)
    except KafkaError as error:
        respond(error.code, NOBODY)
        return response.result()
    client_version = EPOCH_BUMP if request.version >= FIRST_VERSION_OF_EPOCH_BUMP else PLAIN
    end = EndRequest(entity.producer_id, entity.producer_epoch, entity.committed, client_version)
    node.transactions.end_transaction(entity.transactional_id, end, respond)
    return response.result()


def handle_write_txn_markers(node: TransactionContext, request: Request) -> Response:
    """Answer WriteTxnMarkers: write commit or abort markers of transactions, with an error code per partition. Responds
    when they are durable, after request.timeout.ms at the latest.

    Transaction coordinators send it, and tools that end hanging transactions. Needs CLUSTER_ACTION or ALTER on the
    cluster. In version 2 the marker's transaction version says how strictly its epoch is checked (KIP-1228).
    """
    request.quotas = None  # as in Kafka, what nodes send to nodes has no quota
    entity = request.decode()
    is_allowed = node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME) or node.authorize(
        request, ALTER, CLUSTER, CLUSTER_NAME
    )
    response = Deferred(request)
    waiting: Waiting = []
    markers = [_marker_result(node, marker, waiting, is_allowed=is_allowed) for marker in entity.markers]

    def respond(_code: int) -> None:
        for partition, status in waiting:
            partition["error_code"] = status.error_code
        response.respond({"markers": markers})

    node.coordination.host.when_durable([status for _, status in waiting], respond)
    return response.result()


def _marker_result(node: TransactionContext, entity: Entity, waiting: Waiting, *, is_allowed: bool) -> Fields:
    marker = Marker(
        entity.producer_id,
        entity.producer_epoch,
        entity.coordinator_epoch,
        entity.transaction_result,
        entity.transaction_version,
    )
    topics = []
    for topic in entity.topics:
        partitions = []
        for index in topic.partition_indexes:
            result = {"partition_index": index, "error_code": ClusterAuthorizationFailed.code}
            if is_allowed:
                _write(node, (topic.name, index), marker, result, waiting)
            partitions.append(result)
        topics.append({"name": topic.name, "partitions": partitions})
    return {"producer_id": entity.producer_id, "topics": topics}


def _write(
    node: TransactionContext, place: tuple[str, int], marker: Marker, result: dict[str, int], waiting: Waiting
) -> None:
    try:
        status = node.coordination.marker_writer.write(place, marker)
    except (KafkaError, OSError) as error:
        node.note_failure(error)
        result["error_code"] = error_code_of(error)
        return
    result["error_code"] = 0
    if status is not None:
        waiting.append((result, status))


def handle_describe_transactions(node: TransactionContext, request: Request) -> Response:
    """Answer DescribeTransactions: state, time-out, producer and partitions of each transactional id, or its error
    code. Topics that the client may not describe are left out."""
    entity = request.decode()
    states = [_describe(node, request, name) for name in entity.transactional_ids]
    return request.respond({"transaction_states": states})


def _describe(node: TransactionContext, request: Request, transactional_id: str) -> Fields:
    try:
        node.authorize_or_raise(request, DESCRIBE, TRANSACTIONAL_ID, transactional_id)
        if not transactional_id:
            raise InvalidRequest()
        value = node.transactions.find(transactional_id).value
    except KafkaError as error:
        code = TransactionalIdNotFound.code if isinstance(error, InvalidProducerIdMapping) else error.code
        return {"transactional_id": transactional_id, "error_code": code}
    topics = [
        {"topic": topic, "partitions": indexes}
        for topic, indexes in numbers_by_topic(sorted(value.partitions)).items()
        if node.authorize(request, DESCRIBE, TOPIC, topic)
    ]
    return {
        "transactional_id": transactional_id,
        "transaction_state": value.state.label,
        "transaction_timeout": value.timeout_ms,
        "transaction_start_time": value.start_ms,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "topics": topics,
    }


def handle_list_transactions(node: TransactionContext, request: Request) -> Response:
    """Answer ListTransactions: the transactional ids that match all filters and that the client may describe; an empty
    filter matches all.

    The filters are state, producer id, time in ms since the transaction began (version 1; negative: all), and an RE2
    pattern for the transactional id (version 2). The pattern is matched in linear time, in slices. Unknown states are
    listed in the response. COORDINATOR_LOAD_IN_PROGRESS and INVALID_REGULAR_EXPRESSION fail the whole request.
    """
    entity = request.decode()
    unknown = [name for name in dict.fromkeys(entity.state_filters) if name not in STATES_BY_LABEL]
    states = {STATES_BY_LABEL[name] for name in entity.state_filters if name in STATES_BY_LABEL}
    fields: Fields = {"unknown_state_filters": unknown, "transaction_states": []}
    if unknown and not states:
        return request.respond(fields)  # no transaction can be in an unknown state
    if node.coordination.transactions.is_loading:
        return request.respond({**fields, "error_code": CoordinatorLoadInProgress.code})
    duration_ms = entity.duration_filter
    text, pattern = entity.transactional_id_pattern, None
    try:
        if text:
            from kafkatools.core.broker.coordinators.groups.topic_regex import compiled

            pattern = compiled(text, "Transaction ID pattern")
    except InvalidRegularExpression:
        return request.respond({**fields, "error_code": InvalidRegularExpression.code})
    now_ms = node.clock.wall_ms()
    producer_ids = set(entity.producer_id_filters)
    for name, transaction in paced(list(node.transactions.transactions.items())):
        value = transaction.value
        if (
            (producer_ids and value.producer_id not in producer_ids)
            or (states and value.state not in states)
            or (duration_ms >= 0 and now_ms - value.start_ms <= duration_ms)
            or (pattern is not None and not pattern.fullmatch(paced(name)))
            or not node.authorize(request, DESCRIBE, TRANSACTIONAL_ID, name)
        ):
            continue
        state = {"transactional_id": name, "producer_id": value.producer_id, "transaction_state": value.state.label}
        fields["transaction_states"].append(state)
    return request.respond(fields)
