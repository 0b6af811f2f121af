"""ClientRequest and ClientResponse, as NetworkClient takes and returns them (org.apache.kafka.clients)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

Item = TypeVar("Item")
Body: TypeAlias = "Entity | list[bytes] | list[bytes | bytearray | memoryview]"
"""The body of a request: an entity that is still to encode, or the buffers of an encoded one."""


class ClientRequest(NamedTuple):
    """A request to a node. `build(version)` returns an entity, or the buffers of an encoded body. With `decode` False
    the response body stays a memoryview. `timeout_ms` None means request.timeout.ms; `max_version` None means the
    newest."""

    node: int
    api_key: int
    build: Callable[[int], Body]
    callback: Callable[[ClientResponse], None] | None = None
    timeout_ms: int | None = None
    expect_response: bool = True
    min_version: int = 0
    max_version: int | None = None
    decode: bool = True


class ClientResponse(NamedTuple):
    """The response to a ClientRequest, or its error. `body` is the entity, or a memoryview when the request has
    `decode` False; None with an error or without a response. `raw` is the bytes of the body, None without a response.
    `api_version` is -1 if the request was not sent."""

    request: ClientRequest
    api_version: int
    body: Any
    raw: memoryview | None
    error: KafkaError | None
    disconnected: bool
    latency_ms: int


def taken(queue: list[Item]) -> Iterator[Item]:
    """Remove and yield the items that a queue of requests or responses has now, each before it is handled. Those behind
    an item whose callback raises stay in the queue. Ends early if a callback takes further items."""
    for _ in range(len(queue)):
        if not queue:
            return
        yield queue.pop(0)
