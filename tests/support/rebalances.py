"""Consumers in a group: what a listener was told, and waiting until the partitions are shared out."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.group_subscription import RebalanceListener
from kafkatools.core.consumer.subscription import TopicPartition


class Told(RebalanceListener):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("revoked", [part.partition for part in partitions]))

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("assigned", [part.partition for part in partitions]))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("lost", [part.partition for part in partitions]))


def settle(consumers: Sequence[Consumer], *sizes: int, seconds: float = 60) -> None:
    """Polls all of them, at least once, until they own so many partitions."""
    deadline = time.monotonic() + seconds
    while True:
        for consumer in consumers:
            consumer.poll(20)
        if tuple(len(consumer.assignment()) for consumer in consumers) == sizes:
            return
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
