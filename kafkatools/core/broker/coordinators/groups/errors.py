"""Errors of writes to internal topics, as clients see them (Kafka's CoordinatorOperationExceptionHelper)."""

from __future__ import annotations

from kafkatools.core import errors

_RETRY_LATER = (errors.UnknownTopicOrPartition, errors.NotEnoughReplicas, errors.RequestTimedOut)
_ASK_ANOTHER = (errors.NotLeaderOrFollower, errors.KafkaStorageError)
_TOO_LARGE = (errors.MessageTooLarge, errors.RecordListTooLarge)


def coordinator_error_code(error: errors.KafkaError) -> int:
    """The error code that clients get for a failed write. Missing replicas or a timeout become CoordinatorNotAvailable,
    a lost partition or failed log NotCoordinator. NetworkException becomes CoordinatorLoadInProgress, too large batches
    UnknownServerError. Other codes stay."""
    if isinstance(error, _RETRY_LATER):
        return errors.CoordinatorNotAvailable.code
    if isinstance(error, _ASK_ANOTHER):
        return errors.NotCoordinator.code
    if isinstance(
        error, errors.NetworkException
    ):  # from verifying a transaction: older clients do not retry NETWORK_EXCEPTION
        return errors.CoordinatorLoadInProgress.code
    if isinstance(error, _TOO_LARGE):
        return errors.UnknownServerError.code
    return error.code
