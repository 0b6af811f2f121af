"""The requests of a transactional producer (the TxnRequestHandlers of Kafka's TransactionManager).

Rules: transaction_reactions.py defines the reaction to each error. At most one of these requests is in flight; the next
one is chosen by priority. A retried request keeps its result and its place. Clients use AddPartitionsToTxn up to
version 3, later ones are for brokers. Version 5 of EndTxn and TxnOffsetCommit belongs to transaction version 2
(KIP-890).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import IntEnum, unique
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.client_log import ClientLog
from kafkatools.core.errors import (
    CommitFailed,
    ConcurrentTransactions,
    DecodeError,
    IllegalGeneration,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    Timeout,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownMemberId,
    UnsupportedVersion,
    error_from_code,
    unauthorized_topics,
    with_group,
)
from kafkatools.core.group.coordinator import CoordinatorKind
from kafkatools.core.group.metadata import commit_topics
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.transaction_manager import ProducerIdAndEpoch, identity_from_broker
from kafkatools.core.producer.transaction_reactions import Reaction, reaction_to
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.topic_partition import topic_fields

if TYPE_CHECKING:
    from kafkatools.core.group.coordinator import CoordinatorLookup
    from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
    from kafkatools.core.protocol.entities import Entity

LAST_END_TXN_BEFORE_V2 = 4
LAST_OFFSET_COMMIT_BEFORE_V2 = 4
LAST_ADD_PARTITIONS_OF_CLIENTS = 3
FIRST_OFFSET_COMMIT_WITH_GROUP_METADATA = 3
FIRST_INIT_PRODUCER_ID_WITH_BUMP = 3
FIRST_INIT_PRODUCER_ID_WITH_TWO_PHASES = 6

COMPLETING_BACKOFF_MS = 20
"""The pause while the transaction before is still being completed (CONCURRENT_TRANSACTIONS): for the first partitions
of a transaction, as in Kafka, and for EndTxn, which meets it when one is aborted right after the one before."""

NO_TWO_PHASE_COMMIT = (
    "transaction.two.phase.commit.enable needs brokers with InitProducerId 6 (KIP-939). Apache Kafka 4.3 has it only "
    "with unstable.api.versions.enable=true on every broker"
)
TWO_PHASE_COMMIT_REFUSED = (
    "Two-phase commit was refused: it needs transaction.two.phase.commit.enable=true on every broker, and the rights "
    "Write and TwoPhaseCommit on the transactional id"
)


@unique
class Priority(IntEnum):
    """The order in which transactional requests are sent; InitProducerId comes first, also to bump the epoch after
    EndTxn."""

    INIT_PRODUCER_ID = 1
    ADD_PARTITIONS_OR_OFFSETS = 2
    END_TXN = 3


class TransactionalResult:
    """The result of a call such as `commit_transaction`, for the thread that waits for it (TransactionalRequestResult).
    `obstacle`: the error of the last retry. `is_acked`: the caller has received the result; before that, a repeated
    call waits for the same result."""

    __slots__ = ("operation", "error", "obstacle", "is_acked", "_event")

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.error: Exception | None = None
        self.obstacle: Exception | None = None
        self.is_acked = False
        self._event = threading.Event()

    @property
    def is_completed(self) -> bool:
        return self._event.is_set()

    def done(self) -> None:
        """Complete the result with success; no effect after a failure."""
        self._event.set()

    def fail(self, error: Exception) -> None:
        """Complete the result with an error; no effect on a completed result."""
        if not self._event.is_set():
            self.error = error
            self._event.set()

    def wait(self, timeout_ms: int, waited_ms: int = 0) -> None:
        """Wait for the result up to `timeout_ms`, of which `waited_ms` are over. Raises its error, or Timeout; after a
        Timeout the call may be repeated."""
        self._event.wait(max(0, timeout_ms - waited_ms) / 1000)
        self.receive(timeout_ms)

    def receive(self, waited_ms: int) -> None:
        """Note that the caller has received the result. Raises its error, or Timeout without a result."""
        if not self._event.is_set():
            reason = "" if self.obstacle is None else f": {self.obstacle}"
            raise Timeout(f"Timeout expired after {waited_ms}ms while awaiting {self.operation}{reason}")
        self.is_acked = True
        if self.error is not None:
            raise self.error


class RequestingManager(Protocol):
    """The attributes and methods of TransactionalManager that its requests use."""

    transactional_id: str
    transaction_timeout_ms: int
    is_two_phase: bool
    retry_backoff_ms: int
    transaction_started: bool
    partitions_in_transaction: set[TopicPartition]
    identity: ProducerIdAndEpoch
    log: ClientLog

    def enqueue(self, request: TxnRequest) -> None: ...
    def lookup(self, request: TxnRequest) -> CoordinatorLookup: ...
    def transition_to_abortable_error(self, error: Exception) -> None: ...
    def transition_to_abortable_or_fatal_error(self, abortable: Exception, fatal: Exception) -> None: ...
    def transition_to_uninitialized(self, error: Exception) -> None: ...
    def fail(self, error: Exception) -> None: ...
    def initialized(self, producer_id: int, epoch: int) -> None: ...
    def take_bumped_epoch(self, producer_id: int, epoch: int) -> None: ...
    def partitions_added(self, partitions: Collection[TopicPartition], is_success: bool) -> None: ...
    def complete_transaction(self, result: TransactionalResult) -> None: ...


class TxnRequest(ABC):
    """A queued request of a transactional producer. The sender's thread calls `fields` and `handle`."""

    api_key: ApiKey
    priority: Priority
    coordinator = CoordinatorKind.TRANSACTION
    min_version = 0
    max_version: int | None = None

    def __init__(self, manager: RequestingManager, result: TransactionalResult | None = None) -> None:
        self.manager = manager
        self.result = result if result is not None else TransactionalResult(self.api_key.label)
        self.not_before_ms = 0
        self.order = -1

    def __repr__(self) -> str:
        return f"{self.api_key.label}({self.manager.transactional_id})"

    @property
    def coordinator_key(self) -> str:
        """The transactional id or group id whose coordinator takes the request."""
        return self.manager.transactional_id

    @property
    def identity_fields(self) -> dict[str, object]:
        """The transactional id, producer id and epoch, as most of these requests have them."""
        manager = self.manager
        return {
            "transactional_id": manager.transactional_id,
            "producer_id": manager.identity.producer_id,
            "producer_epoch": manager.identity.epoch,
        }

    @abstractmethod
    def fields(self, version: int) -> dict[str, object]:
        """The fields of the request in an API version, with the current producer id and epoch."""

    def handle(self, response: Entity, now_ms: int) -> None:
        """Process the response of a transactional request, under the manager's lock."""
        error = error_from_code(int(response.error_code))
        if error is None:
            self.succeeded(response, now_ms)
        else:
            self.react(error, now_ms)

    def succeeded(self, response: Entity, now_ms: int) -> None:
        """Process the response of a transactional request that has no error code."""
        self.result.done()

    def backoff_ms(self, error: KafkaError | None) -> int:
        """Milliseconds to wait before the request is retried after this error."""
        return self.manager.retry_backoff_ms

    def react(self, error: KafkaError, now_ms: int) -> None:
        """Retry, abort or fail as transaction_reactions.py defines for this error."""
        manager, reaction = self.manager, reaction_to(self.api_key, error)
        self.manager.log.debug("%r failed with %s: %s", self, error.name, reaction)
        if reaction in (Reaction.RETRY, Reaction.FIND_COORDINATOR):
            self.result.obstacle = error
        if reaction is Reaction.RETRY:
            self.retry(now_ms + self.backoff_ms(error))
        elif reaction is Reaction.FIND_COORDINATOR:
            manager.lookup(self).mark_unknown()
            self.retry(now_ms + self.backoff_ms(error))
        elif reaction is Reaction.ABORTABLE:
            self.fail(error)
            manager.transition_to_abortable_error(error)
        elif reaction is Reaction.ABORTABLE_IF_EPOCH_CAN_BE_BUMPED:
            self.fail(error)
            manager.transition_to_abortable_or_fatal_error(error, error)
        elif reaction is Reaction.START_AGAIN:
            self.fail(error)
            manager.transition_to_uninitialized(error)
        elif reaction is Reaction.FENCED:
            self.fatal(ProducerFenced())
        elif reaction is Reaction.FATAL:
            self.fatal(error)
        else:
            unexpected = KafkaError(f"Unexpected error in {self.api_key.label}Response; {error}")
            unexpected.__cause__ = error
            self.fatal(unexpected)

    def retry(self, not_before_ms: int) -> None:
        """Queue the request again, to be sent at this time at the earliest."""
        self.not_before_ms = not_before_ms
        self.manager.enqueue(self)

    def fail(self, error: Exception) -> None:
        self.result.fail(error)

    def fatal(self, error: Exception) -> None:
        """Fail the transactional request and the producer with a fatal error."""
        self.fail(error)
        self.manager.fail(error)

    def identity_or_fatal(self, response: Entity) -> ProducerIdAndEpoch | None:
        """The producer id and epoch of a response. If one is negative, fail the producer and return None."""
        try:
            return identity_from_broker(int(response.producer_id), int(response.producer_epoch))
        except DecodeError as error:
            self.fatal(error)
            return None


