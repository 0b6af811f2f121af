"""SyncGroup (key 14), versions 0-5: answered when the leader's assignment is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.groups.requests import SyncRequest, sync_error
from kafkatools.core.broker.coordinators.groups.service import answered
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import GroupAuthorizationFailed, InconsistentGroupProtocol

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_INSTANCE_ID = 3
FIRST_VERSION_OF_PROTOCOL = 5


def handle(node: Node, request: Request) -> Response:
    """The member's assignment; from version 5 on the request must say which protocol it means (KIP-559)."""
    entity = request.decode()
    version = request.version
    names_protocol = version >= FIRST_VERSION_OF_PROTOCOL
    protocol_type = entity.protocol_type if names_protocol else None
    protocol_name = entity.protocol_name if names_protocol else None
    if names_protocol and (protocol_type is None or protocol_name is None):
        return request.respond(sync_error(InconsistentGroupProtocol.code))
    wanted = SyncRequest(
        entity.group_id,
        entity.generation_id,
        entity.member_id,
        entity.group_instance_id if version >= FIRST_VERSION_OF_INSTANCE_ID else None,
        protocol_type,
        protocol_name,
        [(each.member_id, bytes(each.assignment)) for each in entity.assignments],
    )
    if not node.authorize(request, READ, GROUP, wanted.group_id):
        return request.respond(sync_error(GroupAuthorizationFailed.code))
    return answered(
        node.coordination, request, wanted.group_id, lambda answer: node.groups.sync(wanted, answer), sync_error
    )
