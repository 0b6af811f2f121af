"""Control records of a KRaft log and its snapshots, and the end marker of a transaction.

Source: clients/src/main/resources/common/message of Apache Kafka 4.3 and ControlRecordUtils. The key is version and
type (two int16). The value begins with the version of its schema, which is a field and not a frame.
"""

from __future__ import annotations

from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.errors import UnknownRecordType
from kafkatools.core.protocol.schemas.schema import Schema, write_entity

ControlRecordTypeSchema = Schema("ControlRecordTypeSchema")
EndTxnMarker = Schema("EndTxnMarker")
LeaderChangeMessage = Schema("LeaderChangeMessage")
SnapshotHeaderRecord = Schema("SnapshotHeaderRecord")
SnapshotFooterRecord = Schema("SnapshotFooterRecord")
KRaftVersionRecord = Schema("KRaftVersionRecord")
VotersRecord = Schema("VotersRecord")

CONTROL_RECORDS: dict[int, Schema] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersRecord,
}


def decode_record(type_id: int, value: bytes | memoryview) -> Entity:
    """Decode a control record's value; `type_id` comes from the key. A version above the newest is read as the newest
    one. Raises RecordFormatError, UnknownRecordType."""
    if type_id not in CONTROL_RECORDS:
        raise UnknownRecordType(type_id)
    schema = CONTROL_RECORDS[type_id]
    version = int.from_bytes(value[:2], "big", signed=True)
    return schema.read(min(max(version, 0), schema.highest_version), value)[0]


def encode_record(entity: Entity) -> tuple[bytes, bytes]:
    """Return key and value of the control record for an entity of one of the CONTROL_RECORDS."""
    type_id = next(number for number, schema in CONTROL_RECORDS.items() if schema.name == entity.__schema__.name)
    return bytes((0, 0, 0, type_id)), write_entity(entity)