class InitProducerId(TxnRequest):
    """Gets a producer id and epoch; with the current ones in the request it bumps the epoch (KIP-360)."""

    api_key = ApiKey.INIT_PRODUCER_ID
    priority = Priority.INIT_PRODUCER_ID

    def __init__(
        self, manager: RequestingManager, result: TransactionalResult | None = None, is_epoch_bump: bool = False
    ) -> None:
        super().__init__(manager, result)
        self.is_epoch_bump = is_epoch_bump
        self.min_version = FIRST_INIT_PRODUCER_ID_WITH_BUMP if is_epoch_bump else 0
        if manager.is_two_phase:
            self.min_version = FIRST_INIT_PRODUCER_ID_WITH_TWO_PHASES

    def fields(self, version: int) -> dict[str, object]:
        manager = self.manager
        identity: dict[str, object] = {}
        if self.is_epoch_bump:
            identity = {"producer_id": manager.identity.producer_id, "producer_epoch": manager.identity.epoch}
        elif version >= FIRST_INIT_PRODUCER_ID_WITH_BUMP:
            identity = {"producer_id": -1, "producer_epoch": -1}
        return {
            "transactional_id": manager.transactional_id,
            "transaction_timeout": manager.transaction_timeout_ms,
            "enable2_pc": manager.is_two_phase,
            **identity,
        }

    def react(self, error: KafkaError, now_ms: int) -> None:
        if self.manager.is_two_phase and isinstance(error, TransactionalIdAuthorizationFailed):
            error = TransactionalIdAuthorizationFailed(TWO_PHASE_COMMIT_REFUSED)
        super().react(error, now_ms)

    def fatal(self, error: Exception) -> None:
        """Fail the producer, with the reason if the coordinator has no two-phase commit."""
        is_missing = self.manager.is_two_phase and isinstance(error, UnsupportedVersion)
        super().fatal(UnsupportedVersion(NO_TWO_PHASE_COMMIT) if is_missing else error)

    def succeeded(self, response: Entity, now_ms: int) -> None:
        if (identity := self.identity_or_fatal(response)) is not None:
            self.manager.initialized(*identity)
            self.result.done()


