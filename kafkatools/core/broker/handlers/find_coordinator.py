"""FindCoordinator (key 10), versions 0-6: this node coordinates every group and transactional id.

The topic of offsets, and that of transactions, is made when it is first asked for.
Not done: share groups have no coordinator here (COORDINATOR_NOT_AVAILABLE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller import acls
from kafkatools.core.broker.controller.acls import CLUSTER_NAME
from kafkatools.core.broker.group_coordinator.offsets_topic import OffsetsTopic
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.broker.transaction_coordinator.transaction_log import TransactionLog
from kafkatools.core.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 6)
GROUP, TRANSACTION, SHARE = 0, 1, 2
NEEDED = {
    GROUP: (acls.DESCRIBE, acls.GROUP),
    TRANSACTION: (acls.DESCRIBE, acls.TRANSACTIONAL_ID),
    SHARE: (acls.CLUSTER_ACTION, acls.CLUSTER),
}
FIRST_VERSION_OF_TYPES = 1
FIRST_VERSION_OF_BATCHES = 4
FIRST_VERSION_OF_SHARE = 6


def handle(node: Node, request: Request) -> Response:
    """One answer per key."""
    entity = request.decode()
    kind = entity.key_type if request.version >= FIRST_VERSION_OF_TYPES else GROUP
    if request.version < FIRST_VERSION_OF_BATCHES:
        return request.respond(_find(node, request, kind, entity.key))
    return request.respond({"coordinators": [_find(node, request, kind, key) for key in entity.coordinator_keys]})


def _find(node: Node, request: Request, kind: int, key: str) -> dict[str, Any]:
    try:
        if kind not in (GROUP, TRANSACTION, SHARE) or (kind == SHARE and request.version < FIRST_VERSION_OF_SHARE):
            raise InvalidRequest()
        node.authorize_or_raise(request, *NEEDED[kind], CLUSTER_NAME if kind == SHARE else key)
        if kind == SHARE:
            raise CoordinatorNotAvailable()
        if kind == TRANSACTION:
            TransactionLog(node).ensure_exists()
        else:
            OffsetsTopic(node).ensure_exists()
    except KafkaError as error:
        return {
            "key": key,
            "error_code": error.code,
            "error_message": "" if request.version >= FIRST_VERSION_OF_BATCHES else error.message,
            "node_id": -1,
            "host": "",
            "port": -1,
        }
    return {
        "key": key,
        "error_code": 0,
        "error_message": "",
        "node_id": node.node_id,
        "host": node.advertised_host,
        "port": node.advertised_port,
    }
