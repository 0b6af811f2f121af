"""Vote (key 52), versions 0-2: a member of the quorum asks for a vote, or whether it would get one (KIP-595, KIP-996).

Not done: directories of voters (version 1 and 2 carry them; the voters are fixed).
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
    return request.respond(refusal or raft.handle_vote(request.decode(), node.clock.now_ms()))
