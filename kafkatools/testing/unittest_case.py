"""`KafkaTestCase`: Kafka for tests of unittest.

Rules: classes with the same settings share one broker, which the program's end stops. What a test changes is undone by
clean-ups of that test.
"""

from __future__ import annotations

import atexit
import unittest
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from kafkatools.core.errors import IllegalState
from kafkatools.testing.kafka import Kafka, KafkaCluster, Topic, unique_name

if TYPE_CHECKING:
    from kafkatools.sandbox.embedded_broker import EmbeddedBroker
    from kafkatools.sandbox.faults.control import Faults

_shared: dict[object, Kafka] = {}
_running: dict[str, object] = {}


def run_on(bootstrap_servers: str, client_settings: Mapping[str, object]) -> None:
    """Run the tests of every class without `bootstrap_servers` on this Kafka, as --kafka-bootstrap of pytest does."""
    _running.update(client_settings, **{"bootstrap.servers": bootstrap_servers})


class KafkaTestCase(unittest.TestCase):
    """A test case with a Kafka: `self.kafka`, `self.kafka_topic`, `self.new_topic(partitions=3)`, `self.kafka_faults`.

    A subclass may set `kafka_settings`, settings of the embedded broker; `kafka_nodes`, the number of its nodes, of
    which `self.kafka_cluster` kills and restarts some; or `bootstrap_servers`, the address of a Kafka that is running.
    There tests that use `kafka_faults`, `kafka_broker` or `kafka_cluster` are skipped. With another base class name
    this one first: `class Test(KafkaTestCase, IsolatedAsyncioTestCase)`.
    """

    kafka_settings: ClassVar[Mapping[str, object]] = {}
    kafka_nodes: ClassVar[int] = 1
    bootstrap_servers: ClassVar[str | None] = None
    kafka: ClassVar[Kafka]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the broker, unless another class has started one with the same settings."""
        super().setUpClass()
        texts = tuple(sorted((name, str(value)) for name, value in cls.kafka_settings.items()))
        address = cls.bootstrap_servers or None
        requested = address, cls.kafka_nodes, texts
        if requested not in _shared:
            _shared[requested] = cls._start(address)
            atexit.register(_shared[requested].close)
        cls.kafka = _shared[requested]

    @classmethod
    def _start(cls, address: str | None) -> Kafka:
        if address is not None:
            return Kafka(bootstrap_servers=address)
        if _running:
            return Kafka(bootstrap_servers=str(_running["bootstrap.servers"]), client_settings=_running)
        if cls.kafka_nodes > 1:
            return KafkaCluster(cls.kafka_settings, nodes=cls.kafka_nodes)
        return Kafka(cls.kafka_settings)

    @property
    def kafka_topic(self) -> Topic:
        """The topic of this test, created on first use and deleted after the test."""
        topic: Topic | None = self.__dict__.get("_topic")
        if topic is None:
            topic = self.__dict__["_topic"] = self.new_topic()
        return topic

    def new_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, object] | None = None,
    ) -> Topic:
        """Create a topic that is deleted after the test; without a name, it has a unique one. Raises
        TopicAlreadyExists, InvalidTopic, InvalidConfig."""
        topic = self.kafka.topic(
            name or unique_name(self.id().rpartition(".")[2]),
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        self.addCleanup(self._delete, topic)
        return topic

    def _delete(self, topic: Topic) -> None:
        """Delete a topic, from a broker that is running."""
        self.kafka.restore()
        topic.delete()

    @property
    def kafka_faults(self) -> Faults:
        """The faults of the embedded nodes, removed after the test. Skips the test for a Kafka that was running."""
        return self._embedded().faults

    @property
    def kafka_broker(self) -> EmbeddedBroker:
        """The embedded broker, started again after the test if the test killed it. Skips the test for a Kafka that was
        running. Raises IllegalState with several `kafka_nodes`."""
        return self._embedded().broker

    @property
    def kafka_cluster(self) -> KafkaCluster:
        """The embedded nodes, all of which run again after the test. Skips the test for a Kafka that was running.
        Raises IllegalState unless `kafka_nodes` is above 1."""
        kafka = self._embedded()
        if not isinstance(kafka, KafkaCluster):
            raise IllegalState("kafka_cluster needs several nodes: set kafka_nodes = 3 in the class")
        return kafka

    def _embedded(self) -> Kafka:
        if not self.kafka.is_embedded:
            self.skipTest(f"the test needs an embedded broker, and runs on {self.kafka.bootstrap_servers}")
        self.addCleanup(self.kafka.restore)
        return self.kafka
