"""Commit or abort prepared transactions from another process than their producer (KIP-939, KIP-890).

Rules: EndTxn goes to the coordinator with the producer id and epoch under which the transaction was prepared. So it can
never end a later transaction of the same transactional id, as InitProducerId could. Repeating the request is harmless.
The coordinator's response to a second request:

| since the first request    | same outcome                     | opposite outcome  |
|----------------------------|----------------------------------|-------------------|
| nothing (markers written)  | success                          | INVALID_TXN_STATE |
| markers are being written  | CONCURRENT_TRANSACTIONS, retried | INVALID_TXN_STATE |
| a new producer took the id | PRODUCER_FENCED                  | PRODUCER_FENCED   |

Committing a transaction that its timeout aborted fails with INVALID_TXN_STATE or PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.coordinators import TRANSACTION, one_key_each, send_to_coordinators
from kafkatools.core.errors import KafkaError
from kafkatools.core.net.requests import BrokerResponse
from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.core.protocol.api_versions import NEVER, ApiKey
from kafkatools.core.protocol.entities import Fields

_LAST_END_TXN_BEFORE_V2 = 4


def end_transactions(
    admin: AdminClient, prepared: Iterable[PreparedTransaction], *, commit: bool, timeout_ms: int | None = None
) -> dict[str, KafkaError]:
    """Commit or abort prepared transactions in parallel; return the errors by transactional id, empty when all
    succeeded. Empty transactions (`is_empty`), which the coordinator does not know, are skipped."""
    errors: dict[str, KafkaError] = {}
    of_version: dict[int, dict[str, PreparedTransaction]] = {}
    for transaction in prepared:
        if not transaction.is_empty:
            of_version.setdefault(transaction.transaction_version, {})[transaction.transactional_id] = transaction
    for version, transactions in of_version.items():

        def build(key: str, version: int, group: Mapping[str, PreparedTransaction] = transactions) -> Fields:
            transaction = group[key]
            identity = {"producer_id": transaction.producer_id, "producer_epoch": transaction.producer_epoch}
            return {"transactional_id": key, **identity, "committed": commit}

        newest = NEVER if version > 1 else _LAST_END_TXN_BEFORE_V2
        request = one_key_each(ApiKey.END_TXN, build, _read, max_version=newest)
        outcomes = send_to_coordinators(admin, transactions, request, TRANSACTION, timeout_ms)
        errors |= {key: error for key, error in outcomes.items() if isinstance(error, KafkaError)}
    return errors


def _read(response: BrokerResponse, key: str) -> str | KafkaError:
    return error_in(response.entity) or "done"
