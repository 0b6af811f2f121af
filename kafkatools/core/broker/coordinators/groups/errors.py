"""Errors of writes to internal topics, as clients see them (Kafka's CoordinatorOperationExceptionHelper)."""

from __future__ import annotations

from kafkatools.core.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)

_RETRY_LATER = (UnknownTopicOrPartition, NotEnoughReplicas, RequestTimedOut)
_ASK_ANOTHER = (NotLeaderOrFollower, KafkaStorageError)
_TOO_LARGE = (MessageTooLarge, RecordListTooLarge)


def coordinator_error_code(error: KafkaError) -> int:
    """The error code that clients get for a failed write: missing replicas become CoordinatorNotAvailable, a lost
    partition becomes NotCoordinator."""
    if isinstance(error, _RETRY_LATER):
        return CoordinatorNotAvailable.code
    if isinstance(error, _ASK_ANOTHER):
        return NotCoordinator.code
    if isinstance(
        error, NetworkException
    ):  # from verifying a transaction: older clients do not retry NETWORK_EXCEPTION
        return CoordinatorLoadInProgress.code
    if isinstance(error, _TOO_LARGE):
        return UnknownServerError.code
    return error.code
