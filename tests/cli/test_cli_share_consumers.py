"""kt console-share-consumer, share-consumer-perf-test and verifiable-share-consumer: lines, events and options.

The lines of the first two tests are those of Apache Kafka 4.3.1's tools for the same calls and records.
"""

from __future__ import annotations

import json
import pathlib
import re
import signal
from collections.abc import Iterator

import pytest
from support.embedded import QUICK_HEARTBEATS, embedded_broker
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.waiting import eventually

import kafkatools
from kafkatools.exit_status import ExitStatus

PARTS = [
    f"--formatter-property=print.{part}=true" for part in ("key", "delivery", "epoch", "partition", "offset")
]  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("share-tools"), num_partitions="1", **QUICK_HEARTBEATS) as bootstrap:
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(["rec", "live"])
            for group in ("g", "longs", "json", "perf", "stopped"):
                admin.alter_configs({("group", group): {"share.auto.offset.reset": "earliest"}})
        with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
            producer.send_many("rec", [b"v1", b"v2", b"v3"], keys=[b"k1", b"k2", b"k3"]).result()
        yield bootstrap


def console(broker: str, *words: str) -> Ran:
    return run_kt("console-share-consumer", "--bootstrap-server", broker, "--topic", "rec", *words)


def test_records_are_printed_with_their_delivery_count_and_acknowledged(broker: str) -> None:
    words = ("--group", "g", *PARTS, "--timeout-ms", "20000")
    released = console(broker, *words, "--max-messages", "2", "--release")
    assert released.out.splitlines() == [
        "Partition:0\tOffset:0\tDelivery:1\tEpoch:NOT_PRESENT\tk1\tv1",
        "Partition:0\tOffset:1\tDelivery:1\tEpoch:NOT_PRESENT\tk2\tv2",
    ]
    assert (released.status, released.err) == (ExitStatus.OK, "Processed a total of 2 messages\n")
    rejected = console(broker, *words, "--max-messages", "2", "--reject", "--enable-systest-events")
    assert rejected.out.splitlines() == [
        "Partition:0\tOffset:0\tDelivery:2\tEpoch:NOT_PRESENT\tk1\tv1",
        "Partition:0\tOffset:1\tDelivery:2\tEpoch:NOT_PRESENT\tk2\tv2",
        "shutdown_complete",
    ]
    rest = console(broker, *words, "--max-messages", "1")
    assert rest.out == "Partition:0\tOffset:2\tDelivery:3\tEpoch:NOT_PRESENT\tk3\tv3\n"
    nothing = console(broker, "--timeout-ms", "500")
    assert (nothing.status, nothing.out, nothing.err) == (ExitStatus.OK, "", "Processed a total of 0 messages\n")


def test_events_of_the_verifiable_share_consumer(broker: str) -> None:
    words = ("--topic", "rec", "--max-messages", "3", "--offset-reset-strategy", "earliest")
    for mode, group in (("sync", "v1"), ("async", "v2"), ("auto", "v3")):
        ran = run_kt(
            "verifiable-share-consumer", "--bootstrap-server", broker, *words, "--group-id", group,
            "--acknowledgement-mode", mode,
        )  # fmt: skip
        assert ran.status == ExitStatus.OK
        assert re.sub(r'"timestamp":\d+', '"timestamp":0', ran.out).splitlines() == [
            '{"timestamp":0,"name":"startup_complete"}',
            '{"timestamp":0,"name":"offset_reset_strategy_set","offsetResetStrategy":"earliest"}',
            '{"timestamp":0,"name":"records_consumed","count":3,'
            '"partitions":[{"topic":"rec","partition":0,"count":3,"offsets":[0,1,2]}]}',
            '{"timestamp":0,"name":"offsets_acknowledged","count":3,'
            '"partitions":[{"topic":"rec","partition":0,"count":3,"offsets":[0,1,2]}],"success":true}',
            '{"timestamp":0,"name":"shutdown_complete"}',
        ]


def test_json_lines_go_through_the_producer(broker: str) -> None:
    ran = console(broker, "--group", "json", "--max-messages", "1", "--json")
    record = json.loads(ran.out)
    assert (record["key"], record["value"], record["delivery_count"]) == ("k1", "v1", 1)
    sent = run_kt("console-producer", "--bootstrap-server", broker, "--topic", "live", "--json", stdin=ran.out.encode())
    assert json.loads(sent.out) == {"sent": 1, "failed": 0}


