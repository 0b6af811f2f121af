"""AlterConfigs (key 33), versions 0-2: replaces all settings of a topic, this broker, a group or a client metrics
subscription. Needs ALTER_CONFIGS.

Not done: as incremental_alter_configs; loggers are changed there only, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.describe_configs import authorize_resource
from kafkatools.core.broker.apis.incremental_alter_configs import answer_each
from kafkatools.core.broker.metadata.controller.acls import ALTER_CONFIGS
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """Each resource is replaced as a whole or not at all. Kafka cannot read a request that names one twice."""
    entity = request.decode()
    keys = [(int(resource.resource_type), resource.resource_name) for resource in entity.resources]
    if len(set(keys)) != len(keys):
        raise CloseConnection("AlterConfigs names a resource twice")

    def replace(key: tuple[int, str], configs: Sequence[Any], validate_only: bool) -> None:
        authorize_resource(node, request, ALTER_CONFIGS, key)
        node.controller.replace_configs(key, [(each.name, each.value) for each in configs], validate_only=validate_only)

    return answer_each(request, entity, replace)
