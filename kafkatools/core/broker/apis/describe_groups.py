"""DescribeGroups (key 15), versions 0-6: groups of the classic protocol.

A group that is not there is "Dead"; from version 6 on also an error (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import GroupIdNotFound, KafkaError
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_OPERATIONS = 3
FIRST_VERSION_OF_NOT_FOUND = 6
NOT_ASKED = -(1 << 31)


def handle(node: Node, request: Request) -> Response:
    """State and members of each."""
    entity = request.decode()
    is_asked = request.version >= FIRST_VERSION_OF_OPERATIONS and entity.include_authorized_operations
    groups = [
        {**_answer(node, request, group_id), "authorized_operations": operations_of(node, request, group_id, is_asked)}
        for group_id in paced(dict.fromkeys(entity.groups))
    ]
    return request.respond({"groups": groups})


def operations_of(node: Node, request: Request, group_id: str, is_asked: bool) -> int:
    """What the client may do with a group, when it asks and may describe it."""
    if not is_asked or not node.authorize(request, DESCRIBE, GROUP, group_id):
        return NOT_ASKED
    return node.authorized_operations(request, GROUP, group_id)


def _answer(node: Node, request: Request, group_id: str) -> dict[str, Any]:
    try:
        node.authorize_or_raise(request, DESCRIBE, GROUP, group_id)
        node.groups.ensure_active(group_id)
        return _describe(node, request.version, group_id)
    except KafkaError as error:
        code = error.code
    return {
        "error_code": code,
        "error_message": None,
        "group_id": group_id,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }


def _describe(node: Node, version: int, group_id: str) -> dict[str, Any]:
    group = node.groups.groups.get(group_id)
    if not isinstance(group, Group):
        is_error = version >= FIRST_VERSION_OF_NOT_FOUND
        return {
            "error_code": GroupIdNotFound.code if is_error else 0,
            "error_message": f"Group {group_id} {_what_is_wrong(group)}." if is_error else None,
            "group_id": group_id,
            "group_state": GroupState.DEAD.value,
            "protocol_type": "",
            "protocol_data": "",
            "members": [],
        }
    is_stable = group.is_in(GroupState.STABLE)
    return {
        "error_code": 0,
        "error_message": None,
        "group_id": group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol_name or "") if is_stable else "",
        "members": _members(group, is_stable=is_stable),
    }


def _what_is_wrong(group: AnyGroup | None) -> str:
    return "not found" if group is None else "is not a classic group"


def _members(group: Group, *, is_stable: bool) -> list[dict[str, Any]]:
    """What members said of themselves holds only while the group is stable."""
    return [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client.client_id,
            "client_host": member.client.host,
            "member_metadata": member.metadata(group.protocol_name or "") if is_stable else b"",
            "member_assignment": member.assignment,
        }
        for member in paced(list(group.members.values()))
    ]
