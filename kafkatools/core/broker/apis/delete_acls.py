"""DeleteAcls (key 31), versions 1-3: what each filter fits is removed.

Not done: nothing of what a client can ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import ALTER, CLUSTER, CLUSTER_NAME, Acl, AclFilter, ensure_enabled
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One result per filter, naming what it removed."""
    filters = [
        AclFilter(
            int(each.resource_type_filter),
            each.resource_name_filter,
            int(each.pattern_type_filter),
            each.principal_filter,
            each.host_filter,
            int(each.operation),
            int(each.permission_type),
        )
        for each in request.decode().filters
    ]
    if any(each.has_unknown for each in filters):
        raise CloseConnection("Filters contain UNKNOWN elements")
    try:
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
        ensure_enabled(node.authorizer is not None, "No Authorizer is configured.")
    except KafkaError as error:
        return request.respond({"filter_results": [{**error_fields(error), "matching_acls": []} for _ in filters]})
    removed = node.controller.delete_acls(filters)
    return request.respond({"filter_results": [_result(found) for found in removed]})


def _result(found: list[Acl]) -> dict[str, Any]:
    matching = [{"error_code": 0, "error_message": None, **acl._asdict()} for acl in found]
    return {"error_code": 0, "error_message": None, "matching_acls": matching}
