"""One Apache Kafka of three brokers for all tests that need one; node 1 is the controller too, as in the recordings.

It is shared, and files of tests follow each other in any order: who wants an empty cluster empties it, and nobody
leaves a broker stopped, a replica on its way, or a setting that outlives the topics.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from support.apache_kafka import ApacheKafka
from support.waiting import eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import (
    CLIENT_METRICS,
    DELETE,
    ConfigChange,
    describe_configs,
    incremental_alter_configs,
)
from kafkatools.core.admin.reassignments import active_reassignments
from kafkatools.core.admin.topics import NewTopic, create_topics, delete_topics, describe_topics, list_topics
from kafkatools.core.clock import SystemClock

BROKERS = (1, 2, 3)
START_S = 120
_SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    # A throttle lets through what its window allows at once: a short one, and small fetches, need less data to be slow.
    "replication.quota.window.num": "2",
    "replica.fetch.max.bytes": "100000",
    "quota.window.num": "3",
    # A broker that starts again is refused until the session of its former process is over.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class ThreeNodes(ApacheKafka):
    """The cluster, its first broker's address, and what all its brokers know."""

    def __init__(self, home: pathlib.Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(home, 3, {**_SETTINGS, **(settings or {})}, controllers=1)
        self._marks = 0

    def address(self, node: int) -> str:
        """host:port of a broker."""
        return f"127.0.0.1:{self.ports[node - 1]}"

    @property
    def controller(self) -> str:
        """host:port where controllers are asked."""
        return f"127.0.0.1:{self.controller_ports[0]}"

    @contextlib.contextmanager
    def clients(self) -> Iterator[list[AdminClient]]:
        """A client for each broker that runs, that asks no other until it has to."""
        with contextlib.ExitStack() as stack:
            nodes = sorted(self.processes)
            yield [stack.enter_context(AdminClient(self.address(node), {}, SystemClock())) for node in nodes]

    def wait_until_complete(self) -> None:
        """Until every broker that runs knows exactly those that run."""
        with self.clients() as clients:
            eventually(lambda: all(_live(client) == sorted(self.processes) for client in clients), START_S)

    def wait_until_all_see(self, condition: Callable[[AdminClient], bool]) -> None:
        """Until the condition holds for what each broker that runs says."""
        with self.clients() as clients:
            eventually(lambda: all(condition(client) for client in clients), START_S)

    def settle(self) -> None:
        """Until every broker that runs knows what has been decided so far: each reads the controller's log in order, so
        it is enough to wait for a setting that is written there now."""
        mark = (CLIENT_METRICS, "settled")
        self._marks += 1
        value = str(100 + self._marks)
        with self.clients() as clients:
            set_mark = incremental_alter_configs(clients[0], {mark: [ConfigChange("interval.ms", value)]})
            assert set_mark[mark] is None, set_mark
            eventually(lambda: all(_mark(client, mark) == value for client in clients), START_S)
            incremental_alter_configs(clients[0], {mark: [ConfigChange("interval.ms", None, DELETE)]})

    def stop_broker(self, node: int) -> None:
        """Stops a broker as the stop script does; the others know it."""
        self.stop_node(node)
        self.wait_until_complete()

    def start_broker(self, node: int) -> None:
        """Starts it again; the others know it."""
        self.start_node(node)
        self.wait_until_complete()

    def make_topics(self, placements: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Topics with these replicas, known to all brokers."""
        with AdminClient(self.bootstrap, {}, SystemClock()) as admin:
            topics = [NewTopic(name, replicas_assignments=dict(enumerate(to))) for name, to in placements.items()]
            created = create_topics(admin, topics)
            assert not [one.error for one in created.values() if one.error is not None], created
        self.wait_until_all_see(lambda client: replicas(client, placements) == placements)

    def empty(self) -> None:
        """Deletes all topics."""
        with AdminClient(self.bootstrap, {}, SystemClock()) as admin:
            eventually(lambda: not active_reassignments(admin))
            delete_topics(admin, [topic.name for topic in list_topics(admin)])
        self.wait_until_all_see(lambda client: not list_topics(client))


def _live(client: AdminClient) -> list[int]:
    client.metadata_of((), client.deadline_ms())
    return client.brokers()


def _mark(client: AdminClient, mark: tuple[int, str]) -> str | None:
    found = describe_configs(client, [mark])[mark]
    return next((entry.value for entry in found.entries if entry.name == "interval.ms"), None)


def replicas(client: AdminClient, topics: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, list[list[int]]]:
    """The replicas of topics' partitions, as one broker knows them."""
    described = describe_topics(client, names=list(topics))
    return {name: [list(part.replicas) for part in topic.partitions] for name, topic in described.items()}
