"""A coordinator of groups with the topics of an image, without sockets, over a harness on a manual clock."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
from kafkatools.core.broker.metadata.image import MetadataImage, PartitionState, TopicState
from kafkatools.core.broker.server.timer import Timer


class ManualGroups:
    """Drives the group `g`. `parts`: further parts of the coordinator."""

    def __init__(self, harness: Any, settings: Mapping[str, object], **parts: Any) -> None:
        self.harness = harness
        self.image = MetadataImage()
        self.config = harness.config.replace(dict(settings))
        self._parts = parts

    def open(self) -> None:
        """Start the coordinator, or start it anew, with what the store has."""
        harness = self.harness
        harness.timer = Timer(harness.clock.now_ms())
        harness.groups = GroupCoordinator(
            self.config, harness.store, harness.timer, harness.clock, image=self.image, **self._parts
        )
        harness.load()

    def add_topic(self, name: str, topic_id: uuid.UUID, partitions: int) -> None:
        states = {index: PartitionState(index, (1,), (1,), 1, 0, 0) for index in range(partitions)}
        self.image.topics[name] = self.image.topics_by_id[topic_id] = TopicState(name, topic_id, states)
        self.image.version += 1

    @property
    def group(self) -> Any:
        return self.harness.groups.groups["g"]
