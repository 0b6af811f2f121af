"""Handlers for producers: InitProducerId, DescribeProducers."""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import TransactionContext
from kafkatools.core.broker.coordinators.transactions.coordinator import (
    NOBODY,
    IdentityCallback,
    InitRequest,
    ProducerIdentity,
)
from kafkatools.core.broker.metadata.controller.acls import (
    CLUSTER,
    CLUSTER_NAME,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    TWO_PHASE_COMMIT,
    WRITE,
)
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    InvalidProducerEpoch,
    InvalidRequest,
    KafkaError,
    ProducerFenced,
)
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import long_hash
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.slices import paced

# InitProducerId
FIRST_VERSION_OF_FENCING = 4
FIRST_VERSION_OF_TWO_PHASE_COMMIT = 6


def handle_init_producer_id(node: TransactionContext, request: Request) -> Response:
    """Answer InitProducerId with a producer id and epoch, or with an error code.

    Without a transactional id the producer id is new and its epoch 0. With one the transaction coordinator bumps the
    epoch; a new transactional id gets a new producer id. From version 3 on a producer that recovers from an error sends
    the id and epoch it has (KIP-360). Version 6 (KIP-939), served with unstable.api.versions.enable, has two-phase
    commit, which needs a right of its own. A prepared transaction is never kept, as in Apache Kafka 4.3.1.
    """
    entity = request.decode()
    response = Deferred(request)
    respond = identity_responder(request, response, FIRST_VERSION_OF_FENCING)
    try:
        _authorize(node, request, entity)
        current = _current_identity(entity)
        if entity.transactional_id is None:
            respond(0, ProducerIdentity(node.producer_ids.next_id(), 0))
        else:
            start = InitRequest(entity.transaction_timeout, current, **_two_phase_fields(request.version, entity))
            node.transactions.init_producer_id(entity.transactional_id, start, respond)
    except KafkaError as error:
        respond(error.code, NOBODY)
    return response.result()


def _authorize(node: TransactionContext, request: Request, entity: Entity) -> None:
    if entity.transactional_id is not None:
        node.authorize_or_raise(request, WRITE, TRANSACTIONAL_ID, entity.transactional_id)
        if request.version >= FIRST_VERSION_OF_TWO_PHASE_COMMIT and entity.enable2_pc:
            node.authorize_or_raise(request, TWO_PHASE_COMMIT, TRANSACTIONAL_ID, entity.transactional_id)
    elif not (
        node.authorize(request, IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME) or node.authorize_any(request, WRITE, TOPIC)
    ):
        raise ClusterAuthorizationFailed()


def _two_phase_fields(version: int, entity: Entity) -> dict[str, bool]:
    if version < FIRST_VERSION_OF_TWO_PHASE_COMMIT:
        return {}
    return {"is_two_phase": entity.enable2_pc, "keeps_prepared": entity.keep_prepared_txn}


def _current_identity(entity: Entity) -> ProducerIdentity | None:
    """The client's producer id and epoch, or None. Raises InvalidRequest when only one of the two is set."""
    identity = ProducerIdentity(entity.producer_id, entity.producer_epoch)
    if identity == NOBODY:
        return None
    if identity.producer_id == NOBODY.producer_id or identity.producer_epoch == NOBODY.producer_epoch:
        raise InvalidRequest()
    return identity


def identity_responder(request: Request, response: Deferred, first_version_of_fencing: int) -> IdentityCallback:
    """A function that responds with an error code and a producer id and epoch. In an older version PRODUCER_FENCED is
    INVALID_PRODUCER_EPOCH."""

    def respond(code: int, identity: ProducerIdentity) -> None:
        if code == ProducerFenced.code and request.version < first_version_of_fencing:
            code = InvalidProducerEpoch.code
        response.respond({"error_code": code, **identity._asdict()})

    return respond


def handle_describe_producers(node: TransactionContext, request: Request) -> Response:
    """Answer DescribeProducers: the producers that this replica, leader or not, remembers, and their transactions. Each
    partition has an error code of its own and needs READ on the topic."""
    entity = request.decode()
    topics = [
        {
            "name": topic.name,
            "partitions": [_describe(node, request, topic.name, index) for index in paced(topic.partition_indexes)],
        }
        for topic in paced(entity.topics)
    ]
    return request.respond({"topics": topics})


def _describe(node: TransactionContext, request: Request, topic: str, index: int) -> Fields:
    try:
        node.authorize_or_raise(request, READ, TOPIC, topic)
        replica = node.replicas.partitions.get(topic, {}).get(index)
        if replica is None:
            raise node.replicas.absence(topic, index)
        state = replica.log.producer_state
    except KafkaError as error:
        return {"partition_index": index, "error_code": error.code, "error_message": error.message}
    producers = [
        {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_start_offset": entry.current_txn_first_offset,
        }
        for entry in map(state.producers.__getitem__, hash_order(state.producers, long_hash))
    ]
    return {"partition_index": index, "active_producers": producers}
