"""kt count, kt top-keys and kt diff in this process: wrong numbers and wrong names."""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import pytest
from support import recorded_segments
from support.embedded import embedded_broker
from support.kt import run_kt

pytest.importorskip("duckdb")


@pytest.fixture
def sound(tmp_path: pathlib.Path) -> pathlib.Path:
    directory = tmp_path / "sound-0"
    shutil.copytree(recorded_segments.log_directory("multi-segment"), directory)
    return directory


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("diff", "log:{}", "log:{}", "--limit", "-1"), "--limit -1 must be at least 0"),
        (("top-keys", "log:{}", "--top", "-3"), "--top -3 must be at least 0"),
        (("topic-profile", "log:{}", "--out", "x.html", "--top", "-3"), "--top -3 must be at least 0"),
    ],
)
def test_a_negative_number_of_rows_is_refused(words: tuple[str, ...], message: str, sound: pathlib.Path) -> None:
    ran = run_kt(*(word.format(sound) for word in words))
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_a_second_source_that_is_no_topic_is_refused_before_the_first_is_opened(tmp_path: pathlib.Path) -> None:
    ran = run_kt("diff", f"log:{tmp_path}/absent", "log:b", "--right-bootstrap-server", "127.0.0.1:1")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("--right-bootstrap-server needs a topic as second source, not log:b\n")


@pytest.mark.slow
def test_partitions_without_records_are_counted_as_0(tmp_path: pathlib.Path) -> None:
    for partition in (0, 10, 9):
        (tmp_path / f"t-{partition}").mkdir()
        (tmp_path / f"t-{partition}" / f"{0:020d}.log").touch()
    with embedded_broker(tmp_path / "data") as bootstrap:
        server = ("--bootstrap-server", bootstrap)
        assert run_kt("topics", *server, "--create", "--topic", "t", "--partitions", "2").status == 0
        for words, partitions, basis in (
            (("topic:t", *server, "--exact"), [0, 1], "records"),
            (("topic:t", *server, "--exact", "--no-keys"), [0, 1], "records"),
            ((f"log:{tmp_path}",), [0, 9, 10], "headers"),
        ):
            rows = [json.loads(line) for line in run_kt("count", *words, "--json").out.splitlines()]
            assert [(row["partition"], row["records"], row["basis"]) for row in rows] == [
                (partition, 0, basis) for partition in partitions
            ]
            assert {row["first_offset"] for row in rows} == {None}
            assert {row["bytes"] for row in rows} == {0 if basis == "headers" else None}


def test_a_page_of_stored_batches_says_so(sound: pathlib.Path, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.html"
    ran = run_kt("topic-profile", f"log:{sound}", "--out", str(page), "--json")
    assert ran.status == 0, ran
    (partition,) = (row for row in map(json.loads, ran.out.splitlines()) if row["type"] == "partition")
    stored = sum(file.stat().st_size for file in sound.glob("*.log"))
    assert (partition["size_basis"], partition["size_bytes"], partition["stored_bytes"]) == ("batches", stored, stored)
    assert "Bytes of the batches as stored, compressed." in page.read_text()


def test_a_page_that_cannot_be_written_is_named_first(sound: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for path, problem in (
        (tmp_path, "--out names the file of the page, not a directory"),
        (tmp_path / "absent" / "x.html", f"the directory {tmp_path / 'absent'} does not exist"),
    ):
        ran = run_kt("topic-profile", f"log:{sound}", "--out", str(path))
        assert (ran.status, ran.err) == (1, f"Cannot write '{path}': {problem}\n")
    ran = run_kt("topic-profile", f"log:{sound}", "--out", "")
    assert (ran.status, ran.err) == (1, "--out is empty: it names the file of the page\n")


def test_a_directory_without_permission_is_not_called_read_only(
    sound: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superuser may write everywhere, so the answers of the system are changed."""
    status = os.statvfs(tmp_path)
    read_only = os.statvfs_result((*status[:8], status.f_flag | os.ST_RDONLY, status.f_namemax))
    monkeypatch.setattr(os, "access", lambda path, mode: not (mode & os.W_OK and str(path) == str(tmp_path)))
    words = ("topic-profile", f"log:{sound}", "--out", str(tmp_path / "x.html"))
    for flags, problem in (
        (status, "does not permit you to create files"),
        (read_only, "is on a read-only file system"),
    ):
        monkeypatch.setattr(os, "statvfs", lambda path, flags=flags: flags)
        ran = run_kt(*words)
        assert (ran.status, ran.err) == (1, f"Cannot write '{tmp_path}/x.html': the directory {tmp_path} {problem}\n")


def test_one_partition_is_singular(sound: pathlib.Path) -> None:
    assert run_kt("count", f"log:{sound}").err.startswith("1 partition, records ")


@pytest.mark.parametrize("command", ["count", "top-keys"])
def test_a_directory_name_that_is_not_utf8_is_refused(command: str, sound: pathlib.Path) -> None:
    os.rename(os.fsencode(sound), os.fsencode(sound.parent) + b"/x\xff-0")
    ran = run_kt(command, f"log:{sound.parent}")
    assert ran.status == 1
    assert b"x\xff-0: the name of the directory is not UTF-8, so it is no partition of a topic" in ran.stderr


@pytest.mark.slow
def test_records_without_a_key_do_not_count_as_the_same(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        server = ("--bootstrap-server", bootstrap)
        keys = ("--reader-property", "parse.key=true", "--reader-property", "null.marker=NULL")
        for topic, lines in (("left", b"k\t1\nNULL\t7\nNULL\t8\n"), ("right", b"k\t1\n")):
            assert run_kt("topics", *server, "--create", "--topic", topic).status == 0
            assert run_kt("console-producer", *server, "--topic", topic, *keys, stdin=lines).status == 0
        sides = ("diff", "topic:left", "topic:right", *server)
        by_key = run_kt(*sides)
        assert (by_key.status, by_key.out) == (1, "")
        assert by_key.err == (
            "Records without a key were not compared: 2 of the left source, 0 of the right source."
            " To compare them: --by multiset, or --by offset\n0 only-left, 0 only-right, 0 changed\n"
        )
        in_json = run_kt(*sides, "--json")
        counts = {"only_left": 0, "only_right": 0, "changed": 0, "left_not_compared": 2, "right_not_compared": 0}
        assert json.loads(in_json.out) == {"type": "summary", **counts}
        error = json.loads(in_json.err)["error"]
        assert (error["kind"], error["left"], error["right"]) == ("NOT_COMPARED", 2, 0)
        assert run_kt(*sides, "--by", "multiset").status == 3


@pytest.mark.slow
def test_without_keys_there_is_no_skew_of_keys(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.html"
    with embedded_broker(tmp_path / "data") as bootstrap:
        server = ("--bootstrap-server", bootstrap)
        assert run_kt("topics", *server, "--create", "--topic", "keyless").status == 0
        assert run_kt("console-producer", *server, "--topic", "keyless", stdin=b"1\n2\n").status == 0
        rows = [json.loads(row) for row in run_kt("top-keys", "topic:keyless", *server, "--json").out.splitlines()]
        assert run_kt("topic-profile", "topic:keyless", *server, "--out", str(page)).status == 0
    (skew,) = (row for row in rows if row["type"] == "key_skew")
    measures = dict.fromkeys(("largest_share", "median", "p99", "p99_to_median", "gini"))
    assert skew == {"type": "key_skew", "distinct_keys": 0, "records": 2, "without_key": 2, **measures}
    assert "0 different keys in 2 records (2 without a key)." in page.read_text()
    assert "Gini" not in page.read_text()
