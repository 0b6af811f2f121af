"""Limits on the size of requests, and the choice of requests that are handled in slices.

A request costs a few microseconds per array element, so a frame of a few kilobytes is handled at once. A larger one
goes to the slow lane; `apis.py` has the limits of each API. There its elements are counted first, without decoding
values, and a request with too many elements is refused.

A small request may have a large response (all topics, all groups). On a broker with many partitions, groups or offsets
such APIs go to the slow lane too. So do fetches of a session with many partitions, and all changes of topics: the
smallest request may create or delete a topic of 10,000 partitions.
"""

from __future__ import annotations

from typing import Final, Protocol

from kafkatools.core.broker.server.apis import Api, Work
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response
from kafkatools.core.errors import DecodeError, InvalidRequest, KafkaError, UnsupportedVersion
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey, response_header_version
from kafkatools.core.protocol.slices import pausing

# A broker with more partitions, groups or offsets handles the requests that list them in the slow lane.
MANY: Final = 2000


class Load(Protocol):
    """The load of a node, and its report of refused requests; `Node` documents the methods."""

    def has_many_entries(self, count: int) -> bool: ...
    def has_many_offsets(self, count: int) -> bool: ...
    def creates_partitions(self) -> bool: ...
    def fetches_many(self, request: Request) -> bool: ...
    def report_refusal(self, line: str) -> None: ...


def may_take_long(node: Load, api: Api, request: Request) -> bool:
    """Return whether a request goes to the slow lane: because of its size, its API, or how much the node holds."""
    if len(request.frame) > api.bytes_at_once or api.work in (Work.LARGE, Work.APPLIED):
        return True
    if api.key is ApiKey.FIND_COORDINATOR and node.creates_partitions():
        return True
    if api.work is Work.SLICED and node.has_many_entries(MANY):
        return True
    if api.key is ApiKey.FETCH and api.work is Work.PAUSES:  # not a Fetch of the quorum, which has no sessions
        return node.fetches_many(request)
    return api.key is ApiKey.OFFSET_FETCH and node.has_many_offsets(MANY)


def ensure_bounded(api: Api, request: Request) -> None:
    """Count the array elements of a request. Raises TooManyElements, or CloseConnection for a malformed body. An
    ApiVersions request in an unserved version is not counted."""
    try:
        entity_type = messages.request_type(request.api_key, request.version)
    except UnsupportedVersion:
        return  # ApiVersions in a version that is not served: its handler does not read the body
    try:
        with pausing(request.pause):
            messages.count_elements(entity_type, request.frame, request.body_offset, api.most_elements)
    except DecodeError as error:
        raise CloseConnection(
            f"malformed request (api key {request.api_key}, version {request.version}): {error}"
        ) from error


def refused(node: Load, api: Api, request: Request) -> Response:
    """The response INVALID_REQUEST to a request with too many elements, which is reported.

    Raises CloseConnection if the response has no error code for the whole request (Kafka's InvalidRequestException).
    """
    most = api.most_elements
    client = request.connection.client_host
    node.report_refusal(f"A {api.name} request from {client} with more than {most} elements was refused")
    request.is_flexible = response_header_version(request.api_key, request.version) > 0
    try:
        return request.refuse(InvalidRequest())
    except KafkaError as error:
        raise CloseConnection(f"{api.name} request with more than {most} elements") from error
