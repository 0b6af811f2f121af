"""AlterClientQuotas (key 49), versions 0-1: each entity changes as a whole or not at all; validate only.

Not done: nothing of the API; which quotas are enforced is said in `quotas.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.apis.describe_client_quotas import entity_fields
from kafkatools.core.broker.metadata.controller.acls import ALTER_CONFIGS, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.metadata.controller.client_quotas import Alteration, Entity, entity_of
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One result per entity."""
    entity = request.decode()
    alterations = [
        Alteration(
            entity_of({part.entity_type: part.entity_name for part in each.entity}),
            [(operation.key, None if operation.remove else operation.value) for operation in each.ops],
        )
        for each in entity.entries
    ]
    outcomes: dict[Entity, KafkaError | None]
    try:
        node.authorize_or_raise(request, ALTER_CONFIGS, CLUSTER, CLUSTER_NAME)
        outcomes = node.controller.alter_client_quotas(alterations, validate_only=entity.validate_only)
    except KafkaError as error:
        outcomes = {each.entity: error for each in alterations}
    entries = []
    for each, problem in outcomes.items():
        fields = {"error_code": 0, "error_message": None} if problem is None else error_fields(problem)
        entries.append({**fields, "entity": entity_fields(each)})
    return request.respond({"entries": entries})
