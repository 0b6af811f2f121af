"""Records of `__share_group_state` (KIP-932).

Source: share-coordinator/src/main/resources/common/message of Apache Kafka 4.3.
"""

from __future__ import annotations

from kafkatools.core.protocol.schemas.framing import CoordinatorRecords
from kafkatools.core.protocol.schemas.schema import Schema

ShareSnapshotKey = Schema("ShareSnapshotKey")
ShareSnapshotValue = Schema("ShareSnapshotValue")
ShareUpdateKey = Schema("ShareUpdateKey")
ShareUpdateValue = Schema("ShareUpdateValue")

RECORDS = CoordinatorRecords([ShareSnapshotKey, ShareUpdateKey], [ShareSnapshotValue, ShareUpdateValue])
decode_record = RECORDS.decode
encode_record = RECORDS.encode
