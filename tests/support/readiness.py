"""Which sockets can be read, whatever their descriptors are: select() takes none from 1,024 on."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterable


def readable(sockets: Iterable[socket.socket], timeout_s: float) -> list[socket.socket]:
    """Those of the sockets that have data or an end to read; waits for the first at most so long."""
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, selectors.EVENT_READ)
        return [each for key, _ in selector.select(timeout_s) if isinstance(each := key.fileobj, socket.socket)]
