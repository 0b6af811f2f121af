"""AlterConfigs (key 33), versions 0-2: replaces all settings of a topic or of this broker.

Not done: as incremental_alter_configs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.handlers.incremental_alter_configs import answer_each
from kafkatools.core.broker.requests import Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 2)


def handle(node: Node, request: Request) -> Response:
    """Each resource is replaced as a whole or not at all."""

    def replace(key: tuple[int, str], configs: Sequence[Any], validate_only: bool) -> None:
        values = {config.name: config.value for config in configs}
        node.controller.replace_configs(key, values, validate_only=validate_only)

    return answer_each(request, replace)
