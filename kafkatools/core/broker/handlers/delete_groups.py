"""DeleteGroups (key 42), versions 0-2: empty groups with their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.controller.acls import DELETE, GROUP
from kafkatools.core.broker.group_coordinator.errors import coordinator_error_code
from kafkatools.core.broker.later_response import LaterResponse
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 2)


def handle(node: Node, request: Request) -> Response:
    """One answer per group; a group named twice is deleted once."""
    entity = request.decode()
    names = list(dict.fromkeys(entity.groups_names))
    codes = {name: _delete(node, request, name) for name in names}
    node.groups.send_answers()
    response = LaterResponse(request)

    def done(failed: dict[str, int]) -> None:
        codes.update(failed)
        response.respond({"results": [{"group_id": name, "error_code": code} for name, code in codes.items()]})

    node.coordination.groups.when_all_committed([name for name, code in codes.items() if not code], done)
    return response.returned()


def _delete(node: Node, request: Request, group_id: str) -> int:
    try:
        node.authorize_or_raise(request, DELETE, GROUP, group_id)
        node.groups.delete_group(group_id)
    except KafkaError as error:
        return coordinator_error_code(error)
    return 0
