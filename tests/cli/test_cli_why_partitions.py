"""kt why group: one partition of several, and the deletion of records before they are consumed."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from functools import partial

import pytest
from support.embedded import embedded_broker
from support.live_groups import ClassicMember, GroupClient
from support.raw_transactions import RawProducer
from support.waiting import eventually
from support.why import Between, healthy, make_topic, only_cause, produce

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.offsets import EARLIEST, list_offsets
from kafkatools.core.admin.topics import delete_records
from kafkatools.core.clock import SystemClock

HOUR_MS = 3_600_000
SETTINGS = {
    "group_initial_rebalance_delay_ms": "0",
    "transaction_partition_verification_enable": "false",
    "message_max_bytes": "4000000",
    "log_initial_task_delay_ms": "100",
    "log_retention_check_interval_ms": "200",
    "log_segment_delete_delay_ms": "100",
}
SEGMENT = 1 << 20


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def bootstrap(directory: pathlib.Path) -> Iterator[str]:
    with embedded_broker(directory, **SETTINGS) as address:
        yield address


def log_start(bootstrap: str, topic: str) -> int:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        return list_offsets(admin, {(topic, 0): EARLIEST})[topic, 0].offset


def is_later(than_ms: int) -> bool:
    return SystemClock().wall_ms() > than_ms


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        delete_records(admin, {(topic, 0): offset})


# -- one partition of several --


def test_one_partition_does_not_move(bootstrap: str) -> None:
    make_topic(bootstrap, "one", 3)
    with ClassicMember(bootstrap, "client-one", "one", {"one": (0, 1, 2)}) as member:
        member.commit_own({("one", 0): 2, ("one", 1): 2, ("one", 2): 5})
        clock = Between(lambda: member.commit_own({("one", 0): 5}))
        verdict = only_cause(bootstrap, "group", "one", clock=clock)
    assert verdict["cause"] == "partition-stalled"
    assert (
        verdict["sentence"] == "Group one stays at offset 2 of one-1, where 3 records wait, although it commits one-0"
    )
    assert verdict["evidence"][0].startswith("The next record of one-1, at offset 2, is ")
    assert "client-one at 127.0.0.1: 3 partitions" in verdict["evidence"]
    assert verdict["command"].endswith("--topic one --partition 1 --offset 2 --max-messages 1")


def test_a_member_that_is_behind_elsewhere_is_no_cause(bootstrap: str) -> None:
    make_topic(bootstrap, "busy", 2, records=0)
    produce(bootstrap, "busy", 2, at_ms=SystemClock().wall_ms() - HOUR_MS)
    with ClassicMember(bootstrap, "client", "busy", {"busy": (0, 1)}) as member:
        member.commit_own({("busy", 0): 1, ("busy", 1): 1})
        healthy(bootstrap, "group", "busy", clock=Between(lambda: member.commit_own({("busy", 0): 2})))


@pytest.mark.slow
def test_a_batch_that_is_too_large_holds_one_partition(bootstrap: str) -> None:
    make_topic(bootstrap, "wide", 2, records=1, configs={"max.message.bytes": "4000000"})
    produce(bootstrap, "wide", 2, records=1, value=b"x" * 2_000_000)
    with ClassicMember(bootstrap, "client", "wide", {"wide": (0, 1)}) as member:
        member.commit_own({("wide", 0): 1, ("wide", 1): 1})
        clock = Between(lambda: member.commit_own({("wide", 0): 2}))
        verdict = only_cause(bootstrap, "group", "wide", clock=clock)
    assert verdict["cause"] == "record-too-large" and "offset 1 of wide-1" in verdict["sentence"]
    assert any(text.startswith("Consequence: Group wide stays at offset 1 of wide-1") for text in verdict["evidence"])


def test_a_damaged_batch_holds_one_partition(bootstrap: str, directory: pathlib.Path) -> None:
    make_topic(bootstrap, "flipped", 2, records=0)
    produce(bootstrap, "flipped", 2, records=1, value=b"PAYLOAD")
    log = directory / "flipped-1" / f"{0:020}.log"
    with log.open("r+b") as file:
        file.seek(log.read_bytes().index(b"PAYLOAD"))
        file.write(b"X")
    with ClassicMember(bootstrap, "client", "flipped", {"flipped": (0, 1)}) as member:
        member.commit_own({("flipped", 0): 1, ("flipped", 1): 0})
        verdict = only_cause(bootstrap, "group", "flipped")
    assert verdict["cause"] == "record-undecodable" and "offset 0 of flipped-1" in verdict["sentence"]


def test_offsets_of_markers_are_no_records(bootstrap: str) -> None:
    make_topic(bootstrap, "marked", records=0)
    with RawProducer(bootstrap, "marker", 60_000) as producer:
        producer.send("marked", 0, [SystemClock().wall_ms()])
        producer.end(committed=True)
    with ClassicMember(bootstrap, "client", "marked", {"marked": (0,)}) as member:
        member.commit_own({("marked", 0): 1})
        answer = healthy(bootstrap, "group", "marked")
        member.leave()
    assert answer["lag"]["records"] == 1
    healthy(bootstrap, "group", "marked")


# -- the times of commits --


def test_the_last_commit_is_told(bootstrap: str) -> None:
    make_topic(bootstrap, "told")
    with ClassicMember(bootstrap, "client", "told", {"told": (0,)}) as member:
        member.commit_own({("told", 0): 2})
        verdict = only_cause(bootstrap, "group", "told", clock=Between(later_ms=HOUR_MS))
    assert verdict["cause"] == "consumer-stalled"
    assert verdict["evidence"][-1] == "The last commit was 60 min ago"


@pytest.mark.slow
def test_a_group_that_commits_rarely_is_healthy_until_it_is_late(bootstrap: str) -> None:
    make_topic(bootstrap, "rare", records=9)
    with ClassicMember(bootstrap, "client", "rare", {"rare": (0,)}) as member:
        for offset in (1, 2, 3, 4, 5):
            member.commit_own({("rare", 0): offset})
            eventually(partial(is_later, SystemClock().wall_ms()))
        healthy(bootstrap, "group", "rare", clock=Between(later_ms=-HOUR_MS))
        verdict = only_cause(bootstrap, "group", "rare", clock=Between(later_ms=60_000))
    assert verdict["cause"] == "consumer-stalled"
    assert re.fullmatch("The last commit was 6[0-9] s ago; it commits every [0-9]+ m?s", verdict["evidence"][-1])


# -- deletion --


@pytest.mark.slow
def test_deletion_by_size_passed_the_group(bootstrap: str) -> None:
    limits = {"retention.bytes": str(SEGMENT), "segment.bytes": str(SEGMENT), "retention.ms": "-1"}
    make_topic(bootstrap, "sized", records=1, configs=limits)
    with ClassicMember(bootstrap, "client", "sized", {"sized": (0,)}) as member:
        member.commit_own({("sized", 0): 1})
        for _ in range(8):
            produce(bootstrap, "sized", records=1, value=b"x" * 500_000)
        eventually(lambda: log_start(bootstrap, "sized") > 1)
        verdict = only_cause(bootstrap, "group", "sized")
    assert verdict["cause"] == "retention-passed"
    assert any(text.startswith("Deletion is by retention.bytes 1.0 MiB, the log of") for text in verdict["evidence"]), (
        verdict
    )


def test_size_will_soon_delete(bootstrap: str) -> None:
    limits = {"retention.bytes": str(3 * SEGMENT), "segment.bytes": str(SEGMENT), "retention.ms": "-1"}
    make_topic(bootstrap, "full", records=0, configs=limits)
    for _ in range(7):
        produce(bootstrap, "full", records=1, value=b"x" * 500_000)
    with ClassicMember(bootstrap, "client", "full", {"full": (0,)}) as member:
        member.commit_own({("full", 0): 1})
        verdict = only_cause(bootstrap, "group", "full")
    assert verdict["cause"] == "retention-near" and verdict["sentence"].endswith("full-0 by size")


def test_deleted_records_passed_a_group_that_consumes(bootstrap: str) -> None:
    make_topic(bootstrap, "erased", records=10, configs={"retention.ms": "-1"})
    with ClassicMember(bootstrap, "client", "erased", {"erased": (0,)}) as member:
        member.commit_own({("erased", 0): 2})
        clock = Between(lambda: delete_before(bootstrap, "erased", 6))
        verdict = only_cause(bootstrap, "group", "erased", clock=clock)
    assert verdict["cause"] == "retention-passed" and verdict["sentence"].startswith("4 records of erased-0")
    assert verdict["evidence"][1].startswith("The log start moved from offset 0 to 6 in ")
    assert verdict["evidence"][2].startswith("Neither retention.ms nor retention.bytes is set")


def test_the_log_start_moves_towards_the_committed_offset(bootstrap: str) -> None:
    make_topic(bootstrap, "chased", records=20)
    with ClassicMember(bootstrap, "client", "chased", {"chased": (0,)}) as member, GroupClient(bootstrap):
        member.commit_own({("chased", 0): 8})

        def work() -> None:
            member.commit_own({("chased", 0): 9})
            delete_before(bootstrap, "chased", 6)

        verdict = only_cause(bootstrap, "group", "chased", clock=Between(work))
    assert verdict["cause"] == "retention-near" and verdict["sentence"].endswith("the log start moves towards it")
