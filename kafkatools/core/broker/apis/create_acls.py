"""CreateAcls (key 30), versions 1-3: each ACL is made or refused for itself.

Not done: nothing of what a client can ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import ALTER, CLUSTER, CLUSTER_NAME, UNKNOWN, Acl, ensure_enabled
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One result per creation."""
    wanted = [
        Acl(
            int(each.resource_type),
            each.resource_name,
            int(each.resource_pattern_type),
            each.principal,
            each.host,
            int(each.operation),
            int(each.permission_type),
        )
        for each in request.decode().creations
    ]
    if any(UNKNOWN in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type) for acl in wanted):
        raise CloseConnection("CreatableAcls contain unknown elements")
    try:
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
        ensure_enabled(node.authorizer is not None, "No Authorizer is configured.")
    except KafkaError as error:
        return request.respond({"results": [error_fields(error) for _ in wanted]})
    return request.respond({"results": [_result(error) for error in node.controller.create_acls(wanted)]})


def _result(error: KafkaError | None) -> dict[str, Any]:
    if error is None:
        return {"error_code": 0, "error_message": ""}
    return error_fields(error)
