"""Error codes in responses, valid by the schema of the API and version.

The response of an API that reads is changed after the request was executed. A request of an API that writes is executed
without the topics that the fault concerns, and their errors are added to its response; if nothing is left, it is not
executed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.broker.server.acceptor import Dispatch
from kafkatools.core.broker.server.requests import FileRegion, Request, Response
from kafkatools.core.errors import LeaderNotAvailable
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.codec import Layout
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.sandbox.faults.changed_responses import answered
from kafkatools.sandbox.faults.spec import ERROR, READS, FaultSpec

NameOf = Callable[["uuid.UUID | None"], "str | None"]
_TOPIC_ARRAYS = ("topics", "topic_data", "topic_names", "responses")
_KEYS = (
    "name", "topic", "topic_name", "topic_id", "partition_index", "partition", "index", "group_id", "key",
    "transactional_id", "resource_type", "resource_name", "user", "broker_id", "log_dir",
)  # fmt: skip
"""The fields that say what a part of a response is about."""
_DESCRIBED = "eligible_leader_replicas"
"""A field of the partitions in DescribeTopicPartitions only."""
_SIZE_AND_CORRELATION_BYTES = 8


class _Echo(NamedTuple):
    """The arrays of a request and its response that belong together: of topics or other items, then of their
    partitions (empty: the items have the error codes). `number`: the partition's number in both."""

    asked: str
    answered: str
    asked_parts: str = ""
    answered_parts: str = ""
    number: str = "partition_index"


_PARTITIONS = _Echo("topics", "topics", "partitions", "partitions")
_ECHOES: Mapping[int, _Echo] = {
    ApiKey.PRODUCE: _Echo("topic_data", "responses", "partition_data", "partition_responses", "index"),
    ApiKey.OFFSET_COMMIT: _PARTITIONS,
    ApiKey.TXN_OFFSET_COMMIT: _PARTITIONS,
    ApiKey.OFFSET_DELETE: _PARTITIONS,
    ApiKey.DELETE_RECORDS: _PARTITIONS,
    ApiKey.CREATE_TOPICS: _Echo("topics", "topics"),
    ApiKey.DELETE_TOPICS: _Echo("topics", "responses"),
    ApiKey.CREATE_PARTITIONS: _Echo("topics", "results"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _Echo("resources", "responses"),
}


def has_error_code(api_key: int) -> bool:
    """Return whether the fault `error` can be put into the responses of an API."""
    api = ApiKey(api_key)
    if api == ApiKey.API_VERSIONS or api.is_between_nodes:
        return False
    layout = messages.response_type(api, api.last_version).__layout__
    return api in _ECHOES or "error_code" in layout.names or (api in READS and _has_error_code(layout))


def _has_error_code(layout: Layout) -> bool:
    return "error_code" in layout.names or any(map(_has_error_code, filter(None, layout.layouts)))


def has_topics(api_key: int, kind: str) -> bool:
    """Return whether requests of an API have a list of topics; for the fault `error` of an API that reads, whether its
    responses have one."""
    api = ApiKey(api_key)
    is_response = kind == ERROR and api in READS
    message_type = messages.response_type if is_response else messages.request_type
    return _has_topics(message_type(api, api.last_version).__layout__)


def _has_topics(layout: Layout) -> bool:
    return not set(_TOPIC_ARRAYS).isdisjoint(layout.names) or any(map(_has_topics, filter(None, layout.layouts)))


def topics_in(entity: Entity, name_of: NameOf) -> Iterator[str | None]:
    """The names of the topics in a request, at any depth; None for an unknown topic id."""
    for name, value in zip(entity.__layout__.names, entity, strict=True):
        if not isinstance(value, tuple) or isinstance(value, Entity):
            continue
        for element in value:
            if isinstance(element, Entity):
                if name in _TOPIC_ARRAYS:
                    yield _topic(element, name_of)
                yield from topics_in(element, name_of)
            elif name in _TOPIC_ARRAYS and isinstance(element, str):
                yield element


def _topic(element: Entity, name_of: NameOf) -> str | None:
    for field in ("name", "topic", "topic_name"):
        name = getattr(element, field, None)
        if name:
            return str(name)
    return name_of(getattr(element, "topic_id", None))


def erroneous(request: Request, dispatch: Dispatch, spec: FaultSpec, name_of: NameOf) -> Response:
    """Handle a request with the error code of a fault. Raises CloseConnection."""
    if request.api_key in READS:
        return _answered(request, dispatch, lambda entity: _changed(entity, spec, name_of))
    echo = _ECHOES.get(request.api_key)
    if echo is None:
        return request.respond({"error_code": spec.error_code})
    return _without_some(request, dispatch, spec, name_of, echo)


# -- APIs that read ----------------------------------------------------------------------------------------------------
def _answered(request: Request, dispatch: Dispatch, change: Callable[[Entity], Entity]) -> Response:
    def changed(response: Response) -> Response:
        if not response:
            return response
        data = b"".join(map(_bytes, response))
        offset = _SIZE_AND_CORRELATION_BYTES + request.is_flexible
        entity, _ = messages.decode(messages.response_type(request.api_key, request.version), data, offset)
        return [request.frame_response(messages.encode(change(entity)))]

    return answered(request, dispatch, changed)


def _bytes(part: bytes | bytearray | memoryview | FileRegion) -> bytes:
    if not isinstance(part, FileRegion):
        return bytes(part)
    return os.pread(part.file.fileno(), part.size_bytes, part.position)


def _changed(response: Entity, spec: FaultSpec, name_of: NameOf) -> Entity:
    """A response with errors in its elements, or in itself if none of its arrays has elements with error codes."""
    layout = response.__layout__
    has_own_only = not any(nested is not None and _has_error_code(nested) for nested in layout.layouts)
    if has_own_only and spec.topic is None:
        return response.replaced(error_code=spec.error_code)
    return _with_errors(response, spec, name_of, is_in_topic=spec.topic is None)


def _with_errors(entity: Entity, spec: FaultSpec, name_of: NameOf, *, is_in_topic: bool) -> Entity:
    """Replace the elements with an error code that belong to the topics of a fault, at any depth."""
    changed: dict[str, object] = {}
    for name, nested, value in zip(entity.__layout__.names, entity.__layout__.layouts, entity, strict=True):
        if nested is not None and isinstance(value, tuple) and not isinstance(value, Entity):
            changed[name] = tuple(_element(part, name, spec, name_of, is_in_topic) for part in value)
    return entity.replaced(**changed)


def _element(part: Entity, array: str, spec: FaultSpec, name_of: NameOf, is_in_topic: bool) -> Entity:
    if array in _TOPIC_ARRAYS and spec.topic is not None:
        is_in_topic = spec.has_topic(_topic(part, name_of))
    if spec.error_code == LeaderNotAvailable.code and _DESCRIBED in part.__layout__.names and is_in_topic:
        return part.replaced(error_code=spec.error_code, leader_id=-1)
    if is_in_topic and "error_code" in part.__layout__.names and not _has_described_partitions(part, spec):
        return _error_element(part, spec)
    return _with_errors(part, spec, name_of, is_in_topic=is_in_topic)


def _has_described_partitions(part: Entity, spec: FaultSpec) -> bool:
    """Return whether an element is a topic of DescribeTopicPartitions and the error one of its partitions, which keep
    their replicas then, as in a response of Apache Kafka."""
    nested = filter(None, part.__layout__.layouts)
    return spec.error_code == LeaderNotAvailable.code and any(_DESCRIBED in layout.names for layout in nested)


def _error_element(part: Entity, spec: FaultSpec) -> Entity:
    """An element that says only what it is about and the error; other fields have their defaults. Records are empty as
    from Apache Kafka: librdkafka refuses null."""
    keys = {name: getattr(part, name) for name in _KEYS if name in part.__layout__.names}
    keys |= {"records": b""} if "records" in part.__layout__.names else {}
    return type(part)(**keys, error_code=spec.error_code)


# -- APIs that write ---------------------------------------------------------------------------------------------------
def _without_some(request: Request, dispatch: Dispatch, spec: FaultSpec, name_of: NameOf, echo: _Echo) -> Response:
    """Execute a request without the items that a fault concerns, and add their errors to the response."""
    entity = request.decode()
    field = echo.asked if echo.asked in entity.__layout__.names else "topic_names"  # DeleteTopics before version 6
    items = getattr(entity, field)
    refused = [item for item in items if spec.topic is None or spec.has_topic(_name(item, name_of))]
    errors = [_refusal(item, spec, echo) for item in refused]
    rest = tuple(item for item in items if item not in refused)
    if not rest:
        is_unanswered = request.api_key == ApiKey.PRODUCE and entity.acks == 0
        top: Fields = {echo.answered: errors}
        return () if is_unanswered else request.respond(top)
    body = messages.encode(entity.replaced(**{field: rest}))
    request.frame = memoryview(bytearray(bytes(request.frame[: request.body_offset]) + body))

    def with_errors(response: Entity) -> Entity:
        return response.replaced(**{echo.answered: (*getattr(response, echo.answered), *errors)})

    return _answered(request, dispatch, with_errors)


def _name(item: Entity | str, name_of: NameOf) -> str | None:
    return item if isinstance(item, str) else _topic(item, name_of)


def _refusal(item: Entity | str, spec: FaultSpec, echo: _Echo) -> Fields:
    """The part of a response that refuses an item of a request."""
    if isinstance(item, str):
        return {"name": item, "error_code": spec.error_code}
    keys = {name: getattr(item, name) for name in _KEYS if name in item.__layout__.names}
    if not echo.asked_parts:
        return {**keys, "error_code": spec.error_code}
    numbers = [getattr(part, echo.number) for part in getattr(item, echo.asked_parts)]
    return {**keys, echo.answered_parts: [{echo.number: number, "error_code": spec.error_code} for number in numbers]}
