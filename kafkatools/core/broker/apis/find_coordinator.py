"""FindCoordinator (key 10), versions 0-6: who coordinates a group, a transactional id or a share partition, which is
the leader of the partition that holds it.

The topic of offsets, of transactions or of share groups' state is made when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.coordination import Coordination
from kafkatools.core.broker.coordinators.internal_topic import InternalTopic
from kafkatools.core.broker.metadata.controller import acls
from kafkatools.core.broker.metadata.controller.acls import CLUSTER_NAME
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import CoordinatorNotAvailable, DecodeError, InvalidRequest, KafkaError
from kafkatools.core.protocol.slices import paced, pausing
from kafkatools.core.protocol.uuids import uuid_from_text

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

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
    found = []
    for key in paced(entity.coordinator_keys):
        with pausing(None):  # the first one may create the topic of the coordinators
            found.append(_find(node, request, kind, key))
    return request.respond({"coordinators": found})


def _find(node: Node, request: Request, kind: int, key: str) -> dict[str, Any]:
    try:
        if kind not in (GROUP, TRANSACTION, SHARE) or (kind == SHARE and request.version < FIRST_VERSION_OF_SHARE):
            raise InvalidRequest()
        node.authorize_or_raise(request, *NEEDED[kind], CLUSTER_NAME if kind == SHARE else key)
        if kind == SHARE:
            _ensure_share_key(key)
        topic = _topic(node.coordination, kind)
        node_id, host, port = _endpoint(node, request, topic.leader_of(key))
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
        "node_id": node_id,
        "host": host,
        "port": port,
    }


def _topic(coordination: Coordination, kind: int) -> InternalTopic:
    if kind == GROUP:
        return coordination.offsets_topic
    return coordination.transaction_log if kind == TRANSACTION else coordination.share_state_topic


def _endpoint(node: Node, request: Request, node_id: int) -> tuple[int, str, int]:
    """Where a broker answers clients of the listener that was asked; CoordinatorNotAvailable."""
    if node_id == node.node_id and not node.coordination.is_clustered:
        return node_id, node.advertised_host, node.advertised_port
    broker = node.image.brokers.get(node_id)
    for name, host, port in broker.endpoints if broker is not None and not broker.is_fenced else ():
        if name == request.listener_name:
            return node_id, host, port
    raise CoordinatorNotAvailable()


def _ensure_share_key(key: str) -> None:
    """InvalidRequest unless it is `group:topic id:partition`; a group's id may hold colons."""
    parts = key.rsplit(":", 2)
    try:
        uuid_from_text(parts[1])
        if len(parts) == 3 and parts[0] and int(parts[2]) >= 0:
            return
    except (IndexError, ValueError, DecodeError):
        pass
    raise InvalidRequest()
