"""Check of a response: it decodes completely as the API's response and has no UNKNOWN_SERVER_ERROR."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from support.message_plans import plan_of
from support.whole_messages import decode_all

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import decode_response_header
from kafkatools.core.protocol.messages import response_type

UNKNOWN_SERVER_ERROR = -1
ANSWERED_SO_BY_KAFKA = frozenset(
    {
        ApiKey.METADATA,  # a topic without name and id
        ApiKey.INCREMENTAL_ALTER_CONFIGS,  # an operation that does not exist
        ApiKey.CREATE_ACLS,  # a resource or operation that no entry can be about
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,  # an empty key for the HMAC
        ApiKey.JOIN_GROUP,  # a subscription that cannot be read, in a group of the consumer protocol
        ApiKey.SYNC_GROUP,  # an assignment that no record can hold
        ApiKey.OFFSET_COMMIT,  # a commit that no record can hold
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.LEAVE_GROUP,  # a change of a group that is too large for max.message.bytes of __consumer_offsets
        ApiKey.OFFSET_DELETE,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.SHARE_FETCH,  # a share partition whose state cannot be read
    }
)
_HEAD = struct.Struct(">hhi")


class Finding(Exception):  # noqa: N818 - what a fuzzer finds is no error of its own
    """A property that a frame or file broke."""


def decode_answer(request: bytes, answer: memoryview, apis: Any) -> Any:
    """The response to a request as an entity. Raises Finding."""
    api_key, version, correlation_id = _HEAD.unpack_from(request)
    api = apis[api_key]
    if not api.lowest <= version <= api.highest:
        version = 0  # only ApiVersions answers what it does not know
    try:
        found, position = decode_response_header(api_key, version, answer)
        entity = decode_all(response_type(api_key, version), answer, position)
    except Exception as error:  # noqa: BLE001 - boundary: any failure to read the answer is the finding
        raise Finding(f"the answer of {ApiKey(api_key).label} {version} cannot be read: {error!r}") from error
    if found != correlation_id:
        raise Finding(f"{ApiKey(api_key).label} {version} answered {found} instead of {correlation_id}")
    if api_key not in ANSWERED_SO_BY_KAFKA and UNKNOWN_SERVER_ERROR in error_codes(entity):
        raise Finding(f"{ApiKey(api_key).label} {version} answered UNKNOWN_SERVER_ERROR: {entity}")
    return entity


def error_codes(entity: Any) -> Iterator[int]:
    """Every error code of an entity and of those in it."""
    for field in plan_of(type(entity)).all_fields():
        value = getattr(entity, field.name)
        if field.type == "error_code":
            yield int(value)
        elif field.type is None and value is not None:
            for item in value if field.is_array else (value,):
                if item is not None:
                    yield from error_codes(item)
