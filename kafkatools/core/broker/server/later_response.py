"""The response of one request: given while its handler runs, or later."""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.server.requests import DELAYED, Request, Response


class LaterResponse:
    """A handler gives it, and returns what `returned` says."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._response: Response | None = None
        self.is_delayed = False  # whether the handler has returned without it

    def give(self, response: Response) -> None:
        """This is the response."""
        if self.is_delayed:
            self._request.complete(response)
        else:
            self._response = response

    def respond(self, fields: dict[str, Any]) -> None:
        """These are the response's fields."""
        self.give(self._request.respond(fields))

    def returned(self) -> Response:
        """What the handler returns."""
        if self._response is not None:
            return self._response
        self.is_delayed = True
        return DELAYED