class AddPartitionsToTxn(TxnRequest):
    """Adds partitions to the transaction before the first write to them (transaction version 1)."""

    api_key = ApiKey.ADD_PARTITIONS_TO_TXN
    priority = Priority.ADD_PARTITIONS_OR_OFFSETS
    max_version = LAST_ADD_PARTITIONS_OF_CLIENTS

    def __init__(self, manager: RequestingManager, partitions: frozenset[TopicPartition]) -> None:
        super().__init__(manager)
        self.partitions = partitions

    def fields(self, version: int) -> dict[str, object]:
        topics = topic_fields((part, part.partition) for part in sorted(self.partitions))
        return {f"v3_and_below_{name}": value for name, value in {**self.identity_fields, "topics": topics}.items()}

    def backoff_ms(self, error: KafkaError | None) -> int:
        """At most 20 ms after CONCURRENT_TRANSACTIONS (the previous transaction is being completed) for the first
        partitions, else retry.backoff.ms."""
        if isinstance(error, ConcurrentTransactions) and not self.manager.partitions_in_transaction:
            return min(COMPLETING_BACKOFF_MS, self.manager.retry_backoff_ms)
        return self.manager.retry_backoff_ms

    def handle(self, response: Entity, now_ms: int) -> None:
        errors = {
            TopicPartition(topic.name, int(result.partition_index)): error_from_code(int(result.partition_error_code))
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        refused: dict[TopicPartition, KafkaError] = {}
        for partition, error in errors.items():
            if error is None:
                continue
            if isinstance(error, (TopicAuthorizationFailed, OperationNotAttempted)):
                refused[partition] = error
            elif reaction_to(self.api_key, error) is None:
                self.manager.log.error("Could not add partition %s due to unexpected error %s", partition, error.name)
                refused[partition] = error
            else:
                self.react(error, now_ms)
                return
        # The refused ones too: batches of other partitions in retry are still sent until the transaction is aborted.
        self.manager.partitions_added(errors.keys(), is_success=not refused)
        if refused:
            self._refuse(refused)
        else:
            self.result.done()

    def _refuse(self, refused: Mapping[TopicPartition, KafkaError]) -> None:
        unauthorized = sorted(
            {partition.topic for partition, error in refused.items() if isinstance(error, TopicAuthorizationFailed)}
        )
        error: KafkaError
        if unauthorized:
            error = unauthorized_topics(unauthorized)
        else:
            details = ", ".join(f"{partition}={error.name}" for partition, error in refused.items())
            error = KafkaError(f"Could not add partitions to transaction due to errors: {{{details}}}")
        self.fail(error)
        self.manager.transition_to_abortable_error(error)


class AddOffsetsToTxn(TxnRequest):
    """Adds a consumer group to the transaction before its offsets are committed (transaction version 1)."""

    api_key = ApiKey.ADD_OFFSETS_TO_TXN
    priority = Priority.ADD_PARTITIONS_OR_OFFSETS

    def __init__(
        self,
        manager: RequestingManager,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        super().__init__(manager)
        self.offsets = offsets
        self.group = group

    def fields(self, version: int) -> dict[str, object]:
        return {**self.identity_fields, "group_id": self.group.group_id}

    def succeeded(self, response: Entity, now_ms: int) -> None:
        """Queue the TxnOffsetCommit that follows; it completes the caller's result."""
        self.manager.transaction_started = True
        self.manager.enqueue(TxnOffsetCommit(self.manager, self.offsets, self.group, False, self.result))

    def react(self, error: KafkaError, now_ms: int) -> None:
        super().react(with_group(error, self.group.group_id), now_ms)


class TxnOffsetCommit(TxnRequest):
    """Commits a group member's offsets as part of the transaction (KIP-447)."""

    api_key = ApiKey.TXN_OFFSET_COMMIT
    priority = Priority.ADD_PARTITIONS_OR_OFFSETS
    coordinator = CoordinatorKind.GROUP

    def __init__(
        self,
        manager: RequestingManager,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        is_v2: bool,
        result: TransactionalResult | None = None,
    ) -> None:
        super().__init__(manager, result)
        self.pending = dict(offsets)
        self.group = group
        self.max_version = None if is_v2 else LAST_OFFSET_COMMIT_BEFORE_V2

    @property
    def coordinator_key(self) -> str:
        return self.group.group_id

    def fields(self, version: int) -> dict[str, object]:
        return {
            **self.identity_fields,
            "group_id": self.group.group_id,
            **self._member(version),
            "topics": commit_topics(sorted(self.pending.items()), has_epochs=version >= 2),
        }

    def _member(self, version: int) -> dict[str, object]:
        group = self.group
        if version >= FIRST_OFFSET_COMMIT_WITH_GROUP_METADATA:
            return {
                "generation_id": group.generation_id,
                "member_id": group.member_id,
                "group_instance_id": group.group_instance_id,
            }
        if group.generation_id != -1 or group.member_id or group.group_instance_id is not None:
            raise UnsupportedVersion(
                f"Broker doesn't support group metadata commit API on version {version}, minimum supported request "
                f"version is {FIRST_OFFSET_COMMIT_WITH_GROUP_METADATA} which requires brokers to be on version 2.5 "
                "or above."
            )
        return {}

    def handle(self, response: Entity, now_ms: int) -> None:
        first: KafkaError | None = None
        for topic in response.topics:
            for partition in topic.partitions:
                error = error_from_code(int(partition.error_code))
                if error is None:
                    self.pending.pop(TopicPartition(topic.name, int(partition.partition_index)), None)
                elif reaction_to(self.api_key, error) not in (Reaction.RETRY, Reaction.FIND_COORDINATOR):
                    self.react(with_group(error, self.group.group_id), now_ms)
                    return
                elif first is None or reaction_to(self.api_key, error) is Reaction.FIND_COORDINATOR:
                    first = error
        if not self.pending:
            self.result.done()
        elif first is not None:
            self.react(first, now_ms)
        else:
            self.fatal(KafkaError("The TxnOffsetCommit response lacks partitions of the request"))

    def react(self, error: KafkaError, now_ms: int) -> None:
        if isinstance(error, (UnknownMemberId, IllegalGeneration)):
            mismatch = CommitFailed(
                f"Transaction offset Commit failed due to consumer group metadata mismatch: {error}"
            )
            self.fail(mismatch)
            self.manager.transition_to_abortable_error(mismatch)
            return
        super().react(error, now_ms)


class EndTxn(TxnRequest):
    """Commits or aborts the transaction. From version 5 on the response contains the next epoch (KIP-890)."""

    api_key = ApiKey.END_TXN
    priority = Priority.END_TXN

    def __init__(self, manager: RequestingManager, is_commit: bool, is_v2: bool) -> None:
        super().__init__(manager, TransactionalResult(f"EndTxn({str(is_commit).lower()})"))
        self.is_commit = is_commit
        self.max_version = None if is_v2 else LAST_END_TXN_BEFORE_V2

    def fields(self, version: int) -> dict[str, object]:
        return {**self.identity_fields, "committed": self.is_commit}

    def backoff_ms(self, error: KafkaError | None) -> int:
        """At most 20 ms while the previous transaction is being completed, else retry.backoff.ms."""
        if isinstance(error, ConcurrentTransactions):
            return min(COMPLETING_BACKOFF_MS, self.manager.retry_backoff_ms)
        return self.manager.retry_backoff_ms

    def react(self, error: KafkaError, now_ms: int) -> None:
        """React as transaction_reactions.py defines, but fail the producer when an abort gets an abortable error:
        Kafka's would stay in ABORTING_TRANSACTION forever."""
        reaction = reaction_to(self.api_key, error)
        is_abortable = reaction in (Reaction.ABORTABLE, Reaction.ABORTABLE_IF_EPOCH_CAN_BE_BUMPED)
        if is_abortable and not self.is_commit:
            self.fatal(error)
        else:
            super().react(error, now_ms)

    def succeeded(self, response: Entity, now_ms: int) -> None:
        if getattr(response, "producer_id", -1) != -1:
            identity = self.identity_or_fatal(response)
            if identity is None:
                return
            self.manager.take_bumped_epoch(*identity)
        self.manager.complete_transaction(self.result)
