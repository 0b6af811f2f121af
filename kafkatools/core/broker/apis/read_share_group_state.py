"""ReadShareGroupState (key 84), version 0: the state of share partitions, for their leader (KIP-932)."""

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
    return answer(node, node.coordination, request, _read, {"state_epoch": 0, "start_offset": 0, "state_batches": []})


def _read(states: ShareCoordinator, key: ShareKey, asked: Any) -> Outcome:
    state = states.read(key, asked.leader_epoch)
    fields = {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": [batch._asdict() for batch in state.batches],
    }
    return fields, None
