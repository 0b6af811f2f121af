"""The coordinator of a node: wired to its topic, timers and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.groups.classic.rebalance import GroupSettings
from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
from kafkatools.core.broker.coordinators.groups.loading import LoadedGroups
from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import (
    ConsumerGroupSettings,
    IntervalSetting,
    MigrationPolicy,
)
from kafkatools.core.broker.coordinators.groups.offsets_topic import (
    TOPIC,
    OffsetsTopic,
    OpenTransactions,
    ReplacedValues,
    decoded,
    decoded_open,
    read_last_values,
)
from kafkatools.core.broker.coordinators.groups.requests import Answer, Client, Fields
from kafkatools.core.broker.coordinators.groups.share.settings import ShareGroupSettings
from kafkatools.core.broker.coordinators.internal_topic import follows_elections
from kafkatools.core.broker.metadata.image import GROUP_RESOURCE
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.image import MetadataDelta
    from kafkatools.core.broker.node import Node
    from kafkatools.core.broker.replicas.partition import Partition

MINUTE_MS = 60_000
SLICE_RECORDS = 200


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
    groups = GroupCoordinator(
        settings,
        topic,
        node.timer,
        node.clock,
        consumer_settings=consumer_settings(node),
        share_settings=share_settings(node),
        image=lambda: node.image,
    )
    groups.offsets.replaced.progress = topic.progress
    groups.share.persister = lambda: node.coordination.persister if node.coordination.is_clustered else None
    groups.share.states = lambda: node.share_partitions.states
    groups.share.member_left = lambda group_id, member_id: node.share_partitions.note_member_left(group_id, member_id)
    groups.share.group_emptied = lambda group_id: node.share_partitions.forget_group(group_id)
    groups.ensure_active = lambda group_id: node.coordination.groups.ensure_active(group_id)
    if not follows_elections(node):
        for partition in topic.partitions():
            for _ in load_partition(node, groups, partition):
                pass
    return groups


def load_partition(node: Node, groups: GroupCoordinator, partition: Partition) -> Iterator[None]:
    """Read the groups of a partition, a slice with each step."""
    values: dict[bytes, bytes | None] = {}
    open_transactions = OpenTransactions()
    replaced: ReplacedValues = {}
    yield from read_last_values(partition, node.note_failure, values, open_transactions, replaced)
    loaded = LoadedGroups(node.clock.wall_ms())
    for count, (key, value) in enumerate(decoded(values), 1):
        loaded.take(key, value)
        if count % SLICE_RECORDS == 0:
            yield
    for producer, key, value in decoded_open(open_transactions):
        loaded.take_pending(producer.producer_id, key, value)
    for end, before in replaced.items():
        loaded.take_replaced(end, before)
    groups.take_over(loaded)


class GroupKeeper:
    """The group coordinator, as its shards know it."""

    topic = TOPIC

    def __init__(self, node: Node) -> None:
        self._node = node

    def load(self, partition: Partition) -> Iterator[None]:
        """Read a partition, a slice with each step."""
        return load_partition(self._node, self._node.groups, partition)

    def unload(self, is_mine: Callable[[str], bool]) -> None:
        """Groups go on elsewhere."""
        self._node.groups.release(is_mine)

    def tell(self) -> None:
        """Answer who waited for them."""
        self._node.groups.send_answers()


def expire_offsets(node: Node) -> None:
    """The periodic search for offsets that nobody uses (offsets.retention.minutes)."""
    node.groups.expire_offsets(node.config.offsets_retention_minutes * MINUTE_MS)


def consumer_settings(node: Node) -> ConsumerGroupSettings:
    """The broker's settings about consumer groups, and those that groups have of their own."""
    config = node.config
    return ConsumerGroupSettings(
        IntervalSetting(
            "consumer.session.timeout.ms",
            config.group_consumer_session_timeout_ms,
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        IntervalSetting(
            "consumer.heartbeat.interval.ms",
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        IntervalSetting(
            "consumer.assignment.interval.ms",
            config.group_consumer_assignment_interval_ms,
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
        config.group_consumer_max_size,
        tuple(config.group_consumer_assignors),
        MigrationPolicy(config.group_consumer_migration_policy.lower()),
        config.group_consumer_regex_refresh_interval_ms,
        lambda group_id: node.image.configs.get((GROUP_RESOURCE, group_id), {}),
    )


def share_settings(node: Node) -> ShareGroupSettings:
    """The broker's settings about share groups, and those that groups have of their own."""
    config = node.config

    def interval(name: str) -> IntervalSetting:
        kind, _, rest = name.partition(".")
        return IntervalSetting(
            name,
            config[f"group.{name}"],
            config[f"group.{kind}.min.{rest}"],
            config[f"group.{kind}.max.{rest}"],
        )

    return ShareGroupSettings(
        interval("share.session.timeout.ms"),
        interval("share.heartbeat.interval.ms"),
        interval("share.record.lock.duration.ms"),
        interval("share.delivery.count.limit"),
        interval("share.partition.max.record.locks"),
        config.group_share_max_size,
        lambda group_id: node.image.configs.get((GROUP_RESOURCE, group_id), {}),
    )


def note_topics(node: Node, delta: MetadataDelta) -> None:
    """Consumer groups look at topics that were made, changed or deleted."""
    topics = (*delta.changed_topics.values(), *delta.removed_topics.values())
    if topics:
        names = {topic.name for topic in topics}
        node.groups.consumer.note_topics(names, has_new=bool(delta.changed_topics))
        node.groups.share.note_topics(names)


def note_deleted_topics(node: Node, delta: MetadataDelta) -> None:
    """Offsets of deleted topics go with them."""
    names = {topic.name for topic in delta.removed_topics.values()}
    if TOPIC in names:
        node.groups.unload()
    elif names:
        node.groups.forget_topics(names)
        node.coordination.groups.when_loaded(
            lambda: node.groups.forget_topics([name for name in names if name not in node.image.topics])
        )


def client_of(request: Request) -> Client:
    """Who asks."""
    return Client(request.client_id or "", f"/{request.connection.client_host}")


Refuse = Callable[[int], Fields]


class Reply:
    """The answer of one request: given while its handler runs, or later; not before what was written of its group is
    committed. `refuse` gives the fields that only say why not."""

    def __init__(self, node: Node, request: Request, group_id: str, refuse: Refuse) -> None:
        self._node = node
        self._group_id = group_id
        self._refuse = refuse
        self._fields: Fields | None = None
        self._later = LaterResponse(request)

    def __call__(self, fields: Fields) -> None:
        self._fields = fields
        if self._later.is_delayed:
            self._node.groups.later(lambda: self._send(fields))

    def _send(self, fields: Fields) -> None:
        if fields["error_code"]:
            self._later.respond(fields)
            return
        self._node.coordination.groups.when_committed(
            self._group_id, lambda code: self._later.respond(self._refuse(code) if code else fields)
        )

    def response(self) -> Response:
        """What the handler returns."""
        self._node.groups.send_answers()
        if self._fields is not None:
            self._send(self._fields)
        return self._later.returned()


def answered(node: Node, request: Request, group_id: str, ask: Callable[[Answer], None], refuse: Refuse) -> Response:
    """Let the coordinator decide and return its answer, or DELAYED."""
    reply = Reply(node, request, group_id, refuse)
    ask(reply)
    return reply.response()


def told(node: Node, request: Request, group_id: str, fields: Fields, refuse: Refuse) -> Response:
    """An answer that is decided, when what was written of its group is committed."""
    return answered(node, request, group_id, lambda answer: answer(fields), refuse)
