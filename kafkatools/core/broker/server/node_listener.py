"""The listeners of a node: their sockets, which are bound before the node's parts exist, and their acceptors."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.cluster_settings import ClusterSettings, EndPoint
from kafkatools.core.broker.security.listener_security import ListenerSecurity
from kafkatools.core.broker.server.acceptor import Acceptor, Dispatch, Secure, bind_acceptor, listen
from kafkatools.core.broker.server.listener import Listener

if TYPE_CHECKING:
    from kafkatools.core.broker.security.sasl_listener import SaslListener


def bind_listeners(settings: ClusterSettings) -> list[socket.socket]:
    """Bind a socket for every listener of a node, in the order of `settings.listeners`. Raises OSError; then all are
    closed.

    Sockets of controller listeners and of a node alone listen at once; the others when the broker serves clients.
    """
    sockets: list[socket.socket] = []
    try:
        for point in settings.listeners:
            sockets.append(bind_acceptor((point.host, point.port)))
            if _is_open(settings, point):
                listen(sockets[-1])
    except OSError:
        for bound in sockets:
            bound.close()
        raise
    return sockets


def bound_end_points(settings: ClusterSettings, sockets: Sequence[socket.socket]) -> tuple[EndPoint, ...]:
    """The listeners of a node with the ports of their sockets; an advertised port of 0 becomes the bound one."""
    ports = [bound.getsockname()[1] for bound in sockets]
    return tuple(
        replace(point, port=port, advertised_port=point.advertised_port or port)
        for point, port in zip(settings.listeners, ports, strict=True)
    )


def add_acceptors(
    listener: Listener,
    settings: ClusterSettings,
    security: Mapping[str, ListenerSecurity],
    sasl: Mapping[str, SaslListener],
    sockets: Sequence[socket.socket],
    dispatcher_of: Callable[[str], Dispatch],
) -> None:
    """Add an acceptor for every bound socket; `dispatcher_of` makes the request handler for a listener's name."""
    clients = [point.name for point in settings.broker_listeners if point.name != settings.inter_broker_listener]
    for point, bound in zip(settings.listeners, sockets, strict=True):
        is_controller = settings.is_controller_listener(point.name)
        listener.add_acceptor(
            Acceptor(
                point.name,
                bound,
                dispatcher_of(point.name),
                is_open=_is_open(settings, point),
                is_internal=is_controller,
                is_protected=is_controller or (bool(clients) and point.name not in clients),
                security_protocol=point.protocol,
                secure=secure_by(security[point.name]),
                max_first_request_bytes=sasl[point.name].max_request_bytes if point.name in sasl else sys.maxsize,
            )
        )


def secure_by(security: ListenerSecurity) -> Secure | None:
    """The function that begins TLS on an accepted socket of a listener; None without TLS."""
    if security.tls is None:
        return None
    from kafkatools.core.broker.security.tls_stream import TlsStream

    return partial(TlsStream, tls=security.tls)


def _is_open(settings: ClusterSettings, point: EndPoint) -> bool:
    return settings.is_alone or settings.is_controller_listener(point.name)
