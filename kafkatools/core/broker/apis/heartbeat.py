"""Heartbeat (key 12), versions 0-4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.groups.service import told
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import GroupAuthorizationFailed

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_INSTANCE_ID = 3


def handle(node: Node, request: Request) -> Response:
    """The member lives; it may hear that a rebalance goes on."""
    entity = request.decode()
    instance_id = entity.group_instance_id if request.version >= FIRST_VERSION_OF_INSTANCE_ID else None
    if not node.authorize(request, READ, GROUP, entity.group_id):
        return request.respond({"error_code": GroupAuthorizationFailed.code})
    code = node.groups.heartbeat(entity.group_id, entity.generation_id, entity.member_id, instance_id)
    return told(node.coordination, request, entity.group_id, {"error_code": code}, lambda code: {"error_code": code})
