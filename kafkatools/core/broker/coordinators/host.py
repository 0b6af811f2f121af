"""What the coordinators of a broker use of it, given to them when they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import MetadataImage, TopicState
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.server.channels import PeerChannel
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError


@dataclass(frozen=True, slots=True)
class Host:
    """The broker of the coordinators. `create_topic` makes an internal topic: it returns None while the controller is
    asked. `every` repeats work after an interval in ms. `channel` leads to the other brokers; a node on its own has
    none and leads every partition."""

    node_id: int
    config: Config
    clock: Clock
    timer: Timer
    image: MetadataImage
    replicas: ReplicaManager
    produce_purgatory: Purgatory
    channel: PeerChannel | None
    create_topic: Callable[[NewTopic], TopicState | KafkaError | None]
    every: Callable[[int, Callable[[], object]], None]
    note_failure: Callable[[Exception], None]

    @property
    def is_clustered(self) -> bool:
        """Whether other brokers may lead partitions."""
        return self.channel is not None

    def schedule(self, delay_ms: int, run: Callable[[int], None]) -> None:
        """Call `run` with the time in ms, once, after a delay."""
        self.timer.schedule(delay_ms, run, self.clock.now_ms())
