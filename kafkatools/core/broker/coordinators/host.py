"""The parts of a broker that its coordinators use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import MetadataImage, TopicState
from kafkatools.core.broker.replicas.delayed_produce import DelayedProduce, ProduceStatus
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.server.channels import PeerChannel
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError

NONE = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Host:
    """The broker as its coordinators see it.

    `create_topic` creates an internal topic; it returns None while the request to the controller is in flight, a
    KafkaError if it failed. `every` repeats work after an interval in ms. `note_failure` reports an error that no
    client waits for. `channel` connects to the other brokers; it is None on a broker without a cluster, which leads
    every partition.
    """

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
        """Return whether other brokers may lead partitions."""
        return self.channel is not None

    def when_durable(self, statuses: Sequence[ProduceStatus | None], on_durable: Callable[[int], None]) -> None:
        """Call `on_durable` with 0 when all appends are replicated, and with log.durability=fsync on disk; else with
        the first error code. Calls at once when every status is None or complete, and at the latest after
        request.timeout.ms."""
        pending = [status for status in statuses if status is not None]
        if not pending:
            on_durable(NONE)
            return

        def complete(finished: Sequence[ProduceStatus]) -> None:
            on_durable(next((status.error_code for status in finished if status.error_code), NONE))

        waiting = DelayedProduce(self.config.request_timeout_ms, pending, complete)
        keys = [status.partition.key for status in pending]
        self.produce_purgatory.try_complete_else_watch(waiting, keys, self.clock.now_ms())

    def schedule(self, delay_ms: int, run: Callable[[int], None]) -> None:
        """Call `run` once after `delay_ms`, with the clock's time in ms."""
        self.timer.schedule(delay_ms, run, self.clock.now_ms())
