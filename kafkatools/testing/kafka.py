"""`Kafka`, the broker or cluster of a test run with its helpers, and `Topic`, a topic's name with methods.

Rules: a `Kafka` owns the embedded broker that it started, and nothing of a Kafka that was running before. The helpers
read with clients that live for one call, so that they join no group and leave no connection in a test.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafkatools.core.clock import SystemClock
from kafkatools.core.closing import Closing
from kafkatools.core.errors import (
    IllegalState,
    KafkaError,
    LeaderNotAvailable,
    RequestTimedOut,
    Timeout,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from kafkatools.core.admin.admin import Admin
    from kafkatools.core.consumer.consumer import Consumer
    from kafkatools.core.consumer.consumer_records import ConsumerRecord
    from kafkatools.core.producer.futures import RecordMetadata
    from kafkatools.core.producer.producer import Producer
    from kafkatools.core.producer.producer_record import AnyHeaders
    from kafkatools.sandbox.embedded_broker import EmbeddedBroker
    from kafkatools.sandbox.embedded_cluster import EmbeddedCluster
    from kafkatools.sandbox.faults.control import Faults

WAIT_MS = 10_000
_CLOSE_MS = 1000
_POLL_MS = 200
_LEADER_POLL_MS = 20
_LONGEST_NAME = 200
_SHOWN_VALUES = 5
_RETENTION_TIMES = {"log.retention.ms", "log.retention.minutes", "log.retention.hours"}


class Topic(str):
    """A topic of a test: its name, which any client accepts, with methods that send to it and read it."""

    __slots__ = ("_kafka",)
    _kafka: Kafka

    def __new__(cls, name: str, kafka: Kafka) -> Topic:
        topic = super().__new__(cls, name)
        topic._kafka = kafka
        return topic

    @property
    def kafka(self) -> Kafka:
        """The Kafka that has the topic."""
        return self._kafka

    def send(
        self,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: AnyHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until the broker has it; text is sent as UTF-8, `timestamp` is in epoch milliseconds.
        Raises KafkaError."""
        return self._kafka.shared_producer.send(
            str(self), _bytes(value), _bytes(key), headers=headers, partition=partition, timestamp=timestamp
        ).result()

    def send_many(self, values: Iterable[bytes | str | None]) -> None:
        """Send records without keys and wait until the broker has them; text is sent as UTF-8. Raises KafkaError."""
        self._kafka.shared_producer.send_many(str(self), [_bytes(value) for value in values]).result()

    def records(self) -> list[ConsumerRecord]:
        """Return the committed records that the topic has now, by partition and offset. Raises KafkaError."""
        return self._kafka.records(self)

    def values(self) -> list[bytes | None]:
        """Return the values of `records`."""
        return [record.value for record in self.records()]

    def wait_for(self, count: int, timeout_ms: int = WAIT_MS) -> list[ConsumerRecord]:
        """Return the records once there are at least `count`. Raises Timeout, which names the values found."""
        return self._kafka.wait_for_records(self, count, timeout_ms)

    def delete(self) -> None:
        """Delete the topic; does nothing when it does not exist."""
        self._kafka.close_producer()  # whose next request for metadata would create the topic anew
        try:
            self._kafka.admin.delete_topics(str(self))
        except UnknownTopicOrPartition:
            return


