"""What the listener of the controller answers: the quorum's own APIs, what brokers ask of the controller, and what
clients may ask it directly (Kafka's ControllerApis)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.server.dispatch import APIS, Api, Dispatcher, Handler, handler_in
from kafkatools.core.broker.server.forwarding import (
    ENVELOPE_KEY,
    FORWARDED,
    READ_ONLY,
    handle_envelope,
    run_on_controller,
)
from kafkatools.core.broker.server.requests import DELAYED, CloseConnection, Request, Response
from kafkatools.core.errors import KafkaError, NotController

if TYPE_CHECKING:
    from kafkatools.core.broker.cluster_node import ClusterNode

API_VERSIONS, DESCRIBE_CLUSTER, DESCRIBE_ACLS, DESCRIBE_CONFIGS, DESCRIBE_QUORUM = 18, 60, 29, 32, 55
_OWN = (
    Api(1, "raft_fetch", 12, 18, 12),
    Api(52, "vote", 0, 2, 0),
    Api(53, "begin_quorum_epoch", 0, 1, 1),
    Api(54, "end_quorum_epoch", 0, 1, 1),
    Api(56, "alter_partition", 2, 3, 0),
    Api(58, "envelope", 0, 0, 0),
    Api(59, "fetch_snapshot", 0, 1, 0),
    Api(62, "broker_registration", 0, 4, 0),
    Api(63, "broker_heartbeat", 0, 2, 0),
    Api(67, "allocate_producer_ids", 0, 0, 0),
    Api(70, "controller_registration", 0, 0, 0),
    Api(73, "assign_replicas_to_dirs", 0, 0, 0),
)
_SHARED = (API_VERSIONS, DESCRIBE_CLUSTER, DESCRIBE_ACLS, DESCRIBE_CONFIGS)
_QUORUM = (1, 52, 53, 54, 59)
_OF_BROKERS = (56, 62, 63, 67, 70, 73)
CONTROLLER_APIS: dict[int, Api] = {
    api.key: api for api in sorted((*_OWN, *(APIS[key] for key in (*_SHARED, *FORWARDED))), key=lambda api: api.key)
}


class ControllerDispatcher(Dispatcher):
    """The way from a frame to whoever answers it on the controller's listener."""

    def __init__(self, node: ClusterNode) -> None:
        super().__init__(node, CONTROLLER_APIS)

    def handler_of(self, api: Api) -> Handler:
        """The quorum's, the controller's, or a broker's handler that works on the controller."""
        if api.key == ENVELOPE_KEY:
            envelope: Any = handle_envelope
            handler: Handler = envelope
            return handler
        plain = handler_in(api.name)
        if api.key in _SHARED or api.key in _QUORUM or api.key in READ_ONLY:
            return plain

        def handle(node: Any, request: Request) -> Response:
            def refused(error: KafkaError) -> Response:
                return request.respond({"error_code": error.code})

            is_of_brokers = api.key in _OF_BROKERS
            return _when_committed(node, request, lambda: plain(node, request), refused if is_of_brokers else None)

        return handle


# -- the controller ------------------------------------------------------------------------------------------------
def _when_committed(
    node: ClusterNode,
    request: Request,
    work: Callable[[], Response],
    refused: Callable[[KafkaError], Response] | None,
) -> Response:
    """The answer to work for the active controller, when what it wrote is committed; `refused` gives the answer when
    this node is not it, else the connection ends: the client looks for another."""
    responses: list[Response] = []
    is_delayed = False

    def answer(response: Response) -> None:
        if is_delayed:
            request.complete(response)
        else:
            responses.append(response)

    def give_up() -> None:
        if refused is None:
            if not is_delayed:
                raise CloseConnection("this controller is not active")
            request.connection.close()
        elif is_delayed:
            request.complete(refused(NotController()))
        else:
            responses.append(refused(NotController()))

    run_on_controller(node, request.api_key, work, answer, give_up, give_up)
    if responses:
        return responses[0]
    is_delayed = True
    return DELAYED
