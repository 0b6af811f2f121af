"""A request to a node and what became of it, as NetworkClient takes and returns them (org.apache.kafka.clients)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity


Body: TypeAlias = "Entity | list[bytes] | list[bytes | bytearray | memoryview]"
"""What a request says after its header: an entity, or buffers that are framed as they are."""


class ClientRequest(NamedTuple):
    """A request to a node. `build(version)` gives an entity, or the buffers of a body that is framed as it is.

    With `decode` False the answer's body stays a memoryview. Without `timeout_ms` request.timeout.ms holds.
    """

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
    """What became of a request. `body` is the entity, or the raw memoryview when the request asked for that; None with
    an error and for a request without an answer. `raw` is the body's bytes."""

    request: ClientRequest
    api_version: int
    body: Any
    raw: memoryview | None
    error: KafkaError | None
    disconnected: bool
    latency_ms: int
