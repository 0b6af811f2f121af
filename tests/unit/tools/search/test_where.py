"""--where selects the records for which a condition is true; records that it fails on are counted and end nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.requirements import require

try:
    import duckdb  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError:
    require("DuckDB is not installed: pip install '.[sql]'")

from kafkatools.core.consumer.completed_fetch import FetchedColumns  # noqa: E402
from kafkatools.core.records.batch import RecordBatch  # noqa: E402
from kafkatools.core.records.builder import BatchBuilder  # noqa: E402
from kafkatools.exit_status import CommandError  # noqa: E402
from kafkatools.tools.search.sql import SqlError  # noqa: E402
from kafkatools.tools.search.where import Where  # noqa: E402


def fetched(values: Sequence[bytes | None]) -> FetchedColumns:
    builder = BatchBuilder(1 << 20)
    for number, value in enumerate(values):
        builder.append(number, b"k%d" % number, value, ())
    return FetchedColumns("orders", 0, RecordBatch(memoryview(bytes(builder.close()))).columns())


VALUES = [b'{"user":"ann","n":"7"}', b"plain text", None, b'{"user":"bob"}', b"\xff\x00", b'{"user":"ann","n":"x"}']


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "rows", "notes"),
    [
        ("value->>'user' = 'ann'", [0, 5], ["2 values are not JSON"]),
        ("value->>'user' IS NULL AND value IS NOT NULL", [1, 4], []),
        ("key = 'k3'", [3], []),
        ("(value->>'n')::int = 7", [0], ["2 values are not JSON", "failed on 1 records"]),
        ("cast(substr(key, 2) AS int) >= 4", [4, 5], []),
        ("cast(value AS int) > 1", [], ["failed on 5 records"]),
        ("json_extract_string(value, '$.user') = 'bob'", [3], ["2 values are not JSON", "failed on 2 records"]),
    ],
)
def test_what_cannot_be_compared_is_counted(condition: str, rows: list[int], notes: list[str]) -> None:
    where = Where(condition)
    assert list(where.rows(fetched(VALUES))) == rows
    assert len(where.notes()) == len(notes)
    for line, part in zip(where.notes(), notes, strict=True):
        assert part in line
    # sound records behind the others are still compared, and counts go on
    assert list(where.rows(fetched(VALUES[:1] * 2))) == ([0, 1] if rows[:1] == [0] else [])
    assert list(where.rows(fetched(VALUES))) == rows


@pytest.mark.parametrize("condition", ["count(*) > 1", "", "usr = 'ann'", "value = ", "true; select 1"])
def test_what_is_no_condition_is_refused_before_any_record(condition: str) -> None:
    with pytest.raises(SqlError):
        Where(condition)


def test_a_condition_that_is_a_text_is_refused_with_its_type() -> None:
    with pytest.raises(SqlError, match="a condition is true or false, not VARCHAR"):
        Where("value")


def test_a_failing_condition_that_cannot_be_tried_ends_the_run_with_a_line() -> None:
    where = Where("cast(value AS int) + random() > 1")
    with pytest.raises(CommandError, match="--where failed on a record of orders-0 at or after offset 0: .*convert"):
        where.rows(fetched(VALUES))
