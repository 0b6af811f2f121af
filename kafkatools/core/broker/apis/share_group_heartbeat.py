"""ShareGroupHeartbeat (key 76), version 1: members of share groups join, live and leave (KIP-932).

A refusal says why in its message. What changes is written before, and replicated before it is
told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.apis.consumer_group_heartbeat import NOTHING, message_of, refusal
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.service import client_of, told
from kafkatools.core.broker.coordinators.groups.share.groups import ShareHeartbeat
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP, READ, TOPIC
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FEATURE = "share.version"


def handle(node: Node, request: Request) -> Response:
    """The member's epoch, and its assignment when that changed."""
    entity = request.decode()
    names = entity.subscribed_topic_names
    wanted = ShareHeartbeat(
        entity.group_id,
        entity.member_id,
        entity.member_epoch,
        client_of(request),
        entity.rack_id,
        None if names is None else frozenset(names),
    )
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, READ, GROUP, wanted.group_id)
        for name in wanted.subscribed_topic_names or ():
            node.authorize_or_raise(request, DESCRIBE, TOPIC, name)
        fields = node.groups.share_heartbeat(wanted)
    except KafkaError as error:
        fields = {**NOTHING, "error_code": coordinator_error_code(error), "error_message": message_of(error)}
    return told(node.coordination, request, wanted.group_id, fields, refusal)


def ensure_enabled(node: Node) -> None:
    """UnsupportedVersion when the cluster's feature level leaves share groups out."""
    if node.image.features.get(FEATURE, 0) < 1:
        raise UnsupportedVersion()
