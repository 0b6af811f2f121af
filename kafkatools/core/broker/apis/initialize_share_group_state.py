"""InitializeShareGroupState (key 83), version 0: the state of share partitions begins (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.broker.coordinators.share_state.state_requests import Outcome, answer
from kafkatools.core.broker.server.requests import Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One answer for each partition."""
    return answer(node, node.coordination, request, _initialize, {})


def _initialize(states: ShareCoordinator, key: ShareKey, asked: Any) -> Outcome:
    return {}, states.initialize(key, asked.state_epoch, asked.start_offset)
