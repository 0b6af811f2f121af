"""LeaveGroup (key 13), versions 0-5: one member, from version 3 on several, static ones by their instance id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.groups.requests import MemberIdentity
from kafkatools.core.broker.coordinators.groups.service import told
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import GroupAuthorizationFailed

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_BATCHES = 3


def handle(node: Node, request: Request) -> Response:
    """Take members out."""
    entity = request.decode()
    if request.version >= FIRST_VERSION_OF_BATCHES:
        members = [MemberIdentity(each.member_id, each.group_instance_id) for each in entity.members]
    else:
        members = [MemberIdentity(entity.member_id)]
    if node.authorize(request, READ, GROUP, entity.group_id):
        code, codes = node.groups.leave(entity.group_id, members)
    else:
        code, codes = GroupAuthorizationFailed.code, []
    if request.version < FIRST_VERSION_OF_BATCHES:
        return told(node.coordination, request, entity.group_id, {"error_code": code or codes[0]}, _refusal)
    answers = [
        {"member_id": each.member_id, "group_instance_id": each.instance_id, "error_code": member_code}
        for each, member_code in zip(members, codes, strict=False)
    ]
    return told(node.coordination, request, entity.group_id, {"error_code": code, "members": answers}, _refusal)


def _refusal(code: int) -> dict[str, Any]:
    return {"error_code": code, "members": []}
