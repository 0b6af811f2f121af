"""Members of a group that run as processes of their own and say as JSON lines what they are given and read."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from support import apache_kafka
from support.raw_client import RawClient
from support.rebalances import settle
from support.waiting import PATIENCE_S

import kafkatools
from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer

CLIENTS = pathlib.Path(__file__).parent.parent / "scenarios" / "clients"
CLIENTS_PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
START = 1_700_000_000_000
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


class MemberProcess:
    """Follows the lines of a member: what it owns and which records it read."""

    def __init__(self, command: Sequence[str]) -> None:
        self.owned: set[int] = set()
        self.records: list[tuple[int, int]] = []
        self.lost: list[int] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith(b"{"):
                    self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        named = {item["partition"] for item in event.get("partitions", ())}
        if event["name"] == "partitions_assigned":
            self.owned |= named
        elif event["name"] == "partitions_revoked":
            self.owned -= named
        elif event["name"] == "partitions_lost":
            self.lost += sorted(named)
            self.owned -= named
        elif event["name"] == "records_consumed":
            for item in event["partitions"]:
                self.records += [(item["partition"], n) for n in range(item["minOffset"], item["maxOffset"] + 1)]

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """SIGTERM: it commits and leaves."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)


def java_member(bootstrap: str, topic: str, group: str, *args: str) -> MemberProcess:
    """kafka-verifiable-consumer."""
    given = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest", "--enable-autocommit", *args)
    return MemberProcess(apache_kafka.command("verifiable-consumer", "--bootstrap-server", bootstrap, *given))


def librdkafka_member(bootstrap: str, topic: str, group: str, *settings: str) -> MemberProcess:
    """confluent-kafka."""
    return MemberProcess([CLIENTS_PYTHON, str(CLIENTS / "confluent_member.py"), bootstrap, topic, group, *settings])


def kt_member(bootstrap: str, topic: str, group: str, *settings: str) -> MemberProcess:
    """Our own, as a process."""
    return MemberProcess([sys.executable, str(CLIENTS / "kt_member.py"), bootstrap, topic, group, *settings])


def our_member(bootstrap: str, group: str, **settings: str) -> Consumer:
    """Our consumer, with short intervals."""
    given = {"auto.offset.reset": "earliest", "metadata.max.age.ms": "2000"}
    if settings.get("group_protocol") != "consumer":
        given["heartbeat.interval.ms"] = "200"
    given |= {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer(Config(CONSUMER, {"bootstrap.servers": bootstrap, "group.id": group, **given}))


def new_topic(bootstrap: str, partitions: int = 4) -> str:
    """A topic without records."""
    topic = f"shared-{uuid.uuid4().hex[:8]}"
    with RawClient(bootstrap) as client:
        client.create_topic(topic, partitions)
    return topic


def produce_everywhere(bootstrap: str, topic: str, count: int, partitions: int = 4) -> None:
    """So many records in every partition."""
    with RawClient(bootstrap) as client:
        for partition in range(partitions):
            client.produce_rows(topic, partition, [(START, None, b"%d" % n, ()) for n in range(count)])


class Sharing:
    """Our consumer polls until something is so, while the others do what they do."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.records: list[tuple[int, int]] = []

    @property
    def owned(self) -> set[int]:
        """Our partitions."""
        return {part.partition for part in self.consumer.assignment()}

    def until(self, holds: Any, timeout_s: float = PATIENCE_S) -> None:
        """Polls; fails after the time."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline, (self.owned, len(self.records))
            self.records += [(record.partition, record.offset) for record in self.consumer.poll(50)]


def share_with(bootstrap: str, other: Any, *args: str, **settings: str) -> None:
    """Ours is alone, shares 4 partitions with another member, and is alone again; no record twice or missed."""
    topic, group = new_topic(bootstrap), f"with-{uuid.uuid4().hex[:8]}"
    with our_member(bootstrap, group, **settings) as consumer:
        consumer.subscribe([topic])
        ours = Sharing(consumer)
        produce_everywhere(bootstrap, topic, 5)
        ours.until(lambda: len(ours.records) == 20)
        member = other(bootstrap, topic, group, *args)
        try:
            ours.until(lambda: len(ours.owned) == 2 and ours.owned | member.owned == {0, 1, 2, 3})
            produce_everywhere(bootstrap, topic, 10)
            ours.until(lambda: len(ours.records) >= 40 and len(member.records) >= 20)
        finally:
            member.stop()
        assert len(member.records) == 20
        ours.until(lambda: len(ours.owned) == 4)
        produce_everywhere(bootstrap, topic, 1)
        ours.until(lambda: len(ours.records) >= 44)
        together = ours.records + member.records
        assert sorted(together) == [(partition, n) for partition in range(4) for n in range(16)]


def close_as_told(bootstrap: str, protocol: str) -> None:
    """KIP-1092: which members are still in the group after `close(leave_group=...)`."""
    topic, members = new_topic(bootstrap, 1), {}
    for instance in (None, "static"):
        for leave_group in (None, True, False):
            group = f"closed-{protocol}-{instance}-{leave_group}"
            settings = {} if instance is None else {"group_instance_id": instance}
            member = our_member(bootstrap, group, group_protocol=protocol, **settings)
            member.subscribe([topic])
            settle([member], 1)
            member.close(leave_group=leave_group)
            with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
                members[instance, leave_group] = len(admin.describe_groups(group)[group].members)
    assert members == {
        (None, None): 0,
        (None, True): 0,
        (None, False): 1,
        ("static", None): 1,
        ("static", True): 0,
        ("static", False): 1,
    }
