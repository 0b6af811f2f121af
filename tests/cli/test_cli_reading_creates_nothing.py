"""Reading never creates a topic, even if the broker allows it: a name with a typo is reported and stays unknown."""

from __future__ import annotations

import logging
import pathlib
import signal
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import start_kt

from kafkatools import Consumer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import list_topics
from kafkatools.core.clock import SystemClock

READERS = (
    ("console-consumer", "--topic", "ghost", "--timeout-ms", "1000"),
    ("console-consumer", "--topic", "ghost", "--timeout-ms", "1000", "--group", "readers"),
    ("console-consumer", "--topic", "ghost", "--exit-at-end"),
    ("console-consumer", "--topic", "ghost", "--partition", "0"),
    ("console-consumer", "--topic", "ghost", "--timeout-ms", "1000", "--json"),
    ("consumer-perf-test", "--topic", "ghost", "--num-records", "1", "--timeout", "1000"),
    ("console-share-consumer", "--topic", "ghost", "--timeout-ms", "1000"),
    ("share-consumer-perf-test", "--topic", "ghost", "--num-records", "1", "--timeout", "1000"),
    ("pipeline", "count", "topic:ghost"),
    ("transactions", "describe-producers", "--topic", "ghost", "--partition", "0"),
    ("consumer-groups", "--group", "readers", "--topic", "ghost", "--reset-offsets", "--to-earliest", "--dry-run"),
    ("share-groups", "--group", "readers", "--topic", "ghost", "--reset-offsets", "--to-earliest", "--dry-run"),
)
IN_KAFKAS_WORDS = (("get-offsets", "--topic", "ghost"),)
"""Its message is kafka-get-offsets.sh's, which does not name the topic: --topic is a pattern."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("creating")
    settings = {"auto_create_topics_enable": "true", "group_initial_rebalance_delay_ms": "0"}
    with embedded_broker(directory, **settings) as bootstrap:
        yield bootstrap


def kt(broker: str, *words: str) -> Ran:
    command, *rest = words
    own = 2 if command in ("pipeline", "transactions") else 1
    return run_kt(*words[:own], "--bootstrap-server", broker, *rest[own - 1 :])


def topics(broker: str) -> set[str]:
    with AdminClient(broker, {}, SystemClock()) as admin:
        return {topic.name for topic in list_topics(admin)} - {"__consumer_offsets"}


@pytest.mark.parametrize("words", READERS + IN_KAFKAS_WORDS, ids=lambda words: " ".join(words[:1] + words[3:]))
def test_a_reader_names_the_missing_topic_and_creates_none(broker: str, words: tuple[str, ...]) -> None:
    ran = kt(broker, *words)
    assert ran.status == 1
    assert words in IN_KAFKAS_WORDS or "ghost" in ran.err
    assert "ghost" not in topics(broker)


def test_console_consumer_says_once_which_topic_it_waits_for(broker: str) -> None:
    ran = kt(broker, "console-consumer", "--topic", "ghost", "--timeout-ms", "1000")
    assert ran.err.splitlines() == [
        "Topic ghost does not exist yet: waiting for it",
        "Processed a total of 0 messages",
        "Topic ghost does not exist",
    ]


def test_verifiable_consumer_waits_for_the_topic_and_says_so(broker: str, tmp_path: pathlib.Path) -> None:
    words = ("--bootstrap-server", broker, "--topic", "ghost", "--group-id", "verifying")
    process = start_kt(tmp_path, "verifiable-consumer", *words)
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == b"Topic ghost does not exist yet: waiting for it\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (b"shutdown_complete" in out, err) == (True, b"")
    assert "ghost" not in topics(broker)


def test_a_consumer_in_python_warns_once_and_creates_nothing(broker: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"bootstrap.servers": broker, "group.id": "python", "metadata.max.age.ms": "100"}
    with caplog.at_level(logging.WARNING, "kafkatools"), Consumer(settings) as consumer:
        assert consumer.partitions_for("ghost") == []
        consumer.subscribe(["ghost"])
        for _ in range(10):
            assert consumer.poll(100).count == 0
    told = [record.getMessage() for record in caplog.records]
    assert told == ["[Consumer groupId=python] Topic ghost does not exist; group python waits for it"]
    assert "ghost" not in topics(broker)


@pytest.mark.parametrize("option", ["--consumer-property", "--command-property", "--consumer.config"])
def test_the_setting_brings_creation_back(broker: str, tmp_path: pathlib.Path, option: str) -> None:
    topic, setting = f"made-by-{option.strip('-')}", "allow.auto.create.topics=true"
    (tmp_path / "consumer.properties").write_text(setting + "\n")
    value = str(tmp_path / "consumer.properties") if option == "--consumer.config" else setting
    assert topic not in topics(broker)
    ran = kt(broker, "console-consumer", "--topic", topic, "--timeout-ms", "1000", option, value)
    assert ran.status == 0, ran.err
    assert topic in topics(broker)


def test_a_value_that_is_no_boolean_is_refused(broker: str) -> None:
    words = ("--topic", "ghost", "--consumer-property", "allow.auto.create.topics=maybe")
    ran = kt(broker, "console-consumer", *words)
    assert ran.status == 2
    assert "allow.auto.create.topics" in ran.err
