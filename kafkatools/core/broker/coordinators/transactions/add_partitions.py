"""Asks the coordinator of a transaction to add partitions or to verify them (Kafka's AddPartitionsToTxnManager,
KIP-890).

Rules: each broker has at most one request in flight. The next one carries the first queued request of each
transactional id; later requests of the same id wait. While a coordinator still writes the markers of the last
transaction, partitions are added again after a backoff, for add.partitions.to.txn.retry.backoff.max.ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.internal_topic import partition_for
from kafkatools.core.broker.coordinators.request_queue import RequestQueue
from kafkatools.core.broker.coordinators.transactions.coordinator import ProducerIdentity, TransactionCoordinator
from kafkatools.core.broker.coordinators.transactions.transaction import TopicPartition
from kafkatools.core.broker.coordinators.transactions.transaction_log import TOPIC
from kafkatools.core.broker.metadata.image import NO_LEADER
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.log.producers.transaction_verification import Attempt
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.topic_partition import topic_fields

ADDING_VERSION = 2
RESPONSE_TIMEOUT_MS = 10_000
FIRST_SEQUENCE = 0
Codes = Mapping[TopicPartition, int]


@dataclass(slots=True)
class _Request:
    """A request to add (`adds`) or verify partitions of one transaction. No retry starts after `until_ms` on the
    clock."""

    transactional_id: str
    producer: ProducerIdentity
    places: Sequence[TopicPartition]
    adds: bool
    until_ms: int
    respond: Callable[[Codes], None]

    def fields(self) -> Fields:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer.producer_id,
            "producer_epoch": self.producer.producer_epoch,
            "verify_only": not self.adds,
            "topics": topic_fields((place, place[1]) for place in sorted(self.places)),
        }

    def refuse(self, code: int) -> None:
        self.respond(dict.fromkeys(self.places, code))


class AddPartitions:
    """Sends requests to add or verify partitions to transaction coordinators, on this and other brokers. `coordinator`
    returns this broker's own coordinator, which it creates on the first call."""

    def __init__(self, host: Host, coordinator: Callable[[], TransactionCoordinator]) -> None:
        self._host = host
        self._own_coordinator = coordinator
        self._queue = RequestQueue(host, RESPONSE_TIMEOUT_MS, _one_of_each, _fields, self._handle_response)

    def add_or_verify(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        places: Sequence[TopicPartition],
        respond: Callable[[Codes], None],
        *,
        adds: bool,
    ) -> None:
        """Add partitions to a transaction, or with `adds=False` only verify that they belong to it. Calls `respond`
        with an error code for each partition, at once or later. Adding is retried on ConcurrentTransactions for
        add.partitions.to.txn.retry.backoff.max.ms. Without a coordinator, every code is CoordinatorNotAvailable."""
        host = self._host
        until_ms = host.clock.now_ms() + host.config.add_partitions_to_txn_retry_backoff_max_ms
        self._dispatch(_Request(transactional_id, producer, places, adds, until_ms, respond))

    def _dispatch(self, request: _Request) -> None:
        if not self._host.is_clustered:
            self._handle_here(request)
            return
        leader = self._coordinator(request.transactional_id)
        if leader == NO_LEADER:
            request.refuse(errors.CoordinatorNotAvailable.code)
        elif leader == self._host.node_id:
            self._handle_here(request)
        else:
            self._queue.add(leader, ApiKey.ADD_PARTITIONS_TO_TXN, [request])

    def _coordinator(self, transactional_id: str) -> int:
        topic = self._host.image.topics.get(TOPIC)
        if topic is None:
            return NO_LEADER
        return topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader

    def _handle_here(self, request: _Request) -> None:
        coordinator = self._own_coordinator()
        if request.adds:
            coordinator.add_partitions_when_settled(
                request.transactional_id,
                request.producer,
                request.places,
                ADDING_VERSION,
                lambda code: self._answer_or_retry(request, dict.fromkeys(request.places, code)),
            )
        else:
            request.respond(coordinator.verify_partitions(request.transactional_id, request.producer, request.places))

    def _handle_response(self, batch: Sequence[_Request], response: Any | None) -> None:
        code = errors.NetworkException.code if response is None else int(response.error_code)
        if code == errors.ClusterAuthorizationFailed.code:
            code = errors.InvalidTxnState.code
        results = _results(response) if not code else {}
        for request in batch:
            if code:
                request.refuse(code)
                continue
            codes = results.get(request.transactional_id, {})
            self._answer_or_retry(
                request, {place: codes.get(place, errors.UnknownServerError.code) for place in request.places}
            )

    def _answer_or_retry(self, request: _Request, codes: Codes) -> None:
        host = self._host
        now_ms = host.clock.now_ms()
        is_busy = request.adds and errors.ConcurrentTransactions.code in codes.values()
        if is_busy and now_ms < request.until_ms:
            backoff_ms = host.config.add_partitions_to_txn_retry_backoff_ms
            host.timer.schedule(backoff_ms, lambda _now_ms: self._dispatch(request), now_ms)
        else:
            request.respond(codes)


