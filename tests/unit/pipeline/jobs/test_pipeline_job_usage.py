"""What the jobs' commands refuse before Spark is started: one line, exit status 2."""

from __future__ import annotations

import pathlib

import pytest
from support.kt import run_kt

from kafkatools.commands.pipeline.job_source import snake_case
from kafkatools.pipeline.jobs.export_state import LAYOUTS

REFUSED = {
    ("count",): "The source is missing: topic:NAME or log:PATH",
    ("count", "parquet:out"): "parquet:out: unsupported source; use topic:NAME or log:PATH",
    ("count", "orders"): "Invalid source 'orders': write topic:orders",
    ("diff", "log:a"): "kt pipeline diff needs two sources, each topic:NAME or log:PATH",
    ("diff", "log:a", "log:b", "log:c"): "log:c",
    ("diff", "log:a", "log:b", "--compare", "offset"): "--compare takes key, value, timestamp, headers, not offset",
    ("diff", "log:a", "log:b", "--by", "hash"): "--by takes key, offset, multiset, not hash",
    ("top-keys", "log:a", "--by", "size"): "--by takes records, bytes, not size",
    (
        "diff",
        "log:a",
        "log:b",
        "--right-bootstrap-server",
        "h:1",
    ): "--right-bootstrap-server needs a topic as second source, not log:b",
    ("check",): "kt pipeline check needs a log directory, a partition directory or a log file",
    ("export", "log:a"): 'Missing required argument "[to]"',
    ("export", "log:a", "--to", "topic:x"): "topic:x: unsupported target; use parquet:DIR, json:DIR, csv:DIR",
    ("export", "log:a", "--to", "console:"): "use parquet:DIR, json:DIR, csv:DIR, delta:PATH, iceberg:TABLE",
    (
        "export",
        "log:a",
        "--to",
        "delta:x",
        "--to-option",
        "replaceWhere=true",
    ): "--to-option replaceWhere: an export only",
    ("export", "log:a", "--to", "iceberg:x", "--to-option", "snapshot-property.kt-round=1"): "marks its commits itself",
    ("export", "log:a", "--to", "csv:x", "--partition-by", "month"): "--partition-by takes date, topic",
    ("export", "log:a", "--to", "csv:x", "--partition-by", "date,date"): "--partition-by names date twice",
    ("export", "log:a", "--to", "csv:x", "--round", "0"): "--round takes a number of offsets above 0, not 0",
    ("replay", "log:a", "--rate", "fast"): "--rate takes records per second, a number above 0, not fast",
    ("replay", "log:a", "--rate", "0"): "--rate takes records per second, a number above 0, not 0",
    ("replay", "log:a", "--to", "csv:x"): "csv:x: replay writes to a topic; use topic:NAME",
    ("retention-forecast", "topic:orders"): "topic:orders: this command reads log files; use log:PATH",
    ("compact-forecast",): "The log is missing: a log directory",
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
    assert (ran.status, ran.err) == (
        1,
        f"Cannot write 'gone/page.html': the directory {tmp_path}/gone does not exist\n",
    )


def test_columns_in_our_json() -> None:
    assert [snake_case(name) for name in ("baseOffset", "p99ToMedian", "key", "waitsFor")] == [
        "base_offset",
        "p99_to_median",
        "key",
        "waits_for",
    ]
    assert LAYOUTS == ("date", "topic")
