"""Fetch (key 1) on the controller's listener, versions 12-18: the metadata log for voters and observers (KIP-595).

The last fetched epoch, by which a leader sees where a replica's log parts from its own, came with version 12: older
ones are refused as INVALID_REQUEST. Waits while there is nothing new.
Not done: directories of replicas (version 17 carries them; the voters are fixed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.server.requests import DELAYED, CloseConnection, Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.raft import Raft
    from kafkatools.core.broker.node import Node


def allowed_raft(node: Node, request: Request) -> tuple[Raft, dict[str, Any] | None]:
    """This node's member of the quorum, and the response for one who may not talk to it. A node without one closes the
    connection."""
    raft = getattr(node, "raft", None)
    if raft is None:
        raise CloseConnection("this node is no member of a quorum of several")
    try:
        node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    except KafkaError as error:
        return raft, {"error_code": error.code, "topics": [], "responses": [], "throttle_time": 0}
    return raft, None


def handle(node: Node, request: Request) -> Response:
    """Answer now, or when there is something to tell."""
    raft, refusal = allowed_raft(node, request)
    if refusal is not None:
        return request.respond(refusal)
    now: list[dict[str, Any]] = []
    is_late = False

    def answer(fields: dict[str, Any]) -> None:
        if is_late:
            request.complete(request.respond(fields))
        else:
            now.append(fields)

    raft.handle_fetch(request.decode(), node.clock.now_ms(), answer)
    is_late = True
    return request.respond(now[0]) if now else DELAYED
