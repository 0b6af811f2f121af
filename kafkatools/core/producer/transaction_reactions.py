"""The reaction of a transactional producer to each error of its requests (TransactionManager.TxnRequestHandler).

An error that `REACTIONS` does not name is retried if it is retriable. If not, it is fatal, or abortable for
AddPartitionsToTxn.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, unique

from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupAuthorizationFailed,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownMemberId,
    UnknownProducerId,
    UnsupportedForMessageFormat,
)
from kafkatools.core.protocol.api_versions import ApiKey


@unique
class Reaction(Enum):
    """The reactions of a transactional producer to an error."""

    FIND_COORDINATOR = "find the coordinator again, then try again"
    RETRY = "try again after the back-off"
    ABORTABLE = "the transaction can only be aborted"
    ABORTABLE_IF_EPOCH_CAN_BE_BUMPED = "abortable, if the coordinator can bump the epoch; else fatal"
    START_AGAIN = "this initialization failed; another one may succeed"
    FENCED = "another producer took over: fatal, as PRODUCER_FENCED"
    FATAL = "the producer can do nothing more"


_COORDINATOR: Mapping[type[KafkaError], Reaction] = {
    NotCoordinator: Reaction.FIND_COORDINATOR,
    CoordinatorNotAvailable: Reaction.FIND_COORDINATOR,
    # INVALID_PRODUCER_EPOCH is what coordinators before 2.7 say for PRODUCER_FENCED.
    InvalidProducerEpoch: Reaction.FENCED,
    ProducerFenced: Reaction.FENCED,
    TransactionAbortable: Reaction.ABORTABLE,
}
_TRANSACTION: Mapping[type[KafkaError], Reaction] = {
    **_COORDINATOR,
    TransactionalIdAuthorizationFailed: Reaction.FATAL,
    InvalidTxnState: Reaction.FATAL,
    InvalidProducerIdMapping: Reaction.FATAL,
    UnknownProducerId: Reaction.ABORTABLE_IF_EPOCH_CAN_BE_BUMPED,
}
REACTIONS: Mapping[ApiKey, Mapping[type[KafkaError], Reaction]] = {
    ApiKey.FIND_COORDINATOR: {
        TransactionalIdAuthorizationFailed: Reaction.FATAL,
        GroupAuthorizationFailed: Reaction.ABORTABLE,
        TransactionAbortable: Reaction.ABORTABLE,
    },
    ApiKey.INIT_PRODUCER_ID: {
        **_COORDINATOR,
        TransactionalIdAuthorizationFailed: Reaction.START_AGAIN,
        ClusterAuthorizationFailed: Reaction.START_AGAIN,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: _TRANSACTION,
    ApiKey.ADD_OFFSETS_TO_TXN: {**_TRANSACTION, GroupAuthorizationFailed: Reaction.ABORTABLE},
    ApiKey.TXN_OFFSET_COMMIT: {
        **_COORDINATOR,
        RequestTimedOut: Reaction.FIND_COORDINATOR,
        GroupAuthorizationFailed: Reaction.ABORTABLE,
        FencedInstanceId: Reaction.ABORTABLE,
        UnknownMemberId: Reaction.ABORTABLE,
        IllegalGeneration: Reaction.ABORTABLE,
        TransactionalIdAuthorizationFailed: Reaction.FATAL,
        UnsupportedForMessageFormat: Reaction.FATAL,
    },
    ApiKey.END_TXN: _TRANSACTION,
}


def reaction_to(api_key: ApiKey, error: KafkaError) -> Reaction | None:
    """The reaction to an error of an API; None for an error that is neither named in REACTIONS nor retriable."""
    reaction = REACTIONS[api_key].get(type(error))
    if reaction is None and error.retriable:
        return Reaction.RETRY
    return reaction
