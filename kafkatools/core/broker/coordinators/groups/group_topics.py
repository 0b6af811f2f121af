"""The topics of the metadata image as groups need them, and Kafka's hash of a group's topics.

When the hash changes (partitions, racks, a recreated topic), a consumer group computes a new assignment. Source:
Utils.computeTopicHash and computeGroupHash of Apache Kafka 4.3.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from struct import pack, unpack

from kafkatools.core.broker.metadata.image import MetadataImage, TopicState
from kafkatools.core.java.hashes import utf16_order
from kafkatools.core.java.xxh3 import xxh3_64

_MAGIC = 0


class GroupTopics:
    """Topics of the metadata image by name and by id."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._hashes: dict[str, int] = {}
        self.version_with_new_topics = 0

    @property
    def version(self) -> int:
        """The version of the metadata image, which rises with every change."""
        return self._image.version

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        return self._image.topics

    def by_name(self, name: str) -> TopicState | None:
        """The topic of this name; None if it does not exist."""
        return self._image.topics.get(name)

    def by_id(self, topic_id: uuid.UUID) -> TopicState | None:
        """The topic of this id; None if it does not exist."""
        return self._image.topics_by_id.get(topic_id)

    def ids_of(self, names: Iterable[str]) -> frozenset[uuid.UUID]:
        """The ids of those topics that exist."""
        topics = self._image.topics
        return frozenset(topics[name].topic_id for name in names if name in topics)

    def partition_count(self, topic_id: uuid.UUID) -> int:
        """The number of partitions of a topic. Raises KeyError for an unknown id."""
        return len(self._image.topics_by_id[topic_id].partitions)

    def note_changes(self, names: Collection[str], *, has_new: bool) -> None:
        """Drop cached hashes of changed and deleted topics. `has_new`: patterns must be resolved again."""
        for name in names:
            self._hashes.pop(name, None)
        if has_new:
            self.version_with_new_topics = self.version

    def group_hash(self, names: Iterable[str]) -> int:
        """Kafka's hash of the existing topics of a group as a signed 64-bit number; 0 without topics."""
        hashes = [self._topic_hash(name) for name in sorted(names, key=utf16_order) if self.by_name(name) is not None]
        if not hashes:
            return 0
        unsigned = xxh3_64(b"".join(topic_hash.to_bytes(8, "little") for topic_hash in hashes))
        return int.from_bytes(unsigned.to_bytes(8, "little"), "little", signed=True)

    def _topic_hash(self, name: str) -> int:
        topic_hash = self._hashes.get(name)
        if topic_hash is None:
            topic = self.by_name(name)
            assert topic is not None
            topic_hash = self._hashes[name] = xxh3_64(self._described(topic))
        return topic_hash

    def _described(self, topic: TopicState) -> bytes:
        parts = [
            pack("<BQQ", _MAGIC, *unpack(">QQ", topic.topic_id.bytes)),
            _java_string(topic.name),
            pack("<i", len(topic.partitions)),
        ]
        brokers = self._image.brokers
        for partition_id in range(len(topic.partitions)):
            parts.append(pack("<i", partition_id))
            partition = topic.partitions.get(partition_id)
            replicas = partition.replicas if partition is not None else ()
            racks = [brokers[replica].rack for replica in replicas if replica in brokers]
            for rack in sorted(rack for rack in racks if rack is not None):
                parts.append(pack("<i", len(utf16_order(rack)) // 2) + _java_string(rack))
        return b"".join(parts)


def _java_string(text: str) -> bytes:
    """A string as Kafka's HashSink.putString writes it: UTF-16 code units, then their count."""
    data = text.encode("utf-16-le", "surrogatepass")
    return data + pack("<i", len(data) // 2)
