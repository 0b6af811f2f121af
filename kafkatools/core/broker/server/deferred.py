"""Responses that a handler completes now or later, and queues of responses that wait for a log to be committed.

Rules: a response is completed at most once, between two turns of the node: on the broker's thread, or on the slow
lane's thread while the handler runs there. Responses that wait for one log are completed in the order of their offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kafkatools.core.broker.server.requests import DELAYED, CloseConnection, Request, Response
from kafkatools.core.errors import RequestTimedOut
from kafkatools.core.protocol.entities import Fields


class Deferred:
    """The response to one request, completed now or later. The handler returns `result()`: the response, or DELAYED."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._make: Callable[[], Response] | None = None
        self._is_complete = False
        self.is_delayed = False  # whether the handler has returned without the response

    def complete(self, response: Response) -> None:
        """Give the response to the client. Raises RuntimeError for a second one: it would answer the next request."""
        self._end()
        if self.is_delayed:
            self._request.complete(response)
        else:
            self._make = lambda: response

    def complete_with(self, make: Callable[[], Response]) -> None:
        """Give the large response that `make` returns. For a request in the slow lane `make` runs there in slices.
        Raises RuntimeError for a second response."""
        self._end()
        if not self.is_delayed:
            self._make = make
        elif self._request.resume is None:
            self._request.complete(make())
        else:
            self._request.resume(make)

    def close_connection(self, reason: CloseConnection) -> None:
        """Close the client's connection; raises `reason` while the handler runs, RuntimeError after a response."""
        self._end()
        if not self.is_delayed:
            raise reason
        self._request.connection.close()

    def _end(self) -> None:
        if self._is_complete:
            raise RuntimeError(f"api key {self._request.api_key}: a second response to one request")
        self._is_complete = True

    def respond(self, fields: Fields) -> None:
        """Give a response with these fields of the newest version. Raises RuntimeError for a second response."""
        self.complete(self._request.respond(fields))

    def result(self) -> Response:
        """The response, or DELAYED if there is none yet. The handler calls this last and returns its result."""
        if self._make is not None:
            return self._make()
        self.is_delayed = True
        return DELAYED


class Settles(Protocol):
    """A connection with queued responses; `Connection` documents the method."""

    def settle(self) -> None: ...


class Waiting(NamedTuple):
    """A response that waits until a log is committed up to `required_offset`."""

    required_offset: int
    finish: Callable[[int], Settles | None]
    """Called once with the error code, 0 when the log is committed. It completes the response, or queues it and returns
    the connection to settle."""
    deadline_ms: int | None = None
    """The time of the node's clock at which the error is REQUEST_TIMED_OUT; None when there is no limit."""


class WaitingResponses(deque[Waiting]):
    """Responses that wait for one log, in the order of their offsets."""

    __slots__ = ()

    def complete(self, outcome_of: Callable[[int], int | None], now_ms: int | None = None) -> None:
        """Complete the responses that have an outcome, up to the first that has none.

        `outcome_of` returns the error code for an offset, or None while its response has to wait. With `now_ms`,
        responses whose deadline has passed are completed with REQUEST_TIMED_OUT.
        """
        queued: dict[Settles, None] = {}
        while self:
            required_offset, finish, deadline_ms = self[0]
            outcome = outcome_of(required_offset)
            if outcome is None:
                if now_ms is None or deadline_ms is None or deadline_ms > now_ms:
                    break
                outcome = RequestTimedOut.code
            self.popleft()
            connection = finish(outcome)
            if connection is not None:
                queued[connection] = None
        for connection in queued:
            connection.settle()
