"""Check that a client is still connected while its connection is muted: until the response to the current request is
sent, the listener does not read from the connection and does not see that the client closed it."""

from __future__ import annotations

import select
from typing import Final

from kafkatools.core.broker.server.requests import Client

_GONE: Final[int] = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def is_present(connection: Client) -> bool:
    """Whether the client has not closed its side. Where the system cannot tell (no POLLRDHUP), only a reset counts."""
    if connection.is_closed:
        return False
    poller = select.poll()
    poller.register(connection.socket, _GONE)
    return not poller.poll(0)
