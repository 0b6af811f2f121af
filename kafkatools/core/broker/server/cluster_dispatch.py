"""Dispatchers for a node of a cluster: one for the broker's listener, one for the controller's (Kafka's KafkaApis and
ControllerApis). The row of an API in `apis.py` says which node answers it."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from kafkatools.core.broker.server.apis import CONTROLLER_APIS, FORWARDED, Api, Handler, ServedBy
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.dispatch import Dispatcher, Served
from kafkatools.core.broker.server.forwarding import ControllerMember, forward, run_on_controller
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response
from kafkatools.core.errors import NotController


class BrokerDispatcher(Dispatcher):
    """Dispatches requests of a broker's listener, and forwards those for the active controller."""

    def handler_of(self, api: Api) -> Handler:
        """The handler of an API; `forward` for an API that the active controller answers."""
        return forward if api.served_by in FORWARDED else super().handler_of(api)


class ControllerNode(Served, ControllerMember, Protocol):
    """The node behind a controller's listener."""


class ControllerDispatcher(Dispatcher):
    """Dispatches requests of a controller's listener; the response to a change waits until the change is committed."""

    def __init__(self, node: ControllerNode) -> None:
        super().__init__(node, CONTROLLER_APIS)

    def handler_of(self, api: Api) -> Handler:
        """The handler of an API; one that responds after the commit for APIs of the active controller."""
        plain = super().handler_of(api)
        if api.served_by not in (ServedBy.ACTIVE_CONTROLLER, ServedBy.FORWARDED):
            return plain

        def handle(node: Any, request: Request) -> Response:
            """Respond when the records that the handler wrote are committed.

            If the node is not the active controller, or loses the leadership before the commit, other nodes get
            NOT_CONTROLLER. The connections of clients are closed, so that they look for another controller.
            """
            later = Deferred(request)

            def give_up() -> None:
                if api.served_by is ServedBy.ACTIVE_CONTROLLER:
                    later.respond({"error_code": NotController.code})
                else:
                    later.close_connection(CloseConnection("this controller is not active"))

            work = partial(plain, node, request)
            run_on_controller(node, api.key, work, later.complete, give_up, give_up, request.pause)
            return later.result()

        return handle
