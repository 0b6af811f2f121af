"""`KafkaTestCase`: Kafka for tests of unittest.

Rules: classes with the same settings share one broker, which the program's end stops. What a test changes is undone by
clean-ups of that test.
"""

from __future__ import annotations

import atexit
import unittest
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from kafkatools.testing.kafka import Kafka, Topic, unique_name

if TYPE_CHECKING:
    from kafkatools.sandbox.embedded_broker import EmbeddedBroker
    from kafkatools.sandbox.faults.control import Faults

_shared: dict[tuple[str | None, tuple[tuple[str, str], ...]], Kafka] = {}


class KafkaTestCase(unittest.TestCase):
    """A test case with a Kafka: `self.kafka`, `self.kafka_topic`, `self.new_topic(partitions=3)`, `self.kafka_faults`.

    A subclass may set `kafka_settings`, settings of the embedded broker, or `bootstrap_servers`, the address of a Kafka
    that is running; there tests that use `kafka_faults` or `kafka_broker` are skipped. With another base class name
    this one first: `class Test(KafkaTestCase, IsolatedAsyncioTestCase)`.
    """

    kafka_settings: ClassVar[Mapping[str, object]] = {}
    bootstrap_servers: ClassVar[str | None] = None
    kafka: ClassVar[Kafka]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the broker, unless another class has started one with the same settings."""
        super().setUpClass()
        texts = tuple(sorted((name, str(value)) for name, value in cls.kafka_settings.items()))
        address = cls.bootstrap_servers or None
        if (address, texts) not in _shared:
            kafka = Kafka(cls.kafka_settings, bootstrap_servers=address)
            atexit.register(kafka.close)
            _shared[address, texts] = kafka
        cls.kafka = _shared[address, texts]

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
        """The faults of the embedded broker, removed after the test. Skips the test for a Kafka that was running."""
        return self.kafka_broker.faults

    @property
    def kafka_broker(self) -> EmbeddedBroker:
        """The embedded broker, started again after the test if the test killed it. Skips the test for a Kafka that was
        running."""
        if not self.kafka.is_embedded:
            self.skipTest(
                f"{self.kafka.bootstrap_servers} is no embedded broker: it cannot be killed, and has no faults"
            )
        self.addCleanup(self.kafka.restore)
        return self.kafka.broker
