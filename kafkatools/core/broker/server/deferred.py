"""A response that a handler may complete now or later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.server.requests import DELAYED, Request, Response

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Fields


class Deferred:
    """The response to one request. The handler returns `result()`: the response itself, or DELAYED.

    Rules: it must be completed exactly once, between two turns of the node. That happens on the broker's thread, or on
    the slow lane's thread while the handler runs there.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._response: Response | None = None
        self._is_complete = False
        self.is_delayed = False  # whether the handler has returned without the response

    def complete(self, response: Response) -> None:
        """Give the response to the client.

        Raises RuntimeError for a second response: the client would take it for the response to its next request.
        """
        if self._is_complete:
            raise RuntimeError(f"api key {self._request.api_key}: a second response to one request")
        self._is_complete = True
        if self.is_delayed:
            self._request.complete(response)
        else:
            self._response = response

    def respond(self, fields: Fields) -> None:
        """Give a response made of the fields of the newest version."""
        self.complete(self._request.respond(fields))

    def result(self) -> Response:
        """The response, or DELAYED while there is none. The handler calls this last and returns its result."""
        if self._response is not None:
            return self._response
        self.is_delayed = True
        return DELAYED
