"""Produce requests with batches of a transaction (KIP-890): the checks before `appends.py` appends them.

A batch of a transaction that is open in the partition is appended at once; that takes one look-up. All other partitions
are verified with the transaction coordinator in one request, or from version 12 on added to the transaction. Until that
is durable the Produce request waits, with a copy of its frame. A batch whose transaction was ended meanwhile gets
INVALID_TXN_STATE. A request may hold batches of one producer id only, and needs a transactional id.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from kafkatools.core.broker.apis import appends
from kafkatools.core.broker.apis.contexts import ProduceContext
from kafkatools.core.broker.coordinators.transactions.add_partitions import Operation, client_code, is_still_open
from kafkatools.core.broker.coordinators.transactions.coordinator import ProducerIdentity
from kafkatools.core.broker.coordinators.transactions.transaction import TopicPartition
from kafkatools.core.broker.metadata.controller.acls import TRANSACTIONAL_ID, WRITE
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import DELAYED, CloseConnection, Request, Response
from kafkatools.core.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    TransactionalIdAuthorizationFailed,
    error_for_code,
)
from kafkatools.core.log.producers.transaction_verification import Attempt
from kafkatools.core.records.layout import HEADER_SIZE

FIRST_VERSION_OF_ABORTABLE = 11
FIRST_VERSION_OF_ADDING = 12
RETRIED_AS_NOT_ENOUGH_REPLICAS = (NetworkException, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)
_IDENTITY = Struct(">qh")
_SEQUENCE = Struct(">i")
IDENTITY_POSITION, SEQUENCE_POSITION = 43, 53


def handle(node: ProduceContext, request: Request, data: appends.ProduceData) -> Response:
    """Append the batches of a Produce request, after verifying its transaction if a batch belongs to one and the
    partition does not know that it is open.

    Returns the response, NO_RESPONSE or DELAYED. A missing right and batches of several producer ids are errors of
    every partition. Raises CloseConnection when a request with acks=0 fails.
    """
    transactional_id = data.transactional_id
    has_records = appends.has_transactional_records(data.topics)
    if has_records and (
        transactional_id is None or not node.authorize(request, WRITE, TRANSACTIONAL_ID, transactional_id)
    ):
        return _refuse_all(request, data, TransactionalIdAuthorizationFailed.code)
    if not has_records or transactional_id is None:
        return appends.append_all(node, request, data)
    operation = Operation.of(request.version, FIRST_VERSION_OF_ABORTABLE, FIRST_VERSION_OF_ADDING)
    unverified: dict[TopicPartition, tuple[Partition, Attempt]] = {}
    producers = set()
    for partition, records in _transactional(node, request, data):
        identity = ProducerIdentity(*_IDENTITY.unpack_from(records, IDENTITY_POSITION))
        producers.add(identity)
        (sequence,) = _SEQUENCE.unpack_from(records, SEQUENCE_POSITION)
        attempt = partition.begin_verification(identity, sequence, bumps_epoch=operation.adds)
        if attempt is not None:
            unverified[partition.topic, partition.index] = (partition, attempt)
    if len({identity.producer_id for identity in producers}) > 1:
        return _refuse_all(
            request, data, InvalidProducerIdMapping.code, "Transactional records contained more than one producer ID"
        )
    is_off = not operation.adds and not node.broker_settings.effective().transaction_partition_verification_enable
    if not unverified or is_off:
        return appends.append_all(node, request, data)
    return _verified(node, request, data, (transactional_id, producers.pop(), unverified, operation))


def _transactional(
    node: ProduceContext, request: Request, data: appends.ProduceData
) -> list[tuple[Partition, memoryview]]:
    """The partitions with a transactional batch, without those that cannot be written to: the append reports them."""
    batches = []
    for topic in data.topics:
        for index, records in topic.partitions:
            if records is None or len(records) < HEADER_SIZE or not records[appends.ATTRIBUTES_LOW_BYTE] & 0x10:
                continue
            try:
                batches.append((appends.find_partition(node, request, topic, index), records))
            except KafkaError:
                continue
    return batches


def _verified(
    node: ProduceContext,
    request: Request,
    data: appends.ProduceData,
    transaction: tuple[str, ProducerIdentity, dict[TopicPartition, tuple[Partition, Attempt]], Operation],
) -> Response:
    """Append once the coordinator has verified or added the partitions: at once, or later from a copy of the frame.
    Returns the response or DELAYED. Partitions that the coordinator refused have its error and are not appended."""
    transactional_id, producer, unverified, operation = transaction
    deferred = Deferred(request)

    def code_of(place: TopicPartition, code: int) -> int:
        if not code and not is_still_open(unverified[place][0], producer, unverified[place][1]):
            return InvalidTxnState.code
        return client_code(code, operation)

    def finish(codes: Mapping[TopicPartition, int]) -> None:
        try:
            refused = {
                place: _produce_result(place[1], refusal, operation)
                for place, code in codes.items()
                if (refusal := code_of(place, code))
            }
            response = appends.append_all(node, request, data, refused)
        except CloseConnection as error:
            deferred.close_connection(error)
            return
        if response is not DELAYED or not deferred.is_delayed:
            deferred.complete(response)

    add_partitions, places = node.coordination.add_partitions, list(unverified)
    add_partitions.add_or_verify(transactional_id, producer, places, finish, adds=operation.adds)
    result = deferred.result()
    if deferred.is_delayed:
        request.frame = memoryview(bytearray(request.frame))
        data = appends.parse(request.frame, request.body_offset, request.version)
    return result


def _produce_result(index: int, code: int, operation: Operation) -> appends.PartitionResult:
    """The result of a partition that the coordinator refused (ReplicaManager.handleProduceAppend). Codes that a
    producer would not retry, such as NOT_COORDINATOR, become NOT_ENOUGH_REPLICAS; all others stay."""
    kind = error_for_code(code)
    message = None
    if kind is InvalidTxnState:
        message = "Partition was not added to the transaction"
    elif kind in RETRIED_AS_NOT_ENOUGH_REPLICAS or (kind is ConcurrentTransactions and not operation.adds):
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {kind.name}"
        code = NotEnoughReplicas.code
    return appends.PartitionResult(index, code, message=message)


def _refuse_all(request: Request, data: appends.ProduceData, code: int, message: str | None = None) -> Response:
    if data.acks == 0:
        raise CloseConnection("a produce request with acks=0 failed")
    results = [
        (topic, [appends.PartitionResult(index, code, message=message) for index, _ in topic.partitions])
        for topic in data.topics
    ]
    return [appends.encode_response(request, results)]