class Kafka(Closing):
    """A Kafka for tests: an embedded broker, started at once, or with `bootstrap_servers` one that is running.

    `settings` are settings of the embedded broker by Kafka's names (docs/config/broker.md), `client_settings` those of
    every client, such as `security.protocol`. Topics keep records with old timestamps: `log.retention.ms` is -1 unless
    the settings or the topic limit the time. Raises ConfigError for a wrong setting, SandboxError if the broker does
    not start, and KafkaError if the running one does not respond.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        bootstrap_servers: str | None = None,
        client_settings: Mapping[str, object] | None = None,
    ) -> None:
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._broker: EmbeddedBroker | None = None
        self._bootstrap = bootstrap_servers or ""
        self._client_settings = dict(client_settings or {})
        if bootstrap_servers is None:
            self._bootstrap = self._start(settings or {})
        else:
            try:
                self.admin.describe_cluster()
            except BaseException:
                self.close()
                raise

    def _start(self, settings: Mapping[str, object]) -> str:
        from kafkatools.sandbox.embedded_broker import EmbeddedBroker

        self._broker = EmbeddedBroker(_without_time_limit(settings))
        self._broker.start()
        return self._broker.bootstrap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._bootstrap!r})"

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, `HOST:PORT`, of several nodes with commas between."""
        return self._bootstrap

    @property
    def client_settings(self) -> dict[str, object]:
        """The settings that a client of this Kafka needs: `bootstrap.servers`, and those of --kafka-config."""
        return {"bootstrap.servers": self._bootstrap, **self._client_settings}

    @property
    def is_embedded(self) -> bool:
        """Return whether the broker was started by this object."""
        return self._broker is not None

    @property
    def broker(self) -> EmbeddedBroker:
        """The embedded broker, which can be killed and started again. Raises IllegalState for a Kafka that was running
        before."""
        if self._broker is None:
            raise IllegalState(f"{self._bootstrap} is no embedded broker: it cannot be killed, and has no faults")
        return self._broker

    @property
    def faults(self) -> Faults:
        """The faults of the embedded broker (docs/rehearsals.md). Raises IllegalState for a Kafka that was running
        before."""
        return self.broker.faults

    def restore(self) -> None:
        """Remove faults, and start embedded nodes that do not run; does nothing for a Kafka that was running before."""
        if self._broker is not None:
            self._broker.start()
            _clear(self._broker.faults)

    def data_directories(self) -> list[str]:
        """Return the data directories of the embedded nodes, none for a Kafka that was running before."""
        return [] if self._broker is None else [self._broker.directory]

    @property
    def admin(self) -> Admin:
        """The administration client that all helpers share."""
        if self._admin is None:
            from kafkatools.core.admin.admin import Admin

            self._admin = Admin(self.client_settings)
        return self._admin

    @property
    def shared_producer(self) -> Producer:
        """The producer of `Topic.send`; it waits for acknowledgements and sends without a delay."""
        if self._producer is None:
            self._producer = self.producer(acks="all")
        return self._producer

    def close_producer(self) -> None:
        """Close the producer of `Topic.send`, if there is one; the next use of it opens another."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(timeout_ms=_CLOSE_MS)

    def producer(self, settings: Mapping[str, object] | None = None, **more_settings: object) -> Producer:
        """Return a new producer of this Kafka; use it in a `with` statement. Raises ConfigError for a wrong setting."""
        from kafkatools.core.producer.producer import Producer

        return Producer({**self.client_settings, **(settings or {})}, **more_settings)  # type: ignore[arg-type]

    def consumer(self, *topics: str, settings: Mapping[str, object] | None = None, **more_settings: object) -> Consumer:
        """Return a new consumer that begins with the first records; use it in a `with` statement.

        With `group_id` it subscribes to the topics, else all their partitions are assigned. Raises ConfigError for a
        wrong setting, UnknownTopicOrPartition for a topic that does not exist, unless there is a group.
        """
        from kafkatools.core.consumer.consumer import Consumer

        defaults = {**self.client_settings, "auto.offset.reset": "earliest"}
        consumer = Consumer({**defaults, **(settings or {})}, **more_settings)  # type: ignore[arg-type]
        if topics and consumer.config.group_id:
            consumer.subscribe(list(topics))
        elif topics:
            try:
                consumer.assign([(name, part) for name in topics for part in _partitions(consumer, name)])
            except BaseException:
                consumer.close()
                raise
        return consumer

    def topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, object] | None = None,
    ) -> Topic:
        """Create a topic and return it once its partitions have leaders.

        Without a name, or with one that ends in `-`, a random part makes the name unique. `configs` are the topic's
        settings (docs/config/topic.md). Raises TopicAlreadyExists, InvalidTopic, InvalidReplicationFactor,
        InvalidConfig; Timeout if a partition has no leader in time, after the topic was deleted again.
        """
        from kafkatools.core.admin.topics import NewTopic

        if name is None or name.endswith("-"):
            name = unique_name(name or "topic")
        texts = {key: _config_text(value) for key, value in (configs or {}).items()}
        self.admin.create_topics(NewTopic(name, partitions, replication_factor, configs=texts))
        try:
            self._await_leaders(name)
        except BaseException:
            with contextlib.suppress(KafkaError):  # what it raises says more
                self.admin.delete_topics(name)
            raise
        return Topic(name, self)

    def _await_leaders(self, name: str) -> None:
        """Wait for the leaders: brokers of a cluster learn of a new topic one after the other."""
        clock = SystemClock()
        deadline = clock.now_ms() + WAIT_MS
        while True:
            try:
                described = self.admin.describe_topics(name)[name]
                if all(part.leader >= 0 for part in described.partitions):
                    return
            except (UnknownTopicOrPartition, LeaderNotAvailable):
                pass
            if clock.now_ms() > deadline:
                raise Timeout(f"The new topic {name} has partitions without a leader after {WAIT_MS} ms")
            clock.sleep_ms(_LEADER_POLL_MS)

    def records(self, topic: str) -> list[ConsumerRecord]:
        """Return the committed records that a topic has now, by partition and offset. Raises UnknownTopicOrPartition
        for a topic that does not exist."""
        with self.consumer(str(topic), isolation_level="read_committed") as consumer:
            return sorted(consumer.read_to_end(), key=_place)

    def wait_for_records(self, topic: str, count: int, timeout_ms: int = WAIT_MS) -> list[ConsumerRecord]:
        """Return the committed records of a topic once there are at least `count`, by partition and offset; the topic
        need not exist yet. Raises Timeout, which names the values found."""
        from kafkatools.core.consumer.record_iterator import whole_ms

        clock = SystemClock()
        deadline = clock.now_ms() + whole_ms(timeout_ms)
        found: list[ConsumerRecord] = []
        with self.consumer(isolation_level="read_committed") as consumer:
            try:
                while not (partitions := consumer.partitions_for(str(topic), max(_POLL_MS, deadline - clock.now_ms()))):
                    if clock.now_ms() > deadline:
                        raise Timeout(f"Topic {topic} does not exist after {timeout_ms} ms")
                    clock.sleep_ms(_LEADER_POLL_MS)
            except RequestTimedOut as error:
                raise Timeout(f"Topic {topic} could not be looked up within {timeout_ms} ms: {error}") from error
            consumer.assign([(str(topic), part) for part in partitions])
            while len(found) < count and (remaining_ms := deadline - clock.now_ms()) > 0:
                found += consumer.poll(min(_POLL_MS, remaining_ms))
        if len(found) < count:
            values = ", ".join(repr(record.value) for record in found[-_SHOWN_VALUES:])
            last = f"; the last ones: {values}" if values else ""
            raise Timeout(f"Topic {topic} has {len(found)} of {count} records after {timeout_ms} ms{last}")
        return sorted(found, key=_place)

    def close(self) -> None:
        """Close the shared clients and stop the embedded broker; does nothing when called again."""
        admin, self._admin = self._admin, None
        try:
            self.close_producer()
            if admin is not None:
                admin.close()
        finally:
            self._stop()

    def _stop(self) -> None:
        if self._broker is not None:
            self._broker.close()


class KafkaCluster(Kafka):
    """An embedded cluster for tests, three nodes unless `nodes` says otherwise. `nodes_of` is the EmbeddedCluster, with
    `kill`, `restart`, `pause`, `resume`, `stop` and `faults` for its nodes; the first three are here too.

    A node that does not send heartbeats for 2 s is replaced, and topics have a replica on each node, up to three.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, *, nodes: int = 3) -> None:
        from kafkatools.sandbox.embedded_cluster import EmbeddedCluster

        defaults = {
            "default.replication.factor": min(nodes, 3),
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 500,
        }
        self.nodes_of: EmbeddedCluster = EmbeddedCluster(nodes, {**defaults, **_without_time_limit(settings or {})})
        super().__init__()

    def _start(self, settings: Mapping[str, object]) -> str:
        self.nodes_of.start()
        return self.nodes_of.bootstrap

    @property
    def is_embedded(self) -> bool:
        """True."""
        return True

    @property
    def faults(self) -> Faults:
        """The faults of the nodes (docs/rehearsals.md)."""
        return self.nodes_of.faults

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads a partition, -1 when none does. Raises UnknownTopicOrPartition."""
        for described in self.admin.describe_topics(str(topic))[str(topic)].partitions:
            if described.partition == partition:
                return described.leader
        raise UnknownTopicOrPartition(f"Topic {topic} has no partition {partition}")

    def kill(self, node: int) -> None:
        """Kill a node as kill -9 does. Raises SandboxError for a dead or unknown node."""
        self.nodes_of.kill(node)

    def restart(self, node: int) -> bool:
        """Stop a node unless it is dead, then start it; return whether it serves clients within 30 s. Raises
        SandboxError for an unknown or paused node."""
        return self.nodes_of.restart(node)

    def restore(self) -> None:
        """Remove faults, resume paused nodes and start dead ones."""
        nodes = self.nodes_of
        for node in nodes.node_ids:
            if nodes.state(node) == "paused":
                nodes.resume(node)
        for node in nodes.node_ids:
            if nodes.state(node) == "dead":
                nodes.restart(node)
        _clear(nodes.faults)

    def data_directories(self) -> list[str]:
        """Return the data directories of all nodes."""
        return [self.nodes_of.directory(node) for node in self.nodes_of.node_ids]

    def _stop(self) -> None:
        self.nodes_of.close()


def unique_name(stem: str) -> str:
    """Return a topic name of this stem and a random part; characters that a name cannot have become `-`."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-")[:_LONGEST_NAME]
    return f"{cleaned or 'topic'}-{uuid.uuid4().hex[:8]}"


def _clear(faults: Faults) -> None:
    """Remove the faults, if there are any: without one the nodes have nothing to apply."""
    if faults.active():
        faults.clear()


def _partitions(consumer: Consumer, name: str) -> list[int]:
    partitions = consumer.partitions_for(str(name))
    if not partitions:
        raise UnknownTopicOrPartition(f"Topic {name} does not exist")
    return partitions


def _place(record: ConsumerRecord) -> tuple[int, int]:
    return record.partition, record.offset


def _without_time_limit(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings, and a retention without a limit of time unless they have one."""
    unlimited = {} if _RETENTION_TIMES & settings.keys() else {"log.retention.ms": -1}
    return {**unlimited, **settings}


def _bytes(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _config_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
