"""RenewDelegationToken (key 39), versions 1-2: refused, as Apache Kafka refuses it on a PLAINTEXT listener.

Not done: delegation tokens; there is no listener on which they are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import DelegationTokenRequestNotAllowed

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """Not on this listener."""
    request.decode()
    return request.respond({"error_code": DelegationTokenRequestNotAllowed.code, "expiry_timestamp": -1})
