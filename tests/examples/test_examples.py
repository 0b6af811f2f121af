"""The folders of examples/ do what their pages say: their scripts run as they stand, on one broker."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

import pytest
from support.embedded import WITHOUT_RETENTION
from support.waiting import PATIENCE_S, eventually

import kafkatools

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DAY_MS = 86_400_000
pytestmark = pytest.mark.slow


class Place:
    """The scripts of an example, with a directory of their own, a broker and `kt` on the PATH."""

    def __init__(self, directory: pathlib.Path, bootstrap: str) -> None:
        self.directory = directory
        self.bootstrap = bootstrap
        bin_directory = directory / "bin"
        bin_directory.mkdir()
        kt = bin_directory / "kt"
        kt.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkatools "$@"\n')
        kt.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "KT_SANDBOX": "off",
            "KT_HOME": str(directory / "home"),
            "KAFKA": bootstrap,
        }

    def run(self, *words: str, environ: Mapping[str, str] | None = None) -> str:
        """Runs a program to its end and returns its stdout; fails when it fails."""
        environment = {**self.environment, **(environ or {})}
        ran = subprocess.run(
            words, cwd=self.directory, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert ran.returncode == 0, f"{words[0]} ended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    @contextlib.contextmanager
    def started(self, *words: str, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """A program that runs within the context."""
        environment = {**self.environment, **(environ or {})}
        process = subprocess.Popen(words, cwd=self.directory, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with kafkatools.EmbeddedBroker(WITHOUT_RETENTION, group_initial_rebalance_delay_ms=0) as started:
        yield started.bootstrap


@pytest.fixture
def place(tmp_path: pathlib.Path, broker: str) -> Place:
    return Place(tmp_path, broker)


@pytest.fixture
def admin(broker: str) -> Iterator[kafkatools.Admin]:
    with kafkatools.Admin(bootstrap_servers=broker) as admin:
        yield admin


@pytest.fixture
def producer(broker: str) -> Iterator[kafkatools.Producer]:
    with kafkatools.Producer(bootstrap_servers=broker) as producer:
        yield producer


def records_of(bootstrap: str, topic: str) -> list[kafkatools.ConsumerRecord]:
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with kafkatools.Consumer(settings) as consumer, kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        parts = admin.describe_topics(topic)[topic].partitions
        consumer.assign([(topic, part.partition) for part in parts])
        return list(consumer.read_to_end())


def test_the_runbook_and_its_migration_do_the_same(
    place: Place, admin: kafkatools.Admin, producer: kafkatools.Producer
) -> None:
    admin.create_topics(kafkatools.NewTopic("payments", configs={"retention.ms": str(7 * DAY_MS)}))
    for hour in range(4):
        producer.send("payments", b"%d" % hour, timestamp=1_769_817_600_000 + hour * 3_600_000).result()
    admin.alter_group_offsets("billing", {("payments", 0): 4})

    def state() -> tuple[int, str | None]:
        offset = admin.group_offsets("billing")["payments", 0].offset
        return offset, admin.describe_configs(("topic", "payments"))["topic", "payments"]["retention.ms"].value

    before = state()
    since = {"SINCE": "2026-01-31T02:00:00.000"}
    runbook = EXAMPLES / "runbook"
    printed = place.run(str(runbook / "runbook.sh"), environ=since)
    assert '"lag":2' in printed
    migrated = state()
    place.run(str(runbook / "back.sh"))
    assert state() == before == (4, str(7 * DAY_MS))
    place.run("kt", "shims", "kafka-bin")
    place.run(str(runbook / "before.sh"), environ={**since, "PATH": f"kafka-bin:{place.environment['PATH']}"})
    assert state() == migrated == (2, str(14 * DAY_MS))


def test_the_suite_of_pytest_passes(place: Place) -> None:
    suite = shutil.copytree(EXAMPLES / "pytest_suite", place.directory / "suite")
    words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(suite))
    assert "3 passed" in place.run(*words)


DIES_IN_A_TRANSACTION = """
import os, sys, kafkatools
at = {"bootstrap.servers": sys.argv[1]}
group = {"group.id": "invoicing", "group.instance.id": "billing-0", "enable.auto.commit": False}
consumer = kafkatools.Consumer({**at, **group, "auto.offset.reset": "earliest", "max.poll.records": 1})
producer = kafkatools.Producer({**at, "transactional.id": "billing-0"})
consumer.subscribe(["orders"])
producer.init_transactions()
while not (orders := consumer.poll(timeout_ms=1000)):
    pass
