"""ListGroups (key 16), versions 0-5, with the filters by state (KIP-518) and type (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE, GROUP
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import CoordinatorLoadInProgress
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_STATES = 4
FIRST_VERSION_OF_TYPES = 5


def handle(node: Node, request: Request) -> Response:
    """Every group that passes the filters; an empty filter passes all."""
    entity = request.decode()
    states = {state.lower() for state in entity.states_filter} if request.version >= FIRST_VERSION_OF_STATES else None
    types = {kind.lower() for kind in entity.types_filter} if request.version >= FIRST_VERSION_OF_TYPES else None
    if node.coordination.groups.is_loading:
        return request.respond({"error_code": CoordinatorLoadInProgress.code, "groups": []})
    is_shown = _Shown(node, request)
    groups = [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_name_of_type,
            "group_state": group.state_name,
            "group_type": group.group_type,
        }
        for group in paced(list(node.groups.groups.values()))
        if (not states or group.state_name.lower() in states)
        and (not types or group.group_type in types)
        and is_shown(group.group_id)
    ]
    return request.respond({"error_code": 0, "groups": groups})


class _Shown:
    """Who may describe the cluster sees every group, else only those it may describe."""

    def __init__(self, node: Node, request: Request) -> None:
        self._node = node
        self._request = request
        self._all = node.authorize(request, DESCRIBE, CLUSTER, CLUSTER_NAME)

    def __call__(self, group_id: str) -> bool:
        return self._all or self._node.authorize(self._request, DESCRIBE, GROUP, group_id)
