"""Creates the group coordinator of a broker from its settings, and loads its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
from kafkatools.core.broker.coordinators.groups.loading import LoadedGroups
from kafkatools.core.broker.coordinators.groups.offsets_topic import (
    TOPIC,
    OffsetsTopic,
    OpenTransactions,
    ReplacedValues,
    decoded,
    decoded_open,
    read_last_values,
)
from kafkatools.core.broker.coordinators.groups.share.groups import ShareSurroundings
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.shards import Shards
from kafkatools.core.broker.metadata.image import MetadataDelta, MetadataImage
from kafkatools.core.broker.replicas.partition import Partition

SLICE_RECORDS = 200


def make_groups(
    host: Host, topic: OffsetsTopic, surroundings: ShareSurroundings, ensure_active: Callable[[str], None]
) -> GroupCoordinator:
    """Create the group coordinator of this broker, without loaded groups."""
    return GroupCoordinator(
        host.config,
        topic,
        host.timer,
        host.clock,
        image=host.image,
        share_around=surroundings,
        ensure_active=ensure_active,
        progress=topic.progress,
    )


def load_all(host: Host, topic: OffsetsTopic, groups: GroupCoordinator) -> None:
    """Load all partitions of `__consumer_offsets`, on a broker that runs without a cluster."""
    for partition in topic.partitions():
        for _ in load_partition(host, groups, partition):
            pass


def load_partition(host: Host, groups: GroupCoordinator, partition: Partition) -> Iterator[None]:
    """Load the groups of a partition of `__consumer_offsets`. Yields between two slices."""
    values: dict[bytes, bytes | None] = {}
    open_transactions = OpenTransactions()
    replaced: ReplacedValues = {}
    yield from read_last_values(partition, host.note_failure, values, open_transactions, replaced)
    loaded = LoadedGroups(host.clock.wall_ms())
    for count, (key, value) in enumerate(decoded(values), 1):
        loaded.take(key, value)
        if count % SLICE_RECORDS == 0:
            yield
    for producer, key, value in decoded_open(open_transactions):
        loaded.take_pending(producer.producer_id, key, value)
    for end, previous_values in replaced.items():
        loaded.take_replaced(end, previous_values)
    groups.take_over(loaded)


def note_topics(groups: GroupCoordinator, delta: MetadataDelta) -> None:
    """Have consumer, share and streams groups that read created, changed or deleted topics check them at the next
    heartbeat."""
    topics = (*delta.changed_topics.values(), *delta.removed_topics.values())
    if topics:
        names = {topic.name for topic in topics}
        groups.consumer.note_topics(names, has_new=bool(delta.changed_topics))
        groups.share.note_topics(names)
        groups.streams.note_topics(names)


def note_deleted_topics(groups: GroupCoordinator, shards: Shards, image: MetadataImage, delta: MetadataDelta) -> None:
    """Delete the committed offsets of deleted topics, or all groups if `__consumer_offsets` was deleted. Offsets in
    partitions that are still loading are deleted after loading. Then an offset without a topic id may be that of a
    topic that was created again meanwhile, and stays."""
    removed = list(delta.removed_topics.values())
    if any(topic.name == TOPIC for topic in removed):
        groups.unload()
    elif removed:
        groups.forget_topics(removed)
        shards.when_loaded(lambda: groups.forget_topics(removed, recreated=image.topics))
