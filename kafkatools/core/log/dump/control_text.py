"""Format control records for the dump: transaction markers and the control records of a KRaft log."""

from __future__ import annotations

from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.records import DumpedRecord
from kafkatools.core.protocol.schemas.errors import RecordFormatError
from kafkatools.core.protocol.schemas.json_form import json_text, to_json

_MARKERS = {0: "ABORT", 1: "COMMIT"}
_LABELS = {
    2: "LeaderChange: ",
    3: "SnapshotHeader ",
    4: "SnapshotFooter ",
    5: "KRaftVersion ",
    6: "KRaftVoters ",
}


def control_text(record: DumpedRecord) -> str:
    """Return the text that DumpLogSegments prints after a control record's metadata; an unknown type gives
    `controlType: UNKNOWN(...)`. Raises Damage for a key or value that is too short or malformed."""
    key = record.key if record.key is not None else b""
    if len(key) < 4:
        raise Damage(
            f"Invalid value size found for control record key. Must have at least 4 bytes, but found only {len(key)}"
        )
    version, type_id = int.from_bytes(key[:2], "big", signed=True), int.from_bytes(key[2:4], "big", signed=True)
    if version < 0:
        raise Damage(f"Invalid version found for control record: {version}. May indicate data corruption")
    if type_id in _MARKERS:
        return f" endTxnMarker: {_MARKERS[type_id]} coordinatorEpoch: {_coordinator_epoch(record)}"
    if type_id in _LABELS:
        return f" {_LABELS[type_id]}{_entity_text(type_id, record)}"
    return f" controlType: UNKNOWN({type_id})"


def _coordinator_epoch(record: DumpedRecord) -> int:
    value = record.value if record.value is not None else b""
    if len(value) < 6:
        raise Damage(
            "Invalid value size found for end transaction marker. "
            f"Must have at least 6 bytes, but found only {len(value)}"
        )
    return int.from_bytes(value[2:6], "big", signed=True)


def _entity_text(type_id: int, record: DumpedRecord) -> str:
    from kafkatools.core.protocol.schemas import snapshot

    try:
        return json_text(to_json(snapshot.decode_record(type_id, record.value if record.value is not None else b"")))
    except RecordFormatError as problem:
        raise Damage(f"{_LABELS[type_id].strip(': ')} cannot be read: {problem.__cause__ or problem}") from problem
