"""What groups know of topics: the present metadata image, and the hash Kafka keeps of a group's topics.

A changed hash (partitions, racks, a topic made anew) makes a consumer group compute its assignment again. Source:
Utils.computeTopicHash and computeGroupHash of Apache Kafka 4.3.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from struct import pack

from kafkatools.core.broker.metadata.image import MetadataImage, TopicState
from kafkatools.core.java.hashes import utf16_order
from kafkatools.core.java.xxh3 import xxh3_64

_MAGIC = 0
_SIGN_BIT = 1 << 63
_MASK = (1 << 64) - 1


class GroupTopics:
    """Topics by name and id. `image` gives the present image."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._hashes: dict[str, int] = {}
        self.version_with_new_topics = 0

    @property
    def version(self) -> int:
        """The version of the image: it grows with every change."""
        return self._image().version

    def names(self) -> Iterable[str]:
        """Every topic's name."""
        return self._image().topics

    def by_name(self, name: str) -> TopicState | None:
        """The topic of a name."""
        return self._image().topics.get(name)

    def by_id(self, topic_id: uuid.UUID) -> TopicState | None:
        """The topic of an id."""
        return self._image().topics_by_id.get(topic_id)

    def ids_of(self, names: Iterable[str]) -> frozenset[uuid.UUID]:
        """The ids of those that exist."""
        topics = self._image().topics
        return frozenset(topics[name].topic_id for name in names if name in topics)

    def partition_count(self, topic_id: uuid.UUID) -> int:
        """How many partitions a topic has; KeyError."""
        return len(self._image().topics_by_id[topic_id].partitions)

    def note_changes(self, names: Collection[str], *, has_new: bool) -> None:
        """These topics changed or are gone."""
        for name in names:
            self._hashes.pop(name, None)
        if has_new:
            self.version_with_new_topics = self.version

    def group_hash(self, names: Iterable[str]) -> int:
        """The hash of a group's topics, signed; 0 when there are none."""
        hashes = [self._topic_hash(name) for name in sorted(names, key=utf16_order) if self.by_name(name) is not None]
        return _signed(xxh3_64(b"".join(hash_value.to_bytes(8, "little") for hash_value in hashes))) if hashes else 0

    def _topic_hash(self, name: str) -> int:
        known = self._hashes.get(name)
        if known is None:
            topic = self.by_name(name)
            assert topic is not None
            known = self._hashes[name] = xxh3_64(self._described(topic))
        return known

    def _described(self, topic: TopicState) -> bytes:
        high, low = topic.topic_id.int >> 64, topic.topic_id.int & _MASK
        parts = [pack("<BQQ", _MAGIC, high, low), _java_string(topic.name), pack("<i", len(topic.partitions))]
        brokers = self._image().brokers
        for partition_id in range(len(topic.partitions)):
            parts.append(pack("<i", partition_id))
            partition = topic.partitions.get(partition_id)
            replicas = partition.replicas if partition is not None else ()
            racks = [brokers[replica].rack for replica in replicas if replica in brokers]
            for rack in sorted(rack for rack in racks if rack is not None):
                parts.append(pack("<i", len(utf16_order(rack)) // 2) + _java_string(rack))
        return b"".join(parts)


def _java_string(text: str) -> bytes:
    """HashSink.putString: the UTF-16 units, then how many they are."""
    data = text.encode("utf-16-le", "surrogatepass")
    return data + pack("<i", len(data) // 2)


def _signed(value: int) -> int:
    return value - 2 * _SIGN_BIT if value & _SIGN_BIT else value
