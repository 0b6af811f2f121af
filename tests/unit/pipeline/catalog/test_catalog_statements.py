"""Where statements end, and which of them the catalog carries out itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.pipeline.catalog.statements import (
    CreateView,
    DropView,
    Explain,
    Other,
    Query,
    ShowCreate,
    ShowTables,
    Statement,
    Write,
    all_statements,
    command_of,
    quoted,
    split,
    tokens,
    without_semicolon,
)
from kafkatools.pipeline.errors import PipelineError


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ';'",
        'SELECT ";"',
        r"SELECT 'it\'s; fine'",
        r"SELECT r'raw\', `;`",
        "SELECT `a``;`",
        "SELECT 1 -- ; not the end\n + 1",
        "SELECT /* ; /* ; */ ; */ 1",
        "SELECT 'one' 'two;'",
        "SELECT /*+ BROADCAST(a) */ * FROM a",
    ],
)
def test_a_semicolon_inside_of_text_does_not_end_a_statement(text: str) -> None:
    assert split(f"{text};SELECT 2;") == ([Statement(text, 1), Statement("SELECT 2", text.count("\n") + 1)], "")


def test_statements_have_the_number_of_their_first_line() -> None:
    text = "-- the first\nSELECT 1;\n\n\nSELECT\n2 ; ;\n--nothing\n;SELECT 3"
    assert all_statements(text) == [
        Statement("-- the first\nSELECT 1", 1),
        Statement("SELECT\n2", 5),
        Statement("SELECT 3", 8),
    ]
    assert split(text)[1] == "SELECT 3"
    assert all_statements("-- nothing") == all_statements(" ; ;") == []


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SELECT 1", "SELECT 1"),
        (" SELECT 1 ; ; -- end", " SELECT 1 "),
        ("SELECT ';'", "SELECT ';'"),
        ("SELECT 1; SELECT 2;", "SELECT 1; SELECT 2"),
        ("SELECT 1 -- ;", "SELECT 1 -- ;"),
    ],
)
def test_a_statement_without_its_semicolon(text: str, statement: str) -> None:
    assert without_semicolon(text) == statement


@pytest.mark.parametrize("text", ["SELECT 'open; ", "SELECT `open; ", "SELECT /* open; ", "SELECT /* /* */ ; "])
def test_open_text_waits_for_its_end(text: str) -> None:
    assert split(text) == ([], text)


@given(st.text(alphabet="a;'\"`\\/*- \nr", max_size=30))
def test_no_character_is_lost(text: str) -> None:
    ends = [(token.start, token.end) for token in tokens(text)]
    assert all(start < end for start, end in ends) and ends == sorted(ends)
    # Statements and the rest are parts of the text, in its order.
    found, rest = split(text)
    at = 0
    for one in found:
        at = text.index(one.text, at) + len(one.text)
    assert text[at:].endswith(rest)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("SELECT 1", Query()),
        ("  -- why\n(SELECT 1)", Query()),
        ("with x as (select 1) select * from x", Query()),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", Other()),
        ("FROM orders SELECT *", Query()),
        ("VALUES (1)", Query()),
        ("SELECT 'insert'", Query()),
        ("DESCRIBE orders", Other()),
        ("", Other()),
        ("CREATE VIEW v AS SELECT 1", CreateView("v", " AS SELECT 1")),
        ("create or replace view `a.b` (x) AS SELECT 1", CreateView("a.b", " (x) AS SELECT 1", replaces=True)),
        ("CREATE VIEW IF NOT EXISTS v AS SELECT 1", CreateView("v", " AS SELECT 1", keeps=True)),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", Other()),
        ("CREATE TABLE t AS SELECT 1", Write("t")),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS `a.b` (x INT)", Write("a.b")),
        ("CREATE TABLE other.t (x INT)", Other()),
        ("CREATE FUNCTION t AS 'x'", Other()),
        ("DROP VIEW v", DropView("v")),
        ("drop view if exists `v`", DropView("v", if_exists=True)),
        ("DROP VIEW v CASCADE", Other()),
        ("SHOW TABLES", ShowTables()),
        ("show tables like 'ord*'", ShowTables("ord*")),
        ("SHOW TABLES 'ord*'", ShowTables("ord*")),
        ("SHOW VIEWS", ShowTables(only_views=True)),
        ("SHOW TABLES IN other", Other()),
        ("SHOW TABLES LIKE", Other()),
        ("SHOW DATABASES", Other()),
        ("SHOW CREATE TABLE v", ShowCreate("v")),
        ("EXPLAIN SELECT 1", Explain("simple", " SELECT 1")),
        ("EXPLAIN FORMATTED SELECT 1", Explain("formatted", " SELECT 1")),
        ("EXPLAIN INSERT INTO t SELECT 1", Other()),
        ("INSERT INTO orders SELECT 1", Write("orders")),
        ("INSERT OVERWRITE TABLE orders SELECT 1", Write("orders")),
        ("DELETE FROM `a.b`", Write("a.b")),
        ("UPDATE orders SET x = 1", Write("orders")),
        ("DROP TABLE IF EXISTS orders", Write("orders")),
        ("DROP TABLE other.orders", Other()),
    ],
)
def test_kinds_of_statements(text: str, command: object) -> None:
    assert command_of(text) == command


def test_a_view_with_a_schema_is_refused() -> None:
    for text in ("CREATE VIEW a.b AS SELECT 1", "DROP VIEW a.b"):
        with pytest.raises(PipelineError, match="cannot have a schema"):
            command_of(text)


@given(st.text(min_size=1, max_size=10))
def test_a_quoted_name_is_one_token(name: str) -> None:
    (token,) = tokens(quoted(name))
    assert token.is_name and token.name == name
