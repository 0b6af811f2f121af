"""The coordinator of a node: wired to its topic, timers and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkatools.core.broker.group_coordinator.coordinator import GroupCoordinator
from kafkatools.core.broker.group_coordinator.offsets_topic import TOPIC, OffsetsTopic
from kafkatools.core.broker.group_coordinator.rebalance import GroupSettings
from kafkatools.core.broker.group_coordinator.requests import Answer, Client, Fields
from kafkatools.core.broker.requests import DELAYED, Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.controller.metadata_image import MetadataDelta
    from kafkatools.core.broker.node import Node

MINUTE_MS = 60_000


def open_groups(node: Node) -> GroupCoordinator:
    """The coordinator with everything that was committed before."""
    config = node.config
    settings = GroupSettings(
        config.group_min_session_timeout_ms,
        config.group_max_session_timeout_ms,
        config.group_initial_rebalance_delay_ms,
        config.group_max_size,
    )
    topic = OffsetsTopic(node)
    groups = GroupCoordinator(settings, topic, node.timer, node.clock)
    groups.load(topic.read_back())
    groups.load_pending(topic.read_open())
    return groups


def expire_offsets(node: Node) -> None:
    """The periodic search for offsets that nobody uses (offsets.retention.minutes)."""
    node.groups.expire_offsets(node.config.offsets_retention_minutes * MINUTE_MS)


def note_deleted_topics(node: Node, delta: MetadataDelta) -> None:
    """Offsets of deleted topics go with them."""
    names = {topic.name for topic in delta.removed_topics.values()}
    if TOPIC in names:
        node.groups.unload()
    elif names:
        node.groups.forget_topics(names)


def client_of(request: Request) -> Client:
    """Who asks."""
    return Client(request.client_id or "", f"/{request.connection.client_host}")


class Reply:
    """The answer of one request: given while its handler runs, or later."""

    def __init__(self, node: Node, request: Request) -> None:
        self._node = node
        self._request = request
        self._fields: Fields | None = None
        self._is_delayed = False

    def __call__(self, fields: Fields) -> None:
        self._fields = fields
        if self._is_delayed:
            self._node.groups.later(lambda: self._request.complete(self._request.respond(fields)))

    def response(self) -> Response:
        """What the handler returns."""
        self._node.groups.send_answers()
        if self._fields is None:
            self._is_delayed = True
            return DELAYED
        return self._request.respond(self._fields)


def answered(node: Node, request: Request, ask: Callable[[Answer], None]) -> Response:
    """Let the coordinator decide and return its answer, or DELAYED."""
    reply = Reply(node, request)
    ask(reply)
    return reply.response()
