"""What the handlers of a controller's own APIs have in common: the node they need, whose controller is a quorum's, and
that only who may act for the cluster is heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.metadata.controller.quorum_controller import QuorumController
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaError


class ControllerNode(Protocol):
    """A node of a cluster, as these handlers see it."""

    @property
    def controller(self) -> QuorumController: ...

    @property
    def clock(self) -> Clock: ...

    def authorize_or_raise(self, request: Request, operation: int, resource_type: int, name: str) -> None:
        """Raises the authorization error of the resource's type."""
        ...


def answered(
    node: ControllerNode,
    request: Request,
    ask: Callable[[Any], dict[str, Any]],
    refused: Mapping[str, Any] | Callable[[KafkaError], dict[str, Any]],
) -> Response:
    """The answer to a node of the cluster: the fields that `ask` makes of the request, or the error's code and
    `refused`, which may be made of the error as a whole. Needs CLUSTER_ACTION."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        fields = ask(entity)
    except KafkaError as error:
        fields = refused(error) if callable(refused) else {"error_code": error.code, **refused}
    return request.respond(fields)
