"""The checks of a rehearsal find what they are there for."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest
from support.chaos import Worker
from support.chaos_checks import (
    Line,
    check_commits,
    check_copies,
    check_java_values,
    check_keyed,
    check_members,
    check_numbered,
    check_topics,
)
from support.waiting import eventually

from kafkatools.core.consumer.consumer_records import ConsumerRecord
from kafkatools.core.protocol.schemas.offsets import OffsetCommitKey, OffsetCommitValue, encode_record
from kafkatools.core.records.columns import TimestampType


def records(*values: Any, keys: Any = None, headers: Any = ()) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, keys and keys[offset], value, headers)
        for offset, value in enumerate(values)
    ]


def line(event: str, *words: int | str, time_ns: int = 0, name: str = "w") -> Line:
    return Line(event, name, 0, [str(word) for word in words], time_ns)


ACKED = [line("acked", 0, 0, 0), line("acked", 0, 1, 1), line("done", 0, 2)]


@pytest.mark.parametrize(
    ("values", "lines", "is_sound"),
    [
        ((b"w 0 0 ", b"w 0 1 "), ACKED, True),
        ((b"w 0 0 ",), ACKED, False),
        ((b"w 0 0 ", b"w 0 1 ", b"w 0 1 "), ACKED, False),
        ((b"w 0 1 ", b"w 0 0 "), ACKED, False),
        ((b"w 0 0 ", b"w 0 1 ", b"w 0 2 "), [*ACKED, line("acked", 0, 2, 3)], False),
        ((b"w 0 0 ", b"w 0 1 "), [*ACKED, line("failed", 0, 2, "Timeout")], False),
    ],
    ids=["sound", "lost", "doubled", "order", "offset", "failed"],
)
def test_numbers(values: tuple[bytes, ...], lines: list[Line], is_sound: bool) -> None:
    problems, _ = check_numbered(lines, [records(*values)])
    assert (problems == []) is is_sound


@pytest.mark.parametrize("copied", [(b"a",), (b"a", b"b", b"b"), (b"b", b"a"), (b"a", b"b", b"c")])
def test_copies(copied: tuple[bytes, ...]) -> None:
    assert check_copies("c", [records(b"a", b"b")], [records(b"a", b"b")]) == []
    assert len(check_copies("c", [records(b"a", b"b")], [records(*copied)])) == 1


@pytest.mark.parametrize(
    ("versions", "acked", "is_sound"),
    [
        ([0, 1, 2], ("value", 2), True),
        ([0, 2], ("value", 2), True),
        ([0, 1], ("value", 2), False),
        ([], ("value", 2), False),
        ([], ("tombstone", 2), True),
        ([], ("deleting", 3), True),
        ([0, 1], ("tombstone", 2), False),
        ([0, 2, 1], ("value", 2), False),
    ],
)
def test_versions_of_keys(versions: list[int], acked: tuple[str, int], is_sound: bool) -> None:
    found = [
        each._replace(headers=(("version", b"%d" % version),))
        for each, version in zip(
            records(*(b"%d ." % version for version in versions), keys=[b"w.0.7"] * 3), versions, strict=True
        )
    ]
    lines = [line("value", 7, 2)] if acked[0] == "value" else [line("value", 7, 1), line("deleting", 7, acked[1])]
    lines += [line(acked[0], 7, acked[1])] if acked[0] == "tombstone" else []
    assert (check_keyed(lines, [found]) == []) is is_sound


READ = [line("assigned", 0, 0), line("read", 0, 0, 5, time_ns=2), line("committed", 0, 5, time_ns=3)]
AGAIN = line("assigned", 0, 0, name="v", time_ns=4)


@pytest.mark.parametrize(
    ("more", "is_sound"),
    [
        ([line("read", 0, 5, 9, time_ns=4)], True),
        ([AGAIN, line("read", 0, 5, 9, name="v", time_ns=5)], True),
        ([AGAIN, line("read", 0, 3, 9, name="v", time_ns=5)], False),
        ([line("read", 0, 6, 9, time_ns=4)], False),
        ([line("read", 0, 5, 8, time_ns=4)], False),
    ],
    ids=["sound", "handed over", "before the commit", "hole", "not to the end"],
)
def test_members(more: list[Line], is_sound: bool) -> None:
    assert (check_members([*READ, *more], [9]) == []) is is_sound


def test_commits() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    values = [OffsetCommitValue(offset=n, metadata="", commit_timestamp=0, version=3) for n in (4, 9, 7)]
    pairs = [encode_record(key, value) for value in values]
    found = records(*(value for _, value in pairs), keys=[key for key, _ in pairs])
    confirmed = {"g": [line("committed", 0, 9)]}
    assert check_commits([found[:2]], confirmed) == []
    assert len(check_commits([found[:1]], confirmed)) == 1
    assert len(check_commits([found], {})) == 1


def test_java_values() -> None:
    told = [{"name": "producer_send_success", "value": "0.1", "partition": 0, "offset": 1}]
    assert check_java_values(told, [records(b"0.0", b"0.1")]) == []
    assert len(check_java_values(told, [records(b"0.0")])) == 1
    assert len(check_java_values(told, [records(b"0.0", b"0.1", b"0.1")])) == 2
    told.append({"name": "producer_send_success", "value": "0.3", "partition": 0, "offset": 0})
    assert len(check_java_values(told, [records(b"0.3", b"0.1")])) == 1, "both were acknowledged"
    told = [{"name": "producer_send_success", "value": "0.3", "partition": 0, "offset": 0}]
    assert check_java_values(told, [records(b"0.3", b"0.1")]) == [], "0.1 was not"


def test_topics() -> None:
    lines = [line("created", "a"), line("created", "b"), line("deleted", "b"), line("deleting", "c")]
    assert check_topics(lines, ["a", "c"]) == []
    assert check_topics(lines, ["b"]) == ["a is not there", "b is there again"]


@pytest.mark.parametrize(
    ("on_sigterm", "problem"), [("SIG_DFL", None), ("SIG_IGN", "did not end within"), ("exits(3)", "ended with 3")]
)
def test_how_a_worker_ends(tmp_path: pathlib.Path, on_sigterm: str, problem: str | None) -> None:
    script = "import signal, sys, time\ndef exits(status): return lambda *_: sys.exit(status)\n"
    handler = on_sigterm if on_sigterm.startswith("exits") else f"signal.{on_sigterm}"
    script += f"signal.signal(signal.SIGTERM, {handler})\nprint('ready', flush=True)\ntime.sleep(60)"
    worker = Worker("it", tmp_path, lambda run: [sys.executable, "-c", script])
    worker.start()
    eventually(lambda: "ready" in worker.log.read_text())
    worker.finish(0.2 if on_sigterm == "SIG_IGN" else 30)
    assert not worker.is_running
    if problem is None:
        assert worker.problems == []
    else:
        assert len(worker.problems) == 1 and problem in worker.problems[0]
