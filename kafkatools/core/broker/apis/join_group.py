"""JoinGroup (key 11), versions 0-9: answered when the rebalance has everybody."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.groups.requests import Answer, Fields, JoinRequest, join_error
from kafkatools.core.broker.coordinators.groups.service import answered, client_of
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import GroupAuthorizationFailed

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_REBALANCE_TIMEOUT = 1
FIRST_VERSION_OF_MEMBER_ID_REQUIRED = 4
FIRST_VERSION_OF_INSTANCE_ID = 5
FIRST_VERSION_OF_NULL_PROTOCOL = 7
FIRST_VERSION_OF_SKIPPED_ASSIGNMENT = 9


def handle(node: Node, request: Request) -> Response:
    """Join, or join again."""
    entity = request.decode()
    version = request.version
    instance_id = entity.group_instance_id if version >= FIRST_VERSION_OF_INSTANCE_ID else None
    session_timeout_ms = to_ms(entity.session_timeout)
    wanted = JoinRequest(
        group_id=entity.group_id,
        member_id=entity.member_id,
        instance_id=instance_id,
        client=client_of(request),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            to_ms(entity.rebalance_timeout) if version >= FIRST_VERSION_OF_REBALANCE_TIMEOUT else session_timeout_ms
        ),
        protocol_type=entity.protocol_type,
        protocols=tuple((each.name, bytes(each.metadata)) for each in entity.protocols),
        needs_member_id=version >= FIRST_VERSION_OF_MEMBER_ID_REQUIRED and instance_id is None,
        may_skip_assignment=version >= FIRST_VERSION_OF_SKIPPED_ASSIGNMENT,
    )

    if not node.authorize(request, READ, GROUP, wanted.group_id):
        return request.respond(join_error("", GroupAuthorizationFailed.code))

    def ask(answer: Answer) -> None:
        def answer_this_version(fields: Fields) -> None:
            if version < FIRST_VERSION_OF_NULL_PROTOCOL and fields["protocol_name"] is None:
                fields = {**fields, "protocol_name": ""}
            answer(fields)

        node.groups.join(wanted, answer_this_version)

    return answered(node.coordination, request, wanted.group_id, ask, lambda code: join_error(wanted.member_id, code))


def to_ms(duration: timedelta | int) -> int:
    """Milliseconds of a time as the decoder gives it (an impossible one stays a number)."""
    return duration // timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration
