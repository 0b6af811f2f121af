"""Requests and responses between the listener and the handlers.

A response is a list of parts: bytes, or a `FileRegion` that goes from the log to the socket with sendfile. The size
prefix counts all of them. A handler returns the parts; or DELAYED when it responds later with
`request.complete(parts)`; or `()` for no response (acks=0).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import Any, Final, Protocol

from kafkatools.core.errors import KafkaError, ThrottlingQuotaExceeded, UnknownServerError
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.slices import pausing

_SIZE_AND_CORRELATION = Struct(">ii")


def error_fields(error: KafkaError) -> Fields:
    """The fields `error_code` and `error_message` of a result; UNKNOWN_SERVER_ERROR and THROTTLING_QUOTA_EXCEEDED have
    no message, as in Kafka."""
    has_no_text = isinstance(error, (UnknownServerError, ThrottlingQuotaExceeded))
    return {"error_code": error.code, "error_message": None if has_no_text else str(error)}


def outcome_fields(error: KafkaError | None) -> Fields:
    """The fields `error_code` and `error_message` of a result; none for success, which is their default."""
    return {} if error is None else error_fields(error)


class CloseConnection(Exception):
    """Closes the connection without a response: a malformed or unsupported request, or a failed Produce with acks=0."""


class HasDescriptor(Protocol):
    """An open file or socket."""

    def fileno(self) -> int: ...


class FileRegion:
    """A range of a file that is sent with sendfile; `file` gives its descriptor at the moment of sending."""

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
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that did not authenticate."""
TokenHandler = Callable[[memoryview], Response]
"""Gets a frame without a request header, which has a SASL token (SaslHandshake version 0)."""


class Shortcut(Protocol):
    """Handles the frames of a connection that repeat an earlier request, without decoding them."""

    def respond(self, frame: memoryview) -> bytes | None:
        """The response to a frame; REPLY_PENDING if `Connection.queue_pending` gets it later; None if the frame has to
        be dispatched."""
        ...


class _NoShortcut:
    """A shortcut that handles no frame. It replaces another one whose responses may still be pending, so that the
    connection keeps their order."""

    def respond(self, frame: memoryview) -> bytes | None:
        """Leave the frame to the dispatcher."""
        return None


NO_SHORTCUT: Final = _NoShortcut()


class ServedApis(Protocol):
    """The APIs that a listener serves (`Dispatcher`)."""

    apis: Mapping[int, Any]


class Place(Protocol):
    """The listener of a connection (`Acceptor`)."""

    @property
    def name(self) -> str: ...
    @property
    def dispatch(self) -> ServedApis: ...
    @property
    def security_protocol(self) -> str: ...


class Client(Protocol):
    """The methods and attributes of a connection that request handlers use. `Connection` implements and documents
    them."""

    last_written: object
    is_peer: bool
    principal: str
    has_session_end: bool
    is_token_authenticated: bool
    max_request_bytes: int
    software: tuple[str, str]

    @property
    def client_host(self) -> str: ...
    @property
    def client_port(self) -> int: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def acceptor(self) -> Place: ...
    @property
    def socket(self) -> socket.socket: ...
    def complete(self, response: Response) -> None: ...
    def begin_slices(self) -> None: ...
    def end_slices(self, outcome: Response | CloseConnection) -> None: ...
    def queue_pending(self, response: bytes) -> None: ...
    def settle(self) -> None: ...
    def throttle(self, delay_ms: int) -> None: ...
    def take_tokens(self, handler: TokenHandler | None) -> None: ...
    def use_shortcut(self, shortcut: Shortcut | None) -> None: ...
    def call_when_closed(self, owner: object, run: Callable[[], None]) -> None: ...
    def close(self) -> None: ...


class Usage(Protocol):
    """Counts what clients use, for their quotas; `Quotas` documents the methods."""

    def note_request(self, request: Request) -> None: ...
    def note_produce(self, request: Request, size_bytes: int) -> None: ...
    def most_fetch_bytes(self, request: Request) -> float: ...
    def note_fetch(self, request: Request, size_bytes: int) -> bool: ...


class Lane(Protocol):
    """Handles large requests in slices; `SlowLane` documents the method."""

    def submit(self, request: Request, work: Callable[[], Response]) -> None: ...


class Request:
    """One request frame. `frame` is a writable view on the receive buffer, valid until the handler returns."""

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

    def __init__(
        self, connection: Client, frame: memoryview, header: tuple[int, int, int], lane: Lane | None = None
    ) -> None:
        """`header` has API key, version and correlation id. In `lane` a large request may be handled in slices."""
        self.connection = connection
        self.frame = frame
        self.api_key, self.version, self.correlation_id = header
        self.client_id: str | None = None
        self.body_offset = 0
        self.is_flexible = False
        self.quotas: Usage | None = None
        self.started_ns = 0
        self.throttle_ms = 0
        self.lane = lane
        self.pause: Callable[[], None] | None = None
        self.resume: Callable[[Callable[[], Response]], None] | None = None

    def measure(self, quotas: Usage, now_ns: int) -> None:
        """Count the processing time from now on, and what the client uses, for its quotas."""
        self.quotas, self.started_ns = quotas, now_ns

    def enter_lane(self, resume: Callable[[Callable[[], Response]], None]) -> None:
        """Note that the request is handled in the slow lane; `resume` does work on its response there, after the
        request was delayed."""
        self.resume = resume

    @contextmanager
    def paced_by(self, pause: Callable[[], None]) -> Iterator[None]:
        """Let the handler pause between two steps, by `pause`, inside of the `with` block."""
        self.pause = pause
        try:
            yield
        finally:
            self.pause = None

    @property
    def listener_name(self) -> str:
        """The name of the listener that the client is connected to."""
        return self.connection.acceptor.name

    @property
    def principal(self) -> str:
        """The principal of the client, `type:name`."""
        return self.connection.principal

    def decode(self) -> Any:
        """Decode the body as an entity. Raises CloseConnection for a malformed body."""
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
        """Encode a response from fields of the newest version; fields that the request's version lacks are left out.
        With client quotas the processing time is counted and the throttle time set."""
        from kafkatools.core.protocol import messages

        if self.quotas is not None:
            self.quotas.note_request(self)
            fields = {**fields, "throttle_time": self.throttle_ms}
        entity_type = messages.response_type(self.api_key, self.version)
        return [self.frame_response(messages.encode_fields(entity_type, fields))]

    def refuse(self, error: KafkaError) -> Response:
        """Encode a response with this error and defaults for all other fields. Raises the error when the response has
        no error code for the whole request."""
        from kafkatools.core.protocol import messages

        if "error_code" not in messages.response_type(self.api_key, self.version).__layout__.names:
            raise error
        return self.respond(error_fields(error))

    def frame_response(self, body: bytes | bytearray, following_bytes: int = 0) -> bytes:
        """Prepend size prefix and response header to a body; `following_bytes` is the size of further parts."""
        if self.is_flexible:
            return _SIZE_AND_CORRELATION.pack(len(body) + 5 + following_bytes, self.correlation_id) + b"\0" + body
        return _SIZE_AND_CORRELATION.pack(len(body) + 4 + following_bytes, self.correlation_id) + body

    def complete(self, response: Response) -> None:
        """Respond to a delayed request. The connection is read again at once, or after its throttle time."""
        if self.throttle_ms:
            self.connection.throttle(self.throttle_ms)
        self.connection.complete(response)
