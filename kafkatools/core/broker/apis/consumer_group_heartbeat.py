"""ConsumerGroupHeartbeat (key 68), versions 0-1: members of consumer groups join, live and leave (KIP-848).

A refusal says why in its message. What changes is written before, and replicated before it is
told.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.join_group import to_ms
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import CONSUMER
from kafkatools.core.broker.coordinators.groups.modern.consumer_heartbeats import HeartbeatRequest
from kafkatools.core.broker.coordinators.groups.requests import Fields
from kafkatools.core.broker.coordinators.groups.service import client_of, told
from kafkatools.core.broker.coordinators.groups.topic_regex import everything
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP, READ, TOPIC
from kafkatools.core.broker.server.authorizer import ANONYMOUS
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_REGEX = 1
FEATURE = "group.version"
NOTHING: Fields = {"member_id": None, "member_epoch": 0, "heartbeat_interval": 0, "assignment": None}


def handle(node: Node, request: Request) -> Response:
    """The member's epoch, and its assignment when that changed."""
    entity = request.decode()
    names = entity.subscribed_topic_names
    wanted = HeartbeatRequest(
        group_id=entity.group_id,
        member_id=entity.member_id,
        member_epoch=entity.member_epoch,
        client=client_of(request),
        version=request.version,
        instance_id=entity.instance_id,
        rack_id=entity.rack_id,
        rebalance_timeout_ms=to_ms(entity.rebalance_timeout),
        subscribed_topic_names=None if names is None else frozenset(names),
        subscribed_topic_regex=entity.subscribed_topic_regex if request.version >= FIRST_VERSION_OF_REGEX else None,
        server_assignor=entity.server_assignor,
        owned=_owned(entity.topic_partitions),
        may_describe=everything if node.authorizer is None else _describable(node, request.connection.client_host),
    )
    try:
        ensure_enabled(node)
        _ensure_allowed(node, request, wanted)
        fields = node.groups.consumer_heartbeat(wanted)
    except KafkaError as error:
        fields = {**NOTHING, "error_code": coordinator_error_code(error), "error_message": message_of(error)}
    return told(node.coordination, request, wanted.group_id, fields, refusal)


def refusal(code: int) -> Fields:
    """A heartbeat that failed."""
    return {**NOTHING, "error_code": code, "error_message": None}


def ensure_enabled(node: Node) -> None:
    """UnsupportedVersion when the cluster's feature level or the broker's settings leave this protocol out."""
    is_offered = CONSUMER in node.config.group_coordinator_rebalance_protocols
    if not is_offered or node.image.features.get(FEATURE, 0) < 1:
        raise UnsupportedVersion()


def _describable(node: Node, host: str) -> Callable[[str], bool]:
    """The topics of a client, also after its request is gone."""
    authorizer = node.authorizer
    return lambda topic: authorizer is None or authorizer.authorize(ANONYMOUS, host, DESCRIBE, TOPIC, topic)


def _ensure_allowed(node: Node, request: Request, wanted: HeartbeatRequest) -> None:
    """GroupAuthorizationFailed, TopicAuthorizationFailed."""
    node.authorize_or_raise(request, READ, GROUP, wanted.group_id)
    for name in wanted.subscribed_topic_names or ():
        node.authorize_or_raise(request, DESCRIBE, TOPIC, name)


def _owned(topics: Any) -> dict[uuid.UUID, list[int]] | None:
    if topics is None:
        return None
    owned: dict[uuid.UUID, list[int]] = {}
    for topic in topics:
        owned.setdefault(topic.topic_id, []).extend(topic.partitions)
    return owned


def message_of(error: KafkaError) -> str | None:
    """What to say beside the code: nothing when it is only the code's own text (ApiError)."""
    text = str(error)
    return text if text and text != str(type(error)()) else None
