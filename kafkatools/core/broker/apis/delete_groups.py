"""DeleteGroups (key 42), versions 0-2: empty groups with their offsets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.metadata.controller.acls import DELETE, GROUP
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One answer per group; a group named twice is deleted once."""
    entity = request.decode()
    names = list(dict.fromkeys(entity.groups_names))
    response = LaterResponse(request)
    codes: dict[str, int] = {}

    def committed(failed: dict[str, int]) -> None:
        results = [{"group_id": name, "error_code": failed.get(name, codes[name])} for name in names]
        response.respond({"results": results})

    def note(name: str, error: KafkaError | None) -> None:
        codes[name] = 0 if error is None else coordinator_error_code(error)
        if len(codes) == len(names):
            deleted = [name for name, code in codes.items() if not code]
            node.coordination.groups.when_all_committed(deleted, committed)

    for name in names:
        _delete(node, request, name, partial(note, name))
    if not names:
        committed({})
    node.groups.send_answers()
    return response.returned()


def _delete(node: Node, request: Request, group_id: str, done: Callable[[KafkaError | None], None]) -> None:
    try:
        node.authorize_or_raise(request, DELETE, GROUP, group_id)
    except KafkaError as error:
        done(error)
    else:
        node.groups.delete_group_when_it_may(group_id, done)
