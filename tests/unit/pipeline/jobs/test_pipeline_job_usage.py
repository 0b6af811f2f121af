"""What the jobs' commands refuse before Spark is started: one line, exit status 2."""

from __future__ import annotations

import pathlib

import pytest
from support.kt import run_kt

from kafkatools.commands.pipeline.job_source import snake_case
from kafkatools.pipeline.jobs.export import LAYOUTS

REFUSED = {
    ("count",): "Which source? topic:NAME or log:PATH",
    ("count", "parquet:out"): "parquet:out: this takes Kafka's records, topic:NAME or log:PATH",
    ("count", "orders"): "Invalid source 'orders': it must begin with one of topic:",
    ("diff", "log:a"): "What is to be compared? Two sources: topic:NAME or log:PATH",
    ("diff", "log:a", "log:b", "log:c"): "log:c",
    ("diff", "log:a", "log:b", "--compare", "offset"): "--compare takes key, value, timestamp, headers, not offset",
    ("diff", "log:a", "log:b", "--by", "hash"): "--by takes key, offset, multiset, not hash",
    ("top-keys", "log:a", "--by", "size"): "--by takes records, bytes, not size",
    ("diff", "log:a", "log:b", "--right-bootstrap-server", "h:1"): "--right-bootstrap-server is for a topic, not log:b",
    ("check",): "Which log? A log directory, a partition's directory, or a file of one",
    ("export", "log:a"): 'Missing required argument "[to]"',
    ("export", "log:a", "--to", "topic:x"): "topic:x: an export is one of parquet:DIR, json:DIR, csv:DIR",
    ("export", "log:a", "--to", "csv:x", "--partition-by", "month"): "--partition-by takes date, topic",
    ("export", "log:a", "--to", "csv:x", "--round", "0"): "--round takes a number of offsets above 0",
    ("replay", "log:a", "--rate", "fast"): "--rate takes a number of records a second, not fast",
    ("replay", "log:a", "--rate", "0"): "--rate takes a number of records a second, not 0",
    ("replay", "log:a", "--to", "csv:x"): "csv:x: records are replayed to a topic, topic:NAME",
    ("retention-forecast", "topic:orders"): "topic:orders: this is told from the files of a log, log:PATH",
    ("compact-forecast",): "Which log? A directory of partitions",
    ("profile", "log:a"): 'Missing required argument "[out]"',
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_mistakes_are_told_before_anything_is_started(words: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    ran = run_kt("pipeline", *words, cwd=tmp_path)
    assert ran.status == 2 and REFUSED[words] in ran.err.splitlines()[0], ran
    assert ran.out == "" and not list(tmp_path.iterdir())


def test_a_log_that_is_not_there_is_a_failure(tmp_path: pathlib.Path) -> None:
    ran = run_kt("pipeline", "check", "no-such-directory", cwd=tmp_path)
    assert (ran.status, ran.err) == (1, "no-such-directory: there is no such file or directory\n")


def test_a_page_that_cannot_be_written_is_told_first(tmp_path: pathlib.Path) -> None:
    ran = run_kt("pipeline", "profile", "log:a", "--out", "gone/page.html", cwd=tmp_path)
    assert (ran.status, ran.err) == (1, "gone/page.html cannot be written\n")


def test_columns_in_our_json() -> None:
    assert [snake_case(name) for name in ("baseOffset", "p99ToMedian", "key", "waitsFor")] == [
        "base_offset",
        "p99_to_median",
        "key",
        "waits_for",
    ]
    assert LAYOUTS == ("date", "topic")
