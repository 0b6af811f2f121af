"""Handlers for offsets that are committed in a transaction: AddOffsetsToTxn, TxnOffsetCommit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial

from kafkatools.core.broker.apis.commit_results import TopicResults, for_all, response_topics, with_error
from kafkatools.core.broker.apis.contexts import TransactionContext
from kafkatools.core.broker.apis.offsets import collect_offsets, ensure_not_deleted
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset, Record, committed_offsets
from kafkatools.core.broker.coordinators.groups.offsets import Place
from kafkatools.core.broker.coordinators.groups.offsets_topic import TOPIC as OFFSETS_TOPIC
from kafkatools.core.broker.coordinators.groups.offsets_topic import Producer
from kafkatools.core.broker.coordinators.groups.requests import MemberIdentity
from kafkatools.core.broker.coordinators.transactions.add_partitions import Operation, ensure_in_transaction
from kafkatools.core.broker.coordinators.transactions.coordinator import ProducerIdentity
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE
from kafkatools.core.broker.metadata.image import TopicState
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    InvalidProducerEpoch,
    KafkaError,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    error_for_code,
)
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.slices import paced, pausing

# AddOffsetsToTxn
FIRST_VERSION_OF_FENCING = 2
CLIENT_VERSION = 0
# TxnOffsetCommit
FIRST_VERSION_OF_LEADER_EPOCH = 2
FIRST_VERSION_OF_ABORTABLE = 4
FIRST_VERSION_OF_ADDING = 5
Offsets = list[tuple[Place, CommittedOffset]]
TopicIds = dict[str, uuid.UUID | None]


def handle_add_offsets_to_txn(node: TransactionContext, request: Request) -> Response:
    """Answer AddOffsetsToTxn: add the partition of `__consumer_offsets` that holds a group to the transaction. A
    KafkaError is the response's error code.

    Clients of transaction version 2 do not send it: TxnOffsetCommit adds the partition.
    """
    entity = request.decode()
    response = Deferred(request)

    def respond_later(code: int) -> None:
        if code == ProducerFenced.code and request.version < FIRST_VERSION_OF_FENCING:
            code = InvalidProducerEpoch.code
        response.respond({"error_code": code})

    try:
        node.authorize_or_raise(request, WRITE, TRANSACTIONAL_ID, entity.transactional_id)
        node.authorize_or_raise(request, READ, GROUP, entity.group_id)
        place = (OFFSETS_TOPIC, node.coordination.offsets_topic.partition_of(entity.group_id))
        producer = ProducerIdentity(entity.producer_id, entity.producer_epoch)
        node.transactions.add_partitions(entity.transactional_id, producer, [place], CLIENT_VERSION, respond_later)
    except KafkaError as error:
        respond_later(error.code)
    return response.result()


def handle_txn_offset_commit(node: TransactionContext, request: Request) -> Response:
    """Answer TxnOffsetCommit: write offsets that become committed with the transaction, one error code per partition.

    An error of the group, the member or the transaction is that of every partition that has none of its own. From
    version 3 on members send their generation, so that a zombie is fenced (KIP-447). From version 5 on the partition of
    `__consumer_offsets` is added to the transaction here (KIP-890); earlier versions need AddOffsetsToTxn first. A
    large request is decoded, checked and encoded in slices; topics and member are checked again right before the write.
    """
    entity = request.decode()
    results: list[TopicResults] = []

    def respond(code: int) -> Response:
        if code == CoordinatorLoadInProgress.code and request.version < FIRST_VERSION_OF_LEADER_EPOCH:
            code = CoordinatorNotAvailable.code
        if not results:  # not authorized: nothing was checked
            return request.respond({"topics": response_topics(for_all(entity.topics, code))})
        return request.respond({"topics": response_topics(with_error(results, code) if code else results)})

    response = Deferred(request)

    def respond_later(code: int) -> None:
        response.complete_with(partial(respond, code))

    try:
        node.authorize_or_raise(request, WRITE, TRANSACTIONAL_ID, entity.transactional_id)
        node.authorize_or_raise(request, READ, GROUP, entity.group_id)
        offsets, topic_ids = _collect(node, request, entity, results)
        if not entity.group_id:
            raise InvalidGroupId()
        records = committed_offsets(entity.group_id, offsets)
        with pausing(None):
            if offsets:
                _commit(node, request.version, entity, (offsets, topic_ids, records), respond_later)
            else:
                respond_later(0)
    except KafkaError as error:
        respond_later(coordinator_error_code(error))
    return response.result()


def _commit(
    node: TransactionContext,
    version: int,
    entity: Entity,
    collected: tuple[Offsets, TopicIds, Sequence[Record]],
    respond_later: Callable[[int], None],
) -> None:
    """Verify that the partition of `__consumer_offsets` is part of the open transaction, or add it, then write the
    `collected` offsets, with the ids of their topics and their records.

    Calls `respond_later` with an error code, 0 once the offsets are replicated. Raises a coordinator error if the group
    is not active here.
    """
    node.groups.ensure_active(entity.group_id)
    producer = ProducerIdentity(entity.producer_id, entity.producer_epoch)
    place = (OFFSETS_TOPIC, node.coordination.offsets_topic.partition_of(entity.group_id))
    member = MemberIdentity(entity.member_id, entity.group_instance_id)
    offsets, topic_ids, records = collected

    def verified(code: int) -> None:
        if code:
            respond_later(coordinator_error_code(error_for_code(code)()))
            return
        try:
            ensure_not_deleted(node, topic_ids)
            status = node.groups.commit_transactional(
                entity.group_id, member, entity.generation_id, Producer(*producer), offsets, records
            )
        except KafkaError as error:
            respond_later(coordinator_error_code(error))
            return
        if node.coordination.is_clustered:
            node.coordination.groups.when_committed(entity.group_id, respond_later)
        else:
            node.coordination.host.when_durable([status], respond_later)

    host, add_partitions = node.coordination.host, node.coordination.add_partitions
    operation = Operation.of(version, FIRST_VERSION_OF_ABORTABLE, FIRST_VERSION_OF_ADDING)
    ensure_in_transaction(host, add_partitions, entity.transactional_id, producer, place, operation, verified)


def _collect(
    node: TransactionContext, request: Request, entity: Entity, results: list[TopicResults]
) -> tuple[Offsets, TopicIds]:
    """The offsets that may be committed, with the ids of their topics; `results` gets an error code, or 0, for every
    partition."""
    offsets: Offsets = []
    topic_ids: TopicIds = {}
    times_ms = node.clock.wall_ms(), None
    for topic in paced(entity.topics):
        topic_state: TopicState | int = node.image.topics.get(topic.name) or UnknownTopicOrPartition.code
        if not node.authorize(request, READ, TOPIC, topic.name):
            topic_state = TopicAuthorizationFailed.code
        if not isinstance(topic_state, int):
            topic_ids[topic.name] = topic_state.topic_id
        codes = collect_offsets(node, topic, topic.name, topic_state, times_ms, offsets)
        results.append(TopicResults(topic, codes))
    return offsets, topic_ids
