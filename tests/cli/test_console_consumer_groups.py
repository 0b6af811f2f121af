"""kt console-consumer --group: what is committed is what was printed, however the run ends."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.raw_client import RawClient

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.exit_status import ExitStatus

START = 1_700_000_000_000
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "auto_create_topics_enable": "false",
        "group_initial_rebalance_delay_ms": "0",
        "offsets_topic_num_partitions": "2",
    }
    with embedded_broker(tmp_path_factory.mktemp("console-groups"), **settings) as bootstrap:
        with RawClient(bootstrap) as client:
            client.create_topic("ten")
            client.produce_rows("ten", 0, [(START, None, b"%d" % index, ()) for index in range(10)])
            client.create_topic("four", 4)
            for partition in range(4):
                client.produce_rows("four", partition, [(START, None, b"%d" % partition, ()) for _ in range(5)])
            client.create_topic("numbers")
            values = [b"\0" * 7 + b"%c" % index for index in range(4)] + [b"xx"] + [b"\0" * 8]
            client.produce_rows("numbers", 0, [(START, None, value, ()) for value in values])
            client.create_topic("large")
            for _ in range(40):
                client.produce_rows("large", 0, [(START, None, b"x" * 1000, ()) for _ in range(500)])
            client.create_topic("empty")
        yield bootstrap


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


def consume(bootstrap: str, *args: str) -> Ran:
    return run_kt("console-consumer", "--bootstrap-server", bootstrap, *args)


def committed(bootstrap: str, group: str, *partitions: tuple[str, int]) -> list[int | None]:
    with Consumer(Config(CONSUMER, {"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        found = consumer.committed(partitions)
    return [None if offset is None else offset.offset for offset in found.values()]


def started(bootstrap: str, *args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kafkatools", "console-consumer", "--bootstrap-server", bootstrap, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"})


def test_max_messages_commits_what_was_printed_though_more_was_read(broker: str, group: str) -> None:
    args = ("--topic", "ten", "--group", group, "--from-beginning", "--max-messages", "3")
    printed = [consume(broker, *args).out.split() for _ in range(3)]
    assert printed == [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]]
    assert committed(broker, group, ("ten", 0)) == [9]


def test_exit_at_end_goes_on_where_the_group_is_and_counts_its_partitions(broker: str, group: str) -> None:
    args = ("--topic", "four", "--group", group, "--from-beginning", "--exit-at-end")
    first = consume(broker, *args)
    assert (first.status, len(first.out.split())) == (ExitStatus.OK, 20)
    assert first.err.splitlines() == ["complete: 4/4 partitions", "Processed a total of 20 messages"]
    assert committed(broker, group, *(("four", index) for index in range(4))) == [5, 5, 5, 5]
    again = consume(broker, *args)
    assert (again.status, again.out) == (ExitStatus.OK, "")
    assert again.err.splitlines() == ["complete: 4/4 partitions", "Processed a total of 0 messages"]


@pytest.mark.slow
def test_two_members_share_the_partitions_and_each_reads_its_own_to_the_end(broker: str, group: str) -> None:
    other = started(broker, "--topic", "four", "--group", group, "--from-beginning")
    assert other.stdout is not None
    try:
        assert len([other.stdout.readline() for _ in range(20)]) == 20
        ran = consume(broker, "--topic", "four", "--group", group, "--from-beginning", "--exit-at-end")
        assert ran.status == ExitStatus.OK, ran.err
        # Two of the four are ours; what the other had printed it committed when it gave them up.
        assert ran.err.splitlines() == ["complete: 2/2 partitions", "Processed a total of 0 messages"]
    finally:
        other.send_signal(signal.SIGTERM)
        other.communicate(timeout=30)
    assert other.returncode == ExitStatus.INTERRUPTED


def test_include_reads_the_topics_that_match(broker: str, group: str) -> None:
    ran = consume(broker, "--include", "t.*|fo.*", "--group", group, "--from-beginning", "--exit-at-end")
    assert ran.status == ExitStatus.OK
    assert len(ran.out.split()) == 30
    assert "complete: 5/5 partitions" in ran.err


@pytest.mark.parametrize("with_group", [False, True], ids=["alone", "group"])
def test_internal_topics_match_only_when_they_are_not_excluded(broker: str, group: str, with_group: bool) -> None:
    more = ("--group", group) if with_group else ()
    consume(broker, "--topic", "ten", "--group", f"{group}-first", "--from-beginning", "--exit-at-end")
    args = ("--include", "__cons.*", "--from-beginning", "--exit-at-end", *more)
    assert "No topic matches __cons.*" in consume(broker, *args).err
    ran = consume(broker, *args, "--command-property", "exclude.internal.topics=false", "--formatter", "offsets")
    assert ran.status == ExitStatus.OK, ran.err
    assert f'"group":"{group}-first"' in ran.out


@pytest.mark.slow
def test_record_that_cannot_be_printed_is_not_committed(broker: str, group: str) -> None:
    args = ("--topic", "numbers", "--group", group, "--from-beginning", "--value-deserializer", "LongDeserializer")
    for _ in range(2):
        ran = consume(broker, *args, "--exit-at-end")
        assert ran.status == ExitStatus.FAILED
        assert "Size of data received by LongDeserializer is not 8 (numbers-0 offset 4)" in ran.err
        assert committed(broker, group, ("numbers", 0)) == [4]
    skipped = consume(broker, *args, "--exit-at-end", "--skip-message-on-error")
    assert (skipped.status, skipped.out.split()) == (ExitStatus.FAILED, ["0"])
    assert committed(broker, group, ("numbers", 0)) == [6]


def test_without_auto_commit_nothing_is_committed(broker: str, group: str) -> None:
    args = ("--topic", "ten", "--group", group, "--from-beginning", "--exit-at-end")
    for _ in range(2):
        ran = consume(broker, *args, "--command-property", "enable.auto.commit=false")
        assert len(ran.out.split()) == 10
    assert committed(broker, group, ("ten", 0)) == [None]


def test_partition_by_hand_commits_for_the_group_of_the_property(broker: str, group: str) -> None:
    args = ("--topic", "ten", "--partition", "0", "--offset", "2", "--max-messages", "4")
    ran = consume(broker, *args, "--command-property", f"group.id={group}")
    assert ran.out.split() == ["2", "3", "4", "5"]
    assert committed(broker, group, ("ten", 0)) == [6]


def test_committed_offsets_out_of_range_follow_the_policy(broker: str, group: str) -> None:
    with Consumer(Config(CONSUMER, {"bootstrap.servers": broker, "group.id": group})) as consumer:
        consumer.assign([("ten", 0)])
        consumer.commit_sync({("ten", 0): 99})
    args = ("--topic", "ten", "--group", group, "--exit-at-end")
    failed = consume(broker, *args, "--command-property", "auto.offset.reset=none")
    assert failed.status == ExitStatus.FAILED
    assert "Fetch position {ten-0=99} is out of range" in failed.err
    ran = consume(broker, *args, "--command-property", "auto.offset.reset=earliest")
    assert (ran.status, len(ran.out.split())) == (ExitStatus.OK, 10)
    assert "complete: 1/1 partitions" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_commits_what_was_printed(broker: str, group: str, number: signal.Signals) -> None:
    process = started(broker, "--topic", "four", "--group", group, "--from-beginning")
    assert process.stdout is not None
    assert len([process.stdout.readline() for _ in range(20)]) == 20
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == ExitStatus.INTERRUPTED
    assert err == b"Processed a total of 20 messages\n"
    assert committed(broker, group, *(("four", index) for index in range(4))) == [5, 5, 5, 5]


def test_signal_while_the_pipe_is_full_ends_the_run_and_commits_no_more_than_was_read(broker: str, group: str) -> None:
    process = started(broker, "--topic", "large", "--group", group, "--from-beginning")
    assert process.stdout is not None
    process.stdout.read(1001)
    time.sleep(0.5)  # the pipe is full by now: the writer waits for us
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert process.returncode == ExitStatus.INTERRUPTED
    printed = 1 + process.stdout.read().count(b"\n")
    process.stdout.close()
    with contextlib.closing(process.stderr):  # type: ignore[type-var]
        [offset] = committed(broker, group, ("large", 0))
    assert offset is None or offset <= printed


def test_closed_pipe_commits_no_more_than_was_taken(broker: str, group: str) -> None:
    process = started(broker, "--topic", "large", "--group", group, "--from-beginning")
    assert process.stdout is not None
    process.stdout.read(1001)
    process.stdout.close()
    assert process.wait(30) == ExitStatus.OK
    with contextlib.closing(process.stderr):  # type: ignore[type-var]
        [offset] = committed(broker, group, ("large", 0))
    assert offset in (0, None)


def test_missing_topic_with_a_group_has_no_end(broker: str, group: str) -> None:
    ran = consume(broker, "--topic", "ghost", "--group", group, "--exit-at-end")
    assert ran.status == ExitStatus.FAILED
    assert "Topic ghost does not exist" in ran.err


def test_empty_group_name_is_refused(broker: str) -> None:
    ran = consume(broker, "--topic", "ten", "--group", "")
    assert ran.status == ExitStatus.USAGE
    assert ran.err.startswith("--group is empty: it takes the id of a consumer group")


def test_offsets_of_the_group_are_shown_as_json_lines(broker: str, group: str) -> None:
    consume(broker, "--topic", "ten", "--group", group, "--from-beginning", "--exit-at-end")
    args = ("--topic", "__consumer_offsets", "--from-beginning", "--exit-at-end", "--formatter", "offsets")
    lines = [json.loads(line) for line in consume(broker, *args).out.splitlines()]
    mine = [line for line in lines if line["key"]["data"]["group"] == group]
    assert mine[-1]["key"] == {"type": 1, "data": {"group": group, "topic": "ten", "partition": 0}}
    assert mine[-1]["value"]["data"]["offset"] == 10
    rows = [json.loads(line) for line in consume(broker, *args, "--json").out.splitlines()]
    [row] = [row for row in rows if row["key"] == mine[-1]["key"] and row["value"] == mine[-1]["value"]]
    assert row["topic"] == "__consumer_offsets"
    assert isinstance(row["offset"], int)


def test_unassigned_member_ends_when_nothing_is_given_to_it(
    broker: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkatools.commands.console_consumer import reading

    monkeypatch.setattr(reading, "_EMPTY_ASSIGNMENT_MS", 100)
    stop = threading.Event()
    # Static members come first, whatever their ids: the one partition is theirs.
    settings = {"bootstrap.servers": broker, "group.id": group, "group.instance.id": "a"}

    def hold() -> None:
        with Consumer(Config(CONSUMER, settings)) as consumer:
            consumer.subscribe(["empty"])
            while not stop.is_set():
                consumer.poll_columns(50)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        ran = consume(broker, "--topic", "empty", "--group", group, "--exit-at-end")
        assert ran.err.splitlines()[0] in ("complete: 0/0 partitions", "complete: 1/1 partitions")
        assert ran.status == ExitStatus.OK
    finally:
        stop.set()
        holder.join()
