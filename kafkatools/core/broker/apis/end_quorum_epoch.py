"""EndQuorumEpoch (key 54), versions 0-1: a leader resigns and names who should follow it (KIP-595).

Not done: directories of voters (version 1 carries them; the voters are fixed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.apis.raft_fetch import allowed_raft
from kafkatools.core.broker.server.requests import Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """The quorum decides."""
    raft, refusal = allowed_raft(node, request)
    return request.respond(refusal or raft.handle_end_quorum_epoch(request.decode(), node.clock.now_ms()))
