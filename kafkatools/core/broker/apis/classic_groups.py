"""Handlers for members of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import GroupContext
from kafkatools.core.broker.apis.groups import client_of, committed_response, delayed_response
from kafkatools.core.broker.coordinators.groups import requests
from kafkatools.core.broker.coordinators.groups.requests import error_code_field
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InconsistentGroupProtocol

# JoinGroup
FIRST_VERSION_OF_REBALANCE_TIMEOUT = 1
FIRST_VERSION_OF_MEMBER_ID_REQUIRED = 4
FIRST_VERSION_OF_SKIPPED_ASSIGNMENT = 9
# SyncGroup
FIRST_VERSION_OF_PROTOCOL = 5
# LeaveGroup
FIRST_VERSION_OF_BATCHES = 3


def handle_join_group(node: GroupContext, request: Request) -> Response:
    """Answer JoinGroup when all members have joined or the rebalance time-out is over. An error, such as
    MEMBER_ID_REQUIRED, is sent at once.

    A member that starts no rebalance, or joins a group of the consumer protocol, also gets its response at once. Raises
    GroupAuthorizationFailed.
    """
    entity = request.decode()
    version, session_timeout_ms = request.version, entity.session_timeout
    join = requests.JoinRequest(
        group_id=entity.group_id,
        member_id=entity.member_id,
        instance_id=entity.group_instance_id,
        client=client_of(request),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            entity.rebalance_timeout if version >= FIRST_VERSION_OF_REBALANCE_TIMEOUT else session_timeout_ms
        ),
        protocol_type=entity.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in entity.protocols),
        needs_member_id=version >= FIRST_VERSION_OF_MEMBER_ID_REQUIRED and entity.group_instance_id is None,
        may_skip_assignment=version >= FIRST_VERSION_OF_SKIPPED_ASSIGNMENT,
    )
    node.authorize_or_raise(request, READ, GROUP, join.group_id)
    return delayed_response(
        node,
        request,
        join.group_id,
        lambda respond: node.groups.join(join, respond),
        lambda code: requests.join_error(join.member_id, code),
    )


def handle_sync_group(node: GroupContext, request: Request) -> Response:
    """Answer SyncGroup with the member's assignment: at once in a stable group or one of the consumer protocol, else
    once the assignment of the group's leader is committed. An error, such as REBALANCE_IN_PROGRESS, is sent at once.

    From version 5 on the request must name the protocol type and the protocol (KIP-559); else raises
    InconsistentGroupProtocol. Raises GroupAuthorizationFailed.
    """
    entity = request.decode()
    version = request.version
    names_protocol = version >= FIRST_VERSION_OF_PROTOCOL
    protocol_type = entity.protocol_type if names_protocol else None
    protocol_name = entity.protocol_name if names_protocol else None
    if names_protocol and (protocol_type is None or protocol_name is None):
        raise InconsistentGroupProtocol()
    sync = requests.SyncRequest(
        entity.group_id,
        entity.generation_id,
        entity.member_id,
        entity.group_instance_id,
        protocol_type,
        protocol_name,
        [(member.member_id, bytes(member.assignment)) for member in entity.assignments],
    )
    node.authorize_or_raise(request, READ, GROUP, sync.group_id)
    return delayed_response(
        node, request, sync.group_id, lambda respond: node.groups.sync(sync, respond), error_code_field
    )


def handle_heartbeat(node: GroupContext, request: Request) -> Response:
    """Answer Heartbeat: extend the session of a valid member. The error code says whether the group is rebalancing or
    the member is unknown, fenced or of another generation. Raises GroupAuthorizationFailed."""
    entity = request.decode()
    node.authorize_or_raise(request, READ, GROUP, entity.group_id)
    code = node.groups.heartbeat(entity.group_id, entity.generation_id, entity.member_id, entity.group_instance_id)
    return committed_response(node, request, entity.group_id, {"error_code": code}, error_code_field)


def handle_leave_group(node: GroupContext, request: Request) -> Response:
    """Answer LeaveGroup: remove one member, or from version 3 on several, each with a result of its own; static members
    by group.instance.id. Raises GroupAuthorizationFailed."""
    entity = request.decode()
    if request.version >= FIRST_VERSION_OF_BATCHES:
        members = [requests.MemberIdentity(member.member_id, member.group_instance_id) for member in entity.members]
    else:
        members = [requests.MemberIdentity(entity.member_id)]
    node.authorize_or_raise(request, READ, GROUP, entity.group_id)
    code, codes = node.groups.leave(entity.group_id, members)
    if request.version < FIRST_VERSION_OF_BATCHES:
        return committed_response(node, request, entity.group_id, {"error_code": code or codes[0]}, error_code_field)
    answers = [
        {"member_id": member.member_id, "group_instance_id": member.instance_id, "error_code": member_code}
        for member, member_code in zip(members, codes, strict=False)
    ]
    return committed_response(
        node, request, entity.group_id, {"error_code": code, "members": answers}, error_code_field
    )
