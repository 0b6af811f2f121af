"""Whether what is to be appended belongs to an open transaction (KIP-890, AddPartitionsToTxnManager).

Rules: clients of transaction version 2 have partitions added when they first write to them; for older ones it is only
verified that they did add them. Errors are given as each client knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.transactions.add_partitions import AddPartitions
from kafkatools.core.broker.coordinators.transactions.coordinator import ProducerIdentity
from kafkatools.core.broker.coordinators.transactions.transaction import TopicPartition
from kafkatools.core.errors import InvalidProducerEpoch, InvalidTxnState, ProducerFenced, TransactionAbortable


class Operation(Enum):
    """What the request's version supports (TransactionSupportedOperation)."""

    VERIFY_OLD_CLIENT = "default error"
    VERIFY = "generic error supported"
    ADD = "add partition"

    @property
    def adds(self) -> bool:
        return self is Operation.ADD


def ensure_in_transaction(
    host: Host,
    add_partitions: AddPartitions,
    transactional_id: str,
    producer: ProducerIdentity,
    place: TopicPartition,
    operation: Operation,
    answer: Callable[[int], None],
) -> None:
    """Answer 0 when the partition is part of the open transaction, at once or later, else why not."""
    if host.replicas.get(*place).log.has_ongoing_transaction(*producer):
        answer(0)
        return
    if operation.adds or host.config.transaction_partition_verification_enable:
        add_partitions.ask(
            transactional_id,
            producer,
            [place],
            lambda codes: answer(client_code(codes[place], operation)),
            adds=operation.adds,
        )
    else:
        answer(0)


def client_code(code: int, operation: Operation) -> int:
    """A coordinator's error as the client expects it."""
    if code == ProducerFenced.code:
        return InvalidProducerEpoch.code
    if code == TransactionAbortable.code and operation is Operation.VERIFY_OLD_CLIENT:
        return InvalidTxnState.code
    return code