def _one_of_each(queued: Sequence[_Request]) -> Sequence[_Request]:
    """The first request of each transactional id, because AddPartitionsToTxn cannot hold an id twice."""
    first: dict[str, _Request] = {}
    for request in queued:
        first.setdefault(request.transactional_id, request)
    return list(first.values())


def _fields(batch: Sequence[_Request]) -> Fields:
    return {"transactions": [request.fields() for request in batch]}


def _results(response: Any) -> dict[str, dict[TopicPartition, int]]:
    return {
        transaction.transactional_id: {
            (topic.name, partition.partition_index): int(partition.partition_error_code)
            for topic in transaction.topic_results
            for partition in topic.results_by_partition
        }
        for transaction in response.results_by_transaction
    }


@unique
class Operation(Enum):
    """The operation on a partition that is not in the transaction (TransactionSupportedOperation). Clients of
    transaction version 2 have partitions added by their first write. For older clients a write only verifies that the
    client has added the partition."""

    VERIFY_OLD_CLIENT = "default error"
    VERIFY = "generic error supported"
    ADD = "add partition"

    @classmethod
    def of(cls, version: int, first_abortable: int, first_adding: int) -> Operation:
        """The operation for a request's version: ADD from `first_adding` on, VERIFY from `first_abortable` on, before
        that VERIFY_OLD_CLIENT (AddPartitionsToTxnManager)."""
        if version >= first_adding:
            return cls.ADD
        return cls.VERIFY if version >= first_abortable else cls.VERIFY_OLD_CLIENT

    @property
    def adds(self) -> bool:
        """Return whether to add missing partitions rather than verify them."""
        return self is Operation.ADD


def ensure_in_transaction(
    host: Host,
    add_partitions: AddPartitions,
    transactional_id: str,
    producer: ProducerIdentity,
    place: TopicPartition,
    operation: Operation,
    respond: Callable[[int], None],
) -> None:
    """Check that a partition belongs to the producer's open transaction, or add it (KIP-890). Calls `respond`, at once
    or later, with 0 or with the error code for the client. Answers 0 without the transaction coordinator if the
    partition's log holds the open transaction, or if transaction.partition.verification.enable is false and `operation`
    only verifies. Raises UnknownTopicOrPartition, NotLeaderOrFollower or KafkaStorageError if this broker does not lead
    the partition. Answers InvalidTxnState if the transaction was ended in this partition before the coordinator's
    answer arrived."""
    partition = host.replicas.get(*place)
    log = partition.log
    if log.has_ongoing_transaction(*producer):
        respond(0)
        return
    if not operation.adds and not log.config.transaction_partition_verification_enable:
        respond(0)
        return
    attempt = log.attempts.note(*producer, FIRST_SEQUENCE, bumps_epoch=operation.adds)

    def respond_if_open(codes: Codes) -> None:
        code = client_code(codes[place], operation)
        if not code and not is_still_open(partition, producer, attempt):
            code = errors.InvalidTxnState.code
        respond(code)

    add_partitions.add_or_verify(transactional_id, producer, [place], respond_if_open, adds=operation.adds)


def is_still_open(partition: Partition, producer: ProducerIdentity, attempt: Attempt) -> bool:
    """Return whether the coordinator's confirmation of an attempt still counts: no marker was written to the partition
    in between. Without this check, a write after the marker would begin a transaction that nothing ends. True also if
    the transaction has begun by now, or if transaction.partition.verification.enable is false."""
    log = partition.log
    if not log.config.transaction_partition_verification_enable or log.has_ongoing_transaction(*producer):
        return True
    return log.attempts.holds(producer.producer_id, attempt)


def client_code(code: int, operation: Operation) -> int:
    """The error code for the client of a coordinator's error code. ProducerFenced becomes InvalidProducerEpoch.
    TransactionAbortable becomes InvalidTxnState for clients that do not know it. Other codes, also 0, stay."""
    if code == errors.ProducerFenced.code:
        return errors.InvalidProducerEpoch.code
    if code == errors.TransactionAbortable.code and operation is Operation.VERIFY_OLD_CLIENT:
        return errors.InvalidTxnState.code
    return code
