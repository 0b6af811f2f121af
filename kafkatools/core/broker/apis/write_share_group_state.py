"""WriteShareGroupState (key 85), versions 0-1: what changed in share partitions (KIP-932, KIP-1226)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import (
    UNINITIALIZED_COUNT,
    ShareKey,
    ShareUpdate,
    batches_of,
)
from kafkatools.core.broker.coordinators.share_state.state_requests import Outcome, answer
from kafkatools.core.broker.server.requests import Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_COUNTS = 1


def handle(node: Node, request: Request) -> Response:
    """One answer for each partition."""
    has_count = request.version >= FIRST_VERSION_OF_COUNTS

    def write(states: ShareCoordinator, key: ShareKey, asked: Any) -> Outcome:
        count = asked.delivery_complete_count if has_count else UNINITIALIZED_COUNT
        batches = batches_of(asked.state_batches)
        update = ShareUpdate(asked.state_epoch, asked.leader_epoch, asked.start_offset, count, batches)
        return {}, states.write(key, update)

    return answer(node, node.coordination, request, write, {})
