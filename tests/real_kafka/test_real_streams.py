"""An application of Kafka Streams 4.3.1 with group.protocol=streams: word count with a repartition topic, a store with
a changelog, a standby, and exactly-once processing. One of two instances is killed and started again.

It runs on the embedded broker and on Apache Kafka, with the same results.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kafka_streams import WordCount
from support.kt import run_kt
from support.waiting import eventually

import kafkatools
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.streams_groups import StreamsGroupDescription, describe_streams_groups
from kafkatools.core.clock import SystemClock

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
ALL_ACTIVE = {("0", 0), ("0", 1), ("1", 0), ("1", 1)}


@contextlib.contextmanager
def apache(new_kafka: Callable[..., Any]) -> Iterator[str]:
    kafka = new_kafka(settings=SETTINGS)
    kafka.start()
    yield kafka.bootstrap


class Words:
    """The topics of the application, and what its results must be."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._expected: Counter[str] = Counter()
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([kafkatools.NewTopic(name, 2) for name in ("lines", "counts")])

    def write(self, *lines: str) -> None:
        """Send lines."""
        with kafkatools.Producer(bootstrap_servers=self._bootstrap) as producer:
            for number, line in enumerate(lines):
                producer.send("lines", line.encode(), partition=number % 2)
        self._expected.update(word for line in lines for word in line.split())

    def are_counted(self) -> bool:
        """Return whether the last count of each word is right, and no count was written twice."""
        words = ("--topic", "counts", "--from-beginning", "--exit-at-end", "--isolation-level", "read_committed")
        form = ("--formatter-property", "print.key=true")
        ran = run_kt("console-consumer", "--bootstrap-server", self._bootstrap, *words, *form)
        found = sorted(line.split("\t") for line in ran.out.splitlines())
        return found == sorted([word, str(n)] for word, last in self._expected.items() for n in range(1, last + 1))


def described(bootstrap: str) -> StreamsGroupDescription:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        return describe_streams_groups(admin, ["words"])["words"]


def is_balanced(bootstrap: str, clients: set[str]) -> bool:
    """Return whether these clients are the members, each with two active tasks and, if there are two, a standby."""
    group = described(bootstrap)
    active = [(key, one) for member in group.members for key, ones in member.tasks.active for one in ones]
    standby = [(key, one) for member in group.members for key, ones in member.tasks.standby for one in ones]
    names = {member.client_id.split("-")[0] for member in group.members}
    wanted = [("1", 0), ("1", 1)] if len(clients) > 1 else []
    is_shared = group.state == "Stable" and names == clients and len(group.members) == len(clients)
    return is_shared and len(active) == len(ALL_ACTIVE) and set(active) == ALL_ACTIVE and sorted(standby) == wanted


@pytest.mark.parametrize("broker", ["embedded", "apache"])
def test_words_are_counted_once_while_an_instance_is_killed(
    broker: str, new_kafka: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    with contextlib.ExitStack() as stack:
        running = embedded_broker(tmp_path / "data", **settings) if broker == "embedded" else apache(new_kafka)
        bootstrap = stack.enter_context(running)
        words = Words(bootstrap)
        words.write("a b", "c a", "b a")
        one, two = (WordCount(bootstrap, name, tmp_path) for name in ("one", "two"))
        stack.callback(two.stop)
        stack.callback(one.stop)
        eventually(lambda: is_balanced(bootstrap, {"one", "two"}))
        eventually(words.are_counted)
        one.kill()
        words.write("d a", "c")
        eventually(lambda: is_balanced(bootstrap, {"two"}))
        eventually(words.are_counted)
        again = WordCount(bootstrap, "one", tmp_path)
        stack.callback(again.stop)
        words.write("a", "b b")
        eventually(lambda: is_balanced(bootstrap, {"one", "two"}))
        eventually(words.are_counted)
        assert set(described(bootstrap).internal_topics) == {"words-words-repartition", "words-words-changelog"}
        endpoints = {member.endpoint for member in described(bootstrap).members}
        assert endpoints == {"one.example:7070", "two.example:7070"}
