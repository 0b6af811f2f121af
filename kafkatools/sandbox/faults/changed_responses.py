"""Execute a request and change its response, whenever it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from kafkatools.core.broker.server.acceptor import Dispatch
from kafkatools.core.broker.server.requests import DELAYED, SLICED, Client, CloseConnection, Request, Response


class _ChangedResponses:
    """A connection whose next response is changed before it is sent."""

    def __init__(self, connection: Client, change: Callable[[Response], Response]) -> None:
        self._connection, self._change = connection, change

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def complete(self, response: Response) -> None:
        """Send the changed response to the delayed request; or close the connection."""
        try:
            response = self._change(response)
        except CloseConnection:
            self._connection.close()
        else:
            self._connection.complete(response)

    def end_slices(self, outcome: Response | CloseConnection) -> None:
        """Send the changed outcome of a request in the slow lane."""
        if not isinstance(outcome, CloseConnection) and outcome is not DELAYED:
            try:
                outcome = self._change(outcome)
            except CloseConnection as error:
                outcome = error
        self._connection.end_slices(outcome)


def answered(request: Request, dispatch: Dispatch, change: Callable[[Response], Response]) -> Response:
    """Execute a request and change its response, whenever it comes. Raises CloseConnection."""
    request.connection = cast(Client, _ChangedResponses(request.connection, change))
    response = dispatch(request)
    return response if response is DELAYED or response is SLICED else change(response)
