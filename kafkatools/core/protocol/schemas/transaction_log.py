"""Records of `__transaction_state`.

Source: transaction-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.framing import CoordinatorRecords
from kafkatools.core.protocol.schemas.schema import Schema

TransactionLogKey = Schema("TransactionLogKey")
TransactionLogValue = Schema("TransactionLogValue")

RECORDS = CoordinatorRecords([TransactionLogKey], [TransactionLogValue])
decode_record = RECORDS.decode
encode_record = RECORDS.encode