producer.begin_transaction()
producer.send("invoices", b"{}").result()
producer.send_offsets_to_transaction(orders.next_offsets(), consumer.group_metadata())
os._exit(0)
"""
"""A service that dies with its invoice and its offsets in an open transaction."""


def test_each_order_is_billed_once_although_the_service_is_killed(
    place: Place, admin: kafkatools.Admin, producer: kafkatools.Producer
) -> None:
    page = (EXAMPLES / "exactly_once" / "README.md").read_text(encoding="utf-8")
    for line in re.findall(r"^kt topics .*", page, re.MULTILINE):
        place.run("sh", "-c", line)
    assert [len(topic.partitions) for topic in admin.describe_topics(["orders", "invoices"]).values()] == [3, 3]
    orders = [json.dumps({"id": number, "count": 2, "price": number}).encode() for number in range(3000)]
    producer.send_many("orders", orders).result()
    words = (sys.executable, str(EXAMPLES / "exactly_once" / "service.py"), "--kafka", place.bootstrap)
    place.run(sys.executable, "-c", DIES_IN_A_TRANSACTION, place.bootstrap)
    started_at = time.monotonic()
    with place.started(*words) as service:
        assert service.stdout is not None
        assert "orders billed" in service.stdout.readline()
        assert time.monotonic() - started_at < 50  # it does not wait for transaction.timeout.ms, a minute
        service.kill()
    with place.started(*words) as service:
        eventually(lambda: len(records_of(place.bootstrap, "invoices")) >= len(orders))
        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE_S) == 0
    invoices = [json.loads(record.value) for record in records_of(place.bootstrap, "invoices")]
    assert sorted(invoice["order"] for invoice in invoices) == list(range(3000))
    assert all(invoice["total"] == 2 * invoice["order"] for invoice in invoices)


def test_records_of_a_dead_broker_come_back(place: Place, admin: kafkatools.Admin) -> None:
    disk = place.directory / "disk"
    dead = kafkatools.EmbeddedBroker(WITHOUT_RETENTION, directory=disk)
    dead.start()
    with kafkatools.Producer(bootstrap_servers=dead.bootstrap) as writer:
        for number in range(5):
            sent = writer.send("refunds", b"refund %d" % number, key=b"alice", timestamp=1_769_817_600_000 + number)
            sent.result()
    dead.kill()
    (log,) = disk.rglob("refunds-0/*.log")
    data = log.read_bytes()
    log.write_bytes(data.replace(b"refund 2", b"refund X"))  # the checksum of its batch is wrong now
    rescue = str(EXAMPLES / "dead_broker" / "rescue.sh")
    logs = str(log.parents[1])
    for arguments, status, message in (
        ((), 2, f"usage: {rescue} DISK TOPIC DIRECTORY\n"),
        ((logs, "refund", "rescue"), 1, f"There is no partition of the topic refund in {logs}\n"),
    ):
        refused = subprocess.run([rescue, *arguments], capture_output=True, text=True, check=False)
        assert (refused.returncode, refused.stderr) == (status, message)
    admin.create_topics("refunds")
    printed = place.run(rescue, logs, "refunds", "rescue")
    records = records_of(place.bootstrap, "refunds")
    assert [record.value for record in records] == [b"refund 0", b"refund 1", b"refund 3", b"refund 4"]
    assert [record.timestamp - 1_769_817_600_000 for record in records] == [0, 1, 3, 4]
    assert {record.key for record in records} == {b"alice"}
    lost = json.loads((place.directory / "rescue" / "lost.jsonl").read_text())
    assert (
        lost["file"] == str(log)
        and json.dumps(lost["file"]) in printed
        and lost["first_offset"] == lost["last_offset"] == 2
    )
    assert log.read_bytes() == data.replace(b"refund 2", b"refund X")


def test_lag_reaches_a_webhook(place: Place, admin: kafkatools.Admin, producer: kafkatools.Producer) -> None:
    admin.create_topics("clicks")
    producer.send_many("clicks", [b"click"] * 200).result()
    admin.alter_group_offsets("counters", {("clicks", 0): 0})
    folder = EXAMPLES / "lag_alerts"
    with place.started(sys.executable, str(folder / "receiver.py"), "0") as receiver:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().split()[-1]
        environ = {
            "WEBHOOK": f"http://127.0.0.1:{port}/", "INTERVAL": "500ms", "LAG": "lag>100 on group=counters"
        }  # fmt: skip
        with place.started(str(folder / "watch.sh"), environ=environ):
            assert "FIRING: lag>100" in read_until(receiver, "FIRING")
            admin.alter_group_offsets("counters", {("clicks", 0): 200})
            assert "counters" in read_until(receiver, "RESOLVED")


def read_until(process: subprocess.Popen[str], word: str) -> str:
    """The first line of a process that contains a word; the time-out of the test ends a wait without one."""
    assert process.stdout is not None
    return next(line for line in process.stdout if word in line)


@pytest.mark.parametrize("page", sorted(EXAMPLES.rglob("README.md")), ids=lambda page: page.parent.name)
def test_the_page_is_short(page: pathlib.Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 40
