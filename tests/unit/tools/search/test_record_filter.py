"""Conditions in SQL over fetched records: what is true for which record, and what a mistake says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.requirements import require

try:
    import duckdb  # noqa: F401
    import pyarrow as pa
except ImportError:
    require("DuckDB is not installed: pip install '.[sql]'")

from kafkatools.core.consumer.completed_fetch import FetchedColumns  # noqa: E402
from kafkatools.core.records.batch import RecordBatch  # noqa: E402
from kafkatools.core.records.builder import BatchBuilder  # noqa: E402
from kafkatools.core.records.columns import RecordColumns  # noqa: E402
from kafkatools.tools.arrow.columns import new_column  # noqa: E402
from kafkatools.tools.search.record_filter import RecordFilter  # noqa: E402
from kafkatools.tools.search.sql import SqlError, names_of, quote_offset, sql_without_quotes  # noqa: E402

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ROWS: list[Row] = [
    (b"a", b'{"user":"ann","amount":5}', [("trace", b"1"), ("trace", b"2")]),
    (None, b'{"user":"bob","amount":50}', []),
    (b"b", None, [("trace", b"1")]),
    (b"\xff", b"no JSON", []),
    (b"c", "{\"user\":\"zoë\"}".encode(), [("other", None)]),
]  # fmt: skip


def fetched(rows: Sequence[Row] = ROWS) -> FetchedColumns:
    builder = BatchBuilder(1 << 20)
    for number, (key, value, headers) in enumerate(rows):
        builder.append(FIRST_MS + 1000 * number, key, value, headers)
    return FetchedColumns("orders", 3, RecordBatch(memoryview(bytes(builder.close()))).columns())


def matches(condition: str) -> list[int]:
    found = RecordFilter(condition)
    try:
        mask = found.mask(fetched())
        assert found.mask(fetched()).tolist() == mask.tolist()  # a filter is used for each fetch
    finally:
        found.close()
    return [row for row, matched in enumerate(mask.tolist()) if matched]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("value->>'user' = 'ann'", [0]),
        ("(value->>'amount')::int > 10", [1]),
        ("json_valid(value) AND value->>'amount' IS NULL", [4]),
        ("value->>'$.user' = 'zoë'", [4]),
        ("value LIKE '%zoë%'", [4]),
        ("value IS NULL", [2]),
        ("key IS NULL OR key = 'a'", [0, 1]),
        ("key = '\ufffd'", [3]),
        ("key_bytes = '\\xFF'::BLOB", [3]),
        ("value_bytes IS NULL", [2]),
        ("offset >= 1 AND offset < 3", [1, 2]),
        ("offset in (0, 4) and not offset = 4", [0]),
        ("partition = 3 and topic = 'orders' and offset % 2 = 0", [0, 2, 4]),
        ("timestamp >= '2026-01-01 00:00:03'", [3, 4]),
        ("timestamp < '2026-01-01 02:00:01+02:00'", [0]),
        ("header(headers, 'trace') = '2'", [0]),
        ("header(headers, 'trace') IS NOT NULL", [0, 2]),
        ("regexp_matches(value, 'a.n|b.b')", [0, 1]),
        ("null", []),
        ("value->>'user' = 'ann' -- a comment", [0]),
    ],
)
def test_a_condition_selects_records(condition: str, rows: list[int]) -> None:
    assert matches(condition) == rows


def test_no_records_give_an_empty_mask() -> None:
    assert RecordFilter("true").mask(fetched()._replace(columns=RecordColumns.empty())).tolist() == []


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("value = ", "the SQL ends too early"),
        ("value->'user' = 'a'", "write (value->'field') in parentheses"),
        ("valeu = 1", 'column 1: Referenced column "valeu" not found in FROM clause!'),
        ("offset = 1 and valeu = 1", 'column 16: Referenced column "valeu"'),
        ("offset = 1\n  and valeu = 1", 'line 2, column 7: Referenced column "valeu"'),
        ("true; select 1", "syntax error at or near"),
        ("value->>'amount' > 3", "required. Keys, values and fields of JSON are text: write (value->>'amount')::INT"),
        ("amount > 3", "A field of a JSON value is value->>'field'"),
        ("value = (select content from read_text('/etc/hostname'))", 'Cannot access file "/etc/hostname"'),
        ("value->>'user' = 'a' and", "the SQL ends too early"),
        ("fetched is null", 'Referenced column "fetched" not found'),
        ("timestamp > 'yesterday'", "invalid timestamp field format"),
        ("key = 'Müller €' or offset = 1 or fetched is null", "column 35: Referenced column"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(condition: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        RecordFilter(condition)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cast_that_fails_on_a_record_is_an_error_of_the_record() -> None:
    found = RecordFilter("value::int = 1")
    with pytest.raises(SqlError, match="Could not convert string"):
        found.mask(fetched())
    with pytest.raises(SqlError, match="Malformed JSON .* Use ->>, which is null"):
        RecordFilter("(value->'user') = '1'").mask(fetched())
    assert RecordFilter("try_cast(value as int) = 1").mask(fetched()).tolist() == [False] * len(ROWS)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("select offset from t limit 2 offset 3", 'select "offset" from t limit 2 offset 3'),
        ("select max(offset), -offset from t", 'select max("offset"), -"offset" from t'),
        ("select t.offset, 'offset' from t order by offset desc offset 2",
         'select t.offset, \'offset\' from t order by "offset" desc offset 2'),
        ('select "offset", offset_of, offset from t offset 1', 'select "offset", offset_of, "offset" from t offset 1'),
        ("select OFFSET+1 from t where offset>1 or not offset<3",
         'select "OFFSET"+1 from t where "offset">1 or not "offset"<3'),
        ("select 'Müller €', offset /* ü */ from t where 'ä' = name and offset > 1 offset 2",
         "select 'Müller €', \"offset\" /* ü */ from t where 'ä' = name and \"offset\" > 1 offset 2"),
    ],
)  # fmt: skip
def test_offset_is_a_column_where_an_expression_begins(text: str, quoted: str) -> None:
    found = quote_offset(text)
    assert found.text == quoted
    assert sql_without_quotes(found) == text
    assert [found.original_position(found.text.index(word)) for word in ("from",)] == [text.index("from")]


def test_names_behind_text_outside_of_ascii() -> None:
    statement = "SELECT offset FROM t WHERE value->>'n' = 'Müller €' /* größe */ AND key_bytes IS NOT NULL"
    assert {"offset", "value", "key_bytes"} <= names_of(statement)
    assert not {"müller", "größe", "n"} & names_of(statement)


@pytest.mark.parametrize("rows", [[b"ab", None, b""], [b"zo", "ë".encode(), None], [b"\xc3", b"\xab", None]])
def test_text_of_a_column_is_decoded_cell_by_cell(rows: list[bytes | None]) -> None:
    builder = new_column("value", pa.string(), "orders", 0)
    columns = fetched([(None, value, []) for value in rows]).columns
    from kafkatools.tools.arrow.columns import Cells, places_of

    assert isinstance(builder, Cells)
    builder.add_places(columns.buffer, places_of(columns, 0, len(rows)), len(rows))
    array = builder.take(len(rows))
    array.validate(full=True)
    assert array.to_pylist() == [None if value is None else value.decode("utf-8", "replace") for value in rows]
