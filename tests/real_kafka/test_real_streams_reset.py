"""kt streams-application-reset of a real application of Kafka Streams 4.3.1, beside Kafka's own tool: the application
counts everything a second time.

It runs on the embedded broker and on Apache Kafka, with the same results.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from support import streams_story
from support.apache_kafka import run_tool
from support.embedded import embedded_broker
from support.kafka_streams import WordCount
from support.kt import Ran, run_kt
from support.waiting import eventually

import kafkatools
from kafkatools.exit_status import ExitStatus

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
TOOL = "streams-application-reset"
INTERNAL = {"words-words-repartition", "words-words-changelog"}


def counts(bootstrap: str) -> list[str]:
    """The committed results, sorted: each a word and its count."""
    words = ("--topic", "counts", "--from-beginning", "--exit-at-end", "--isolation-level", "read_committed")
    ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, *words, "--formatter-property", "print.key=true")
    return sorted(ran.out.splitlines())


def without_order(text: str) -> list[str]:
    """The lines of a reset. Kafka's tool has internal topics in the order of the broker's response."""
    return ["".join(sorted(line)) if "internal topics" in line else line for line in text.splitlines()]


@pytest.mark.parametrize("broker", ["embedded", "apache"])
def test_an_application_begins_again_after_its_reset(
    broker: str, new_kafka: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    with contextlib.ExitStack() as stack:
        if broker == "embedded":
            settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
            bootstrap = stack.enter_context(embedded_broker(tmp_path / "data", **settings))
        else:
            kafka = new_kafka(settings=SETTINGS)
            kafka.start()
            bootstrap = kafka.bootstrap
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([kafkatools.NewTopic(name, 2) for name in ("lines", "counts")])
        with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
            for number, line in enumerate((b"a b", b"c a", b"b a")):
                producer.send("lines", line, partition=number % 2)
        once = ["a\t1", "a\t2", "a\t3", "b\t1", "b\t2", "c\t1"]
        application = WordCount(bootstrap, "one", tmp_path, "classic")
        stack.callback(application.stop)
        eventually(lambda: counts(bootstrap) == once)
        server = ("--bootstrap-server", bootstrap, "--application-id", "words")

        def reset(*words: str) -> Ran:
            return run_kt(TOOL, *server, "--input-topics", "lines", *words)

        refused = reset()
        assert refused.status == ExitStatus.FAILED
        assert "Consumer group 'words' is still active and has following members: [one-" in refused.err
        application.stop()  # Kafka Streams leaves no group of the classic protocol when it is closed
        done = reset("--force", "--dry-run", "--undo-file", "x")
        assert done.status == ExitStatus.USAGE
        preview = reset("--force", "--dry-run")
        theirs = run_tool(TOOL, *server, "--input-topics", "lines", "--force", "--dry-run").stdout.decode()
        expected = theirs.replace("Force deleting", "Would delete")
        assert without_order(preview.out) == without_order(expected), preview.err
        assert reset("--to-earliest").status == ExitStatus.OK  # Kafka's dry run removed the members
        assert not INTERNAL & set(run_kt("topics", *server[:2], "--list").out.split())
        again = WordCount(bootstrap, "two", tmp_path, "classic")
        stack.callback(again.stop)
        eventually(lambda: counts(bootstrap) == sorted(once + once))


def test_a_streams_group_is_reset_when_its_members_have_left(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([kafkatools.NewTopic("orders", 1)])
        streams_story.visit(bootstrap, "words", "orders")
        reset = (TOOL, "--bootstrap-server", bootstrap, "--application-id", "words", "--input-topics", "orders")
        refused = run_kt(*reset, "--force")
        assert (refused.status, refused.out) == (ExitStatus.FAILED, "")
        assert refused.err.startswith("ERROR: Streams group 'words' is still active and has following members: [")
        streams_story.leave(bootstrap, "words")
        assert run_kt(*reset).status == ExitStatus.OK
