"""Decode record keys and values for the dump: as text, as numbers, or as records of an internal topic.

A decoder takes a record and returns the texts of its key and value, None for what is absent. It raises Damage where
Kafka's tool would stop. Source: the MessageParser classes of DumpLogSegments.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from kafkatools.core.java.text import java_string
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.records import DumpedRecord
from kafkatools.core.protocol.definitions import snake_case
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
from kafkatools.core.protocol.schemas.framing import CoordinatorRecords, FramedRecords
from kafkatools.core.protocol.schemas.json_form import json_text, to_json
from kafkatools.core.protocol.schemas.schema import Schema

Decoded = tuple[str | None, str | None]
Decoder = Callable[[DumpedRecord], Decoded]
PLUGIN_GROUP = "kafkatools.formatters"
_PACKAGE = "org.apache.kafka.tools.api."


class DecoderPlugin(NamedTuple):
    """A decoder of another distribution, for keys or values: `decode` turns bytes into text."""

    decode: Callable[[bytes], str]


def _number(data: bytes | memoryview, size: int) -> str:
    if len(data) < size:
        raise Damage(f"{len(data)} bytes are too few for an integer of {size} bytes")
    return str(int.from_bytes(data[:size], "big", signed=True))


VALUE_DECODERS: dict[str, Callable[[bytes | memoryview], str]] = {
    "StringDecoder": java_string,
    "DefaultDecoder": lambda data: base64.b64encode(data).decode(),
    "IntegerDecoder": lambda data: _number(data, 4),
    "LongDecoder": lambda data: _number(data, 8),
}
"""The decoder classes of Apache Kafka by their simple names. Java prints an array's identity for DefaultDecoder; here
it is the bytes in base64."""


def value_decoder(class_name: str) -> Callable[[bytes | memoryview], str] | None:
    """Return the decoder for a Java class name, with or without Kafka's package, or for the name of a plugin's; None
    for an unknown one. Raises PluginError."""
    return VALUE_DECODERS.get(class_name.removeprefix(_PACKAGE)) or _plugin_decoder(class_name)


def _plugin_decoder(name: str) -> Callable[[bytes | memoryview], str] | None:
    from kafkatools.core.entry_points import find_object
    from kafkatools.core.plugin_calls import PluginCalls

    found = find_object(PLUGIN_GROUP, name, DecoderPlugin)
    if found is None:
        return None
    point, plugin = found
    calls = PluginCalls(point, Damage)
    return lambda data: calls.checked("decode", calls.call(plugin.decode, bytes(data)), str)


def plain_decoder(
    key_decoder: Callable[[bytes | memoryview], str], decode_value: Callable[[bytes | memoryview], str]
) -> Decoder:
    """Return a record decoder that applies one function to the key and another one to the value; a null key or value
    gives None. It raises Damage for a key or value that is cut off."""

    def decode(record: DumpedRecord) -> Decoded:
        for data, size in ((record.key, record.key_size), (record.value, record.value_size)):
            if data is not None and len(data) < size:
                raise Damage(f"newLimit > capacity: ({size} > {len(data)})")
        key = None if record.key is None else key_decoder(record.key)
        return key, None if record.value is None else decode_value(record.value)

    return decode


def coordinator_decoder(
    records: CoordinatorRecords, value_as_json: Callable[[Entity], dict[str, object]] = to_json
) -> Decoder:
    """Return a decoder for the records of a coordinator's topic, as JSON text. A tombstone's value is `<DELETE>`. An
    unknown or malformed record gives Kafka's message as the key; a record without a key raises Damage."""

    def decode(record: DumpedRecord) -> Decoded:
        if record.key is None:
            raise Damage(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)"
            )
        try:
            key, value = records.decode(record.key, record.value)
        except UnknownRecordType as problem:
            return f"Unknown record type {problem.type_id} at offset {record.offset}, skipping.", None
        except RecordFormatError as problem:
            return f"Error at offset {record.offset}, skipping. {problem}", None
        key_text = json_text({"type": str(key.__api_key__), "data": to_json(key)})
        if value is None:
            return key_text, "<DELETE>"
        return key_text, json_text({"version": str(value.__version__), "data": value_as_json(value)})

    return decode


def framed_decoder(records: FramedRecords, show: Callable[[Entity], str], place: str = "") -> Decoder:
    """Return a decoder for the records of a metadata topic: no key, the value as `show` formats it. A malformed record
    gives Kafka's message as the value, with `place` before the offset."""

    def decode(record: DumpedRecord) -> Decoded:
        try:
            entity = records.decode(record.value if record.value is not None else b"")
        except RecordFormatError as problem:
            return None, f"Error at {place}{record.offset}, skipping. {problem}"
        return None, show(entity)

    return decode


def _group_value(entity: Entity) -> dict[str, object]:
    from kafkatools.core.protocol.schemas.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )

    json = to_json(entity)
    if entity.__schema__.name != "GroupMetadataValue" or entity.protocol_type != "consumer":
        return json
    for member, member_json in zip(entity.members, json["members"], strict=True):
        _replace(member_json, "subscription", ConsumerProtocolSubscription, member.subscription)
        _replace(member_json, "assignment", ConsumerProtocolAssignment, member.assignment)
    return json


def _replace(member_json: dict[str, object], name: str, schema: Schema, data: bytes) -> None:
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        # Kafka reads a version that is too new as the newest version
        member_json[name] = to_json(schema.read(min(max(version, 0), schema.highest_version), data, 2)[0])
    except RecordFormatError:
        return  # shown as bytes


def _metadata_value(entity: Entity) -> str:
    kind = snake_case(entity.__schema__.name).upper()  # Kafka's MetadataRecordType
    return json_text({"type": kind, "version": entity.__version__, "data": to_json(entity)})


_SCHEMAS = {
    "offsets-decoder": "offsets",
    "transaction-log-decoder": "transaction_log",
    "cluster-metadata-decoder": "metadata",
    "remote-log-metadata-decoder": "remote_log_metadata",
    "share-group-state-decoder": "share_group_state",
}
"""Option of the dump -> the module in core/protocol/schemas of its topic's records."""


def internal_decoder(option: str) -> Decoder:
    """Return the decoder for an internal topic by its option of the dump, such as `offsets-decoder`. Raises KeyError
    for another option. Imports the schemas of this topic only: those of all topics take longer than a small dump."""
    module = import_module(f"kafkatools.core.protocol.schemas.{_SCHEMAS[option]}")
    if option == "offsets-decoder":
        return coordinator_decoder(module.RECORDS, _group_value)
    if option == "cluster-metadata-decoder":
        return framed_decoder(module.RECORDS, _metadata_value)
    if option == "remote-log-metadata-decoder":
        return framed_decoder(module.RECORDS, module.describe, "offset ")
    return coordinator_decoder(module.RECORDS)
