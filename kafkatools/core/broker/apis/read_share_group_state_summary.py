"""ReadShareGroupStateSummary (key 87), versions 0-1: where share partitions begin, for their group's coordinator
(KIP-932, KIP-1226)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey, ShareState
from kafkatools.core.broker.coordinators.share_state.state_requests import Outcome, answer
from kafkatools.core.broker.server.requests import Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

REFUSED = {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "delivery_complete_count": -1}


def handle(node: Node, request: Request) -> Response:
    """One answer for each partition."""
    return answer(node, node.coordination, request, _read, REFUSED)


def _read(states: ShareCoordinator, key: ShareKey, _asked: Any) -> Outcome:
    state = states.summary(key) or ShareState()
    fields = {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.delivery_complete_count,
    }
    return fields, None