def test_records_that_cannot_be_printed_end_the_run_or_are_rejected(broker: str) -> None:
    words = ("--group", "longs", "--value-deserializer", "LongDeserializer", "--timeout-ms", "20000")
    ended = console(broker, *words)
    assert ended.status == ExitStatus.FAILED and "(rec-0 offset 0)" in ended.err
    rejected = console(broker, *words, "--reject-message-on-error", "--max-messages", "3")
    assert rejected.status == ExitStatus.FAILED and rejected.err.count("rejecting this message") == 3
    assert console(broker, "--group", "longs", "--timeout-ms", "500").out == ""


def test_throughput_of_a_group(broker: str) -> None:
    words = ("--topic", "rec", "--group", "perf", "--threads", "2", "--show-consumer-stats")
    ran = run_kt("share-consumer-perf-test", "--bootstrap-server", broker, *words, "--num-records", "3")
    header, *members, total = ran.out.splitlines()
    assert ran.status == ExitStatus.OK
    assert header == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
    )
    assert [line.split("- ")[0] for line in members] == [
        f"Share consumer {number} consumption metrics" for number in (1, 2)
    ]
    assert sum(int(line.split(", ")[5]) for line in members) == 3 and total.split(", ")[5] == "3"
    late = run_kt(
        "share-consumer-perf-test", "--bootstrap-server", broker, *words, "--num-records", "1", "--timeout", "500"
    )
    assert late.status == ExitStatus.FAILED and "timeout (500 ms) exceeded" in late.err


def test_a_signal_acknowledges_what_was_printed(broker: str, tmp_path: pathlib.Path) -> None:
    words = ("--bootstrap-server", broker, "--topic", "rec", "--group", "stopped")
    process = start_kt(tmp_path, "console-share-consumer", *words)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == [b"v1\n", b"v2\n", b"v3\n"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == ExitStatus.INTERRUPTED
    with kafkatools.Admin(bootstrap_servers=broker) as admin:
        eventually(lambda: admin.share_group_offsets("stopped")["rec", 0].lag == 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("console-share-consumer",), "--topic is a required argument"),
        (
            ("console-share-consumer", "--topic", "t", "--release", "--reject"),
            "At most one of --reject and --release may be specified.",
        ),
        (
            ("console-share-consumer", "--topic", "t", "--group", "a", "--command-property", "group.id=b"),
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            "'--consumer-config') do not match. Detected group ids: 'a', 'b'",
        ),
        (
            ("console-share-consumer", "--topic", "t", "--group", ""),
            "--group is empty: it takes the id of a share group",
        ),
        (
            ("console-share-consumer", "--topic", "t", "--command-property", "auto.offset.reset=earliest"),
            "auto.offset.reset cannot be set when using a share group.",
        ),
        (("console-share-consumer", "--topic", " "), "--topic is empty: it takes the name of a topic"),
        (("share-consumer-perf-test", "--topic", "", "--num-records", "1"), "--topic is empty"),
        (("verifiable-share-consumer", "--topic", "", "--group-id", "g"), "--topic is empty"),
        (("share-consumer-perf-test", "--num-records", "1"), 'Missing required argument "[topic]"'),
        (
            ("share-consumer-perf-test", "--topic", "t", "--num-records", "3", "--messages", "3"),
            "Exactly one of the following arguments is required: [messages], [num-records]",
        ),
        (
            ("share-consumer-perf-test", "--topic", "t", "--num-records", "3", "--threads", "0"),
            "--threads must be greater than 0",
        ),
        (
            ("verifiable-share-consumer", "--topic", "t", "--group-id", "g", "--acknowledgement-mode", "no"),
            "--acknowledgement-mode must be auto, sync or async, not no",
        ),
        (
            ("verifiable-share-consumer", "--topic", "t", "--group-id", "g", "--offset-reset-strategy", "no"),
            "--offset-reset-strategy must be earliest or latest, not no",
        ),
    ],
)
def test_contradictory_options_are_refused(broker: str, words: tuple[str, ...], message: str) -> None:
    ran = run_kt(words[0], "--bootstrap-server", broker, *words[1:])
    assert ran.status == ExitStatus.USAGE and message in ran.err


def test_a_missing_topic_is_an_error_after_the_time_out(broker: str) -> None:
    ran = run_kt(
        "console-share-consumer", "--bootstrap-server", broker, "--topic", "ghost", "--timeout-ms", "1000"
    )  # fmt: skip
    assert ran.status == ExitStatus.FAILED and "Topic ghost does not exist" in ran.err
