"""Runs `kt why --json` and holds what it finds against a cause; and a clock that acts between the two snapshots."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from support.kt import run_kt
from support.live_groups import GroupClient
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.groups import describe_groups
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus

INTERVAL_MS = 1234
"""The interval of all runs here; nobody else sleeps as long."""


class Between(SystemClock):
    """Does not sleep between the snapshots, but calls `act`. Its wall clock is `later_ms` ahead."""

    def __init__(self, act: Callable[[], object] = lambda: None, later_ms: int = 0) -> None:
        self._act = act
        self._later_ms = later_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self._later_ms

    def sleep_ms(self, duration_ms: int) -> None:
        if duration_ms == INTERVAL_MS:
            self._act()
        else:
            super().sleep_ms(duration_ms)


def why(bootstrap: str, *words: str, clock: Between | None = None) -> tuple[ExitStatus, dict[str, Any]]:
    """How `kt why WORDS --json` ended, and its object."""
    interval = () if "--interval" in words else ("--interval", str(INTERVAL_MS / 1000))
    connection = ("--bootstrap-server", bootstrap)
    ran = run_kt("why", *words, *connection, *interval, "--json", clock=clock or Between())
    assert ran.out, ran.err
    return ran.status, json.loads(ran.out)


def only_cause(bootstrap: str, *words: str, clock: Between | None = None) -> dict[str, Any]:
    """The verdict, which is the only one. Its command is one that `kt` accepts."""
    status, answer = why(bootstrap, *words, clock=clock)
    assert status is ExitStatus.FINDINGS and answer["healthy"] is False, answer
    assert answer["others"] == [], answer
    verdict: dict[str, Any] = answer["verdict"]
    assert verdict["command"].startswith("kt ") and f"--bootstrap-server {bootstrap}" in verdict["command"]
    return verdict


def healthy(bootstrap: str, *words: str, clock: Between | None = None) -> dict[str, Any]:
    """What is said about something that is well."""
    status, answer = why(bootstrap, *words, clock=clock)
    assert (status, answer["healthy"], answer["verdict"]) == (ExitStatus.OK, True, None), answer
    return answer


def soon_healthy(bootstrap: str, *words: str, clock: Between | None = None) -> None:
    """Waits until `kt why` finds the subject healthy after brokers came back: the controller may fence a broker, whose
    replicas then leave the ISR, also shortly after its return, or when it gets no processor for a while."""

    def is_healthy() -> bool:
        status, answer = why(bootstrap, *words, clock=clock)
        return (status, answer["healthy"], answer["verdict"]) == (ExitStatus.OK, True, None)

    eventually(is_healthy)


def make_topic(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    records: int = 5,
    configs: Mapping[str, str] | None = None,
    assignments: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Makes a topic with so many records in each partition."""
    sizes = (-1, -1) if assignments is not None else (partitions, replicas)
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        (made,) = create_topics(admin, [NewTopic(name, *sizes, assignments, configs)]).values()
        assert made.error is None, made
    produce(bootstrap, name, len(assignments) if assignments is not None else partitions, records)


def produce(
    bootstrap: str,
    topic: str,
    partitions: int = 1,
    records: int = 5,
    value: bytes = b"value",
    at_ms: int | None = None,
    acks: str = "all",
) -> None:
    """Sends records to each partition."""
    settings = {"acks": acks, "enable_idempotence": acks == "all", "max_request_size": 4 << 20}
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        for number in range(records * partitions):
            producer.send(topic, value, partition=number % partitions, timestamp=at_ms)


class LimitedWriter:
    """A producer that tries to write a tenth more than its quota, `rate` bytes per second, within the context: a quota
    lets so much pass for seconds, until its window is full. It catches up after a while without a processor."""

    def __init__(self, bootstrap: str, topic: str, client_id: str, rate: float) -> None:
        self._topic, self._rate = topic, rate
        self._producer = Producer(bootstrap_servers=bootstrap, client_id=client_id)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._written = 0

    def __enter__(self) -> LimitedWriter:
        self._thread.start()
        eventually(lambda: self._producer.metrics()["produce-throttle-time-max"] > 0)
        return self

    def __exit__(self, *problem: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.close()

    def _write(self) -> None:
        value, wait_s = b"x" * 5_000, 5_000 / (1.1 * self._rate)
        due_s = time.monotonic()
        while not self._is_over.wait(due_s - time.monotonic()):
            self._producer.send(self._topic, value)
            self._producer.flush()
            self._written += len(value)
            due_s = max(due_s, time.monotonic() - 1) + wait_s

    def write_for(self, seconds: float) -> None:
        """Wait until it has written what the quota allows in this time. With seconds the rate between two snapshots is
        exact enough."""
        end = self._written + seconds * self._rate
        eventually(lambda: self._written >= end)


def join_until_reconciling(bootstrap: str, client: GroupClient, group: str, topic: str, member_id: str) -> None:
    """Joins a group of the consumer protocol as one more member, until another one has to give up partitions."""
    fields: dict[str, Any] = {
        "group_id": group, "member_id": member_id, "member_epoch": 0, "rebalance_timeout": 60_000,
        "subscribed_topic_names": (topic,), "topic_partitions": (),
    }  # fmt: skip

    def is_reconciling() -> bool:
        answer = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields)
        assert int(answer.error_code) == 0, answer
        fields.update(member_epoch=answer.member_epoch, subscribed_topic_names=None, topic_partitions=None)
        with AdminClient(bootstrap, {}, SystemClock()) as admin:
            return describe_groups(admin, [group])[group].state == "Reconciling"

    eventually(is_reconciling)
