"""The listeners of a node, opened as one `Listener` with an acceptor for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafkatools.core.broker.metadata.cluster_settings import ClusterSettings, EndPoint
from kafkatools.core.broker.server.acceptor import Dispatch
from kafkatools.core.broker.server.connection_limits import ConnectionLimits
from kafkatools.core.broker.server.listener import Listener
from kafkatools.core.config import Config


def open_listener(
    config: Config,
    settings: ClusterSettings,
    dispatcher_of: Callable[[str], Dispatch],
    limits: ConnectionLimits,
    schedule: Callable[[int, Callable[[int], None]], object],
) -> Listener:
    """Bind every listener of a node; `dispatcher_of` makes the request handler for a listener's name. Raises OSError.

    Controller listeners, and those of a node alone, accept connections at once; the others when the broker serves
    clients.
    """
    listener: Listener | None = None
    clients = [point.name for point in settings.broker_listeners if point.name != settings.inter_broker_listener]
    for point in settings.listeners:
        is_controller = settings.is_controller_listener(point.name)
        is_open = is_controller or settings.is_alone
        address, dispatch = (point.host, point.port), dispatcher_of(point.name)
        if listener is None:
            listener = Listener(
                address,
                dispatch,
                name=point.name,
                is_open=is_open,
                max_request_bytes=config.socket_request_max_bytes,
                max_idle_ms=config.connections_max_idle_ms,
                limits=limits,
                schedule=schedule,
            )
        else:
            try:
                listener.add_acceptor(point.name, address, dispatch, is_open=is_open)
            except OSError:
                listener.close()
                raise
        listener.acceptors[-1].is_protected = is_controller or (bool(clients) and point.name not in clients)
    assert listener is not None, "a node has a listener"
    return listener


def bound_end_points(settings: ClusterSettings, listener: Listener) -> tuple[EndPoint, ...]:
    """The listeners of a node with the ports that they are bound to; an advertised port of 0 becomes the bound one."""
    return tuple(
        replace(point, port=acceptor.port, advertised_port=point.advertised_port or acceptor.port)
        for point, acceptor in zip(settings.listeners, listener.acceptors, strict=True)
    )
