"""Listeners without a node."""

from __future__ import annotations

from kafkatools.core.broker.server.acceptor import Acceptor, Dispatch, bind_acceptor, listen
from kafkatools.core.broker.server.connection_limits import ConnectionLimits
from kafkatools.core.broker.server.listener import Listener

ANY_PORT = ("127.0.0.1", 0)


def open_listener(
    dispatch: Dispatch,
    address: tuple[str, int] = ANY_PORT,
    *,
    name: str = "PLAINTEXT",
    limits: ConnectionLimits | None = None,
) -> Listener:
    """A listener that accepts connections on an address."""
    listener = Listener(limits=limits)
    listener.add_acceptor(open_acceptor(dispatch, address, name=name))
    return listener


def open_acceptor(
    dispatch: Dispatch, address: tuple[str, int] = ANY_PORT, *, name: str = "PLAINTEXT", is_protected: bool = False
) -> Acceptor:
    """An acceptor whose socket listens on an address."""
    bound = bind_acceptor(address)
    listen(bound)
    return Acceptor(name, bound, dispatch, is_protected=is_protected)
