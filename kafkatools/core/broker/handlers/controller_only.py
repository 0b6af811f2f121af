"""What the handlers of a controller's own APIs need of their node: the controller of a quorum."""

from __future__ import annotations

from typing import Protocol

from kafkatools.core.broker.controller.quorum_controller import QuorumController
from kafkatools.core.broker.requests import Request
from kafkatools.core.clock import Clock


class ControllerNode(Protocol):
    """A node of a cluster, as these handlers see it."""

    @property
    def controller(self) -> QuorumController: ...

    @property
    def clock(self) -> Clock: ...

    def authorize_or_raise(self, request: Request, operation: int, resource_type: int, name: str) -> None:
        """Raises the authorization error of the resource's type."""
        ...
