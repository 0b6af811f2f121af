"""Ends prepared transactions from another process than their producer's (KIP-939, KIP-890).

Rules: the end is asked of the coordinator with the identity the transaction was prepared under, so it can never hit a
later transaction of the same id (InitProducerId could: it looks at the producer id alone while a transaction is open);
asking again is harmless. What the coordinator answers to the second request:

| since the first one        | the same end | the other end |
|----------------------------|--------------|---------------|
| nothing (markers written)  | done         | INVALID_TXN_STATE |
| markers are being written  | CONCURRENT_TRANSACTIONS, tried again | INVALID_TXN_STATE |
| a new producer took the id | PRODUCER_FENCED | PRODUCER_FENCED |

A transaction that was aborted by its timeout answers a commit with INVALID_TXN_STATE or PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.coordinators import TRANSACTION, ask_coordinators, one_key_each
from kafkatools.core.errors import KafkaError
from kafkatools.core.net.requests import Answer
from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.core.protocol.api_versions import NEVER, ApiKey
from kafkatools.core.protocol.entities import Fields

_LAST_END_TXN_BEFORE_V2 = 4


def end_transactions(
    admin: AdminClient, prepared: Iterable[PreparedTransaction], *, commit: bool, timeout_ms: int | None = None
) -> dict[str, KafkaError]:
    """Commits or aborts prepared transactions, all at the same time; the errors by transactional id."""
    errors: dict[str, KafkaError] = {}
    of_version: dict[int, dict[str, PreparedTransaction]] = {}
    for one in prepared:
        if not one.is_empty:
            of_version.setdefault(one.transaction_version, {})[one.transactional_id] = one
    for version, transactions in of_version.items():

        def build(key: str, version: int, known: Mapping[str, PreparedTransaction] = transactions) -> Fields:
            one = known[key]
            identity = {"producer_id": one.producer_id, "producer_epoch": one.producer_epoch}
            return {"transactional_id": key, **identity, "committed": commit}

        newest = NEVER if version > 1 else _LAST_END_TXN_BEFORE_V2
        request = one_key_each(ApiKey.END_TXN, build, _read, max_version=newest)
        found = ask_coordinators(admin, transactions, request, TRANSACTION, timeout_ms)
        errors |= {key: error for key, error in found.items() if isinstance(error, KafkaError)}
    return errors


def _read(answer: Answer, key: str) -> str | KafkaError:
    return error_in(answer.entity) or "done"
