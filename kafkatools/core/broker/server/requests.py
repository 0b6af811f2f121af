"""What travels between the listener and the handlers: requests in, responses out.

A response is a list of parts. A part is bytes, or a `FileRegion` that goes from the log to the socket with sendfile.
The size prefix counts all of them. A handler returns the parts; or `DELAYED` when it answers later with
`request.complete(parts)`; or `()` when nothing is to be sent (acks=0).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Final, Protocol

from kafkatools.core.errors import KafkaError, UnknownServerError
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.slices import pausing

_SIZE_AND_CORRELATION = Struct(">ii")


def error_fields(error: KafkaError) -> Fields:
    """`error_code` and `error_message` of a result; what Kafka has no code for it does not explain either."""
    is_unknown = isinstance(error, UnknownServerError)
    return {"error_code": error.code, "error_message": None if is_unknown else str(error)}


def outcome_fields(error: KafkaError | None) -> Fields:
    """`error_code` and `error_message` of a result that may be a success, for which both have their defaults."""
    return {} if error is None else error_fields(error)


class CloseConnection(Exception):
    """The connection is to be closed without an answer: malformed or unsupported request, failed produce with
    acks=0."""


class HasDescriptor(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor now."""
        ...


class FileRegion:
    """Bytes of a file that are sent without being copied. The file is asked for its descriptor at the moment of
    sending."""

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: HasDescriptor, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes


Part = bytes | bytearray | memoryview | FileRegion
Response = Sequence[Part]
DELAYED: Final[Response] = (b"delayed",)
SLICED: Final[Response] = (b"sliced",)
NO_RESPONSE: Final[Response] = ()


class Shortcut(Protocol):
    """What a handler leaves with a connection to answer requests like the last one without parsing them."""

    def answer(self, frame: memoryview) -> bytes | None:
        """The response to a frame; OWED when it comes later, by `Connection.pay`; None, and nothing has happened, when
        it has to be dispatched."""
        ...


class ServedApis(Protocol):
    """What a listener answers (`Dispatcher`)."""

    apis: Mapping[int, Any]


class Place(Protocol):
    """The listener of a connection (`Acceptor`)."""

    @property
    def name(self) -> str: ...

    @property
    def dispatch(self) -> ServedApis: ...


class Client(Protocol):
    """The connection of a request (`Connection`)."""

    shortcut: Shortcut | None
    last_written: object
    on_close: Callable[[], None] | None
    is_peer: bool

    @property
    def client_host(self) -> str: ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def acceptor(self) -> Place: ...

    @property
    def socket(self) -> socket.socket: ...

    def complete(self, response: Response) -> None:
        """Send the response to the request that was delayed, then go on with the frames after it."""

    def begin_slices(self) -> None:
        """Handle nothing more until `end_slices`."""

    def end_slices(self, outcome: Response | CloseConnection) -> None:
        """Send the response to a request that was handled in slices, then go on with the frames after it."""

    def pay(self, response: bytes) -> None:
        """Queue a response that is owed."""

    def settle(self) -> None:
        """Send what was queued."""

    def throttle(self, delay_ms: int) -> None:
        """Read and handle nothing more for so long (KIP-219)."""

    def close(self) -> None:
        """Drop the connection."""


class Usage(Protocol):
    """What clients use of the broker (`Quotas`)."""

    def note_request(self, request: Request) -> None:
        """Count the time of a request."""

    def note_produce(self, request: Request, size_bytes: int) -> None:
        """Count bytes that were written."""

    def note_fetch(self, request: Request, size_bytes: int) -> bool:
        """Count bytes that are read; whether the response has to be empty."""


class Lane(Protocol):
    """Where large requests are handled in slices (`SlowLane`)."""

    def submit(self, request: Request, work: Callable[[], Response]) -> None:
        """Handle a request in slices, after those before it."""


class Request:
    """One request frame. `frame` is a writable view on the connection's receive buffer: valid only until the handler
    returns."""

    __slots__ = (
        "api_key",
        "body_offset",
        "client_id",
        "connection",
        "correlation_id",
        "frame",
        "is_flexible",
        "lane",
        "pause",
        "quotas",
        "resume",
        "started_ns",
        "throttle_ms",
        "version",
    )

    def __init__(self, connection: Client, frame: memoryview, header: tuple[int, int, int]) -> None:
        self.connection = connection
        self.frame = frame
        self.api_key, self.version, self.correlation_id = header
        self.client_id: str | None = None
        self.body_offset = 0
        self.is_flexible = False
        self.quotas: Usage | None = None
        self.started_ns = 0
        self.throttle_ms = 0
        self.lane: Lane | None = None
        self.pause: Callable[[], None] | None = None
        self.resume: Callable[[Callable[[], Response]], None] | None = None
        """Set for a request in the slow lane: work on its response there, after the request was delayed."""

    @property
    def listener_name(self) -> str:
        """The listener that the client is connected to."""
        return self.connection.acceptor.name

    def decode(self) -> Any:
        """The body as an entity; raises CloseConnection when it cannot be read."""
        from kafkatools.core.protocol import messages

        try:
            entity_type = messages.request_type(self.api_key, self.version)
            with pausing(self.pause):
                entity, _ = messages.decode(entity_type, self.frame, self.body_offset)
        except Exception as error:  # noqa: BLE001 - boundary: whatever a decoder raises over hostile bytes ends this connection only
            raise CloseConnection(
                f"malformed request (api key {self.api_key}, version {self.version}): {error}"
            ) from error
        return entity

    def respond(self, fields: Fields) -> Response:
        """A response of this request's API and version from the newest version's fields; what the version lacks is
        left out."""
        from kafkatools.core.protocol import messages

        if self.quotas is not None:
            self.quotas.note_request(self)
            fields = {**fields, "throttle_time": self.throttle_ms}
        entity_type = messages.response_type(self.api_key, self.version)
        return [self.frame_response(messages.encode_fields(entity_type, fields))]

    def refuse(self, error: KafkaError) -> Response:
        """A response that says only why the request failed; the other fields have their defaults. Raises the error
        when responses of this API have no error code for the whole request."""
        from kafkatools.core.protocol import messages

        if "error_code" not in messages.response_type(self.api_key, self.version).__layout__.names:
            raise error
        return self.respond(error_fields(error))

    def frame_response(self, body: bytes | bytearray, following_bytes: int = 0) -> bytes:
        """Size prefix, response header and body; `following_bytes` is what other parts add to the frame."""
        if self.is_flexible:
            return _SIZE_AND_CORRELATION.pack(len(body) + 5 + following_bytes, self.correlation_id) + b"\0" + body
        return _SIZE_AND_CORRELATION.pack(len(body) + 4 + following_bytes, self.correlation_id) + body

    def complete(self, response: Response) -> None:
        """Answer a request that was delayed; the connection is read again from here on, or when its throttle time is
        over."""
        if self.throttle_ms:
            self.connection.throttle(self.throttle_ms)
        self.connection.complete(response)
