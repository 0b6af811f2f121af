"""`diff` in this process; `jobs/diff.py` explains the three ways to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.pipeline.jobs.diff_sides import AS_MULTISET, BY_KEY, BY_OFFSET, CHANGED, ONLY_LEFT, ONLY_RIGHT
from kafkatools.pipeline.jobs.in_process.tables import LocalSource, load, rows_of
from kafkatools.pipeline.jobs.in_process.windows import unequal_windows

if TYPE_CHECKING:
    import duckdb

_ALL = ("key", "value", "topic", "partition", "offset", "timestamp")
_EARLIEST = "TIMESTAMPTZ '-infinity'"


class Difference:
    """The differences of two sources, loaded into the tables `l`, `r` and `differences` of a database."""

    def __init__(
        self, database: duckdb.DuckDBPyConnection, left: LocalSource, right: LocalSource, *, by: str,
        compared: Sequence[str],
    ) -> None:  # fmt: skip
        """Read both sources and compare them. Raises PipelineError."""
        self._database = database
        self.without_key = (0, 0)
        """By key: the records without a key of the left and the right source, which are not compared."""
        has_topics = any(len(source.topics()) > 1 for source in (left, right))
        if by == BY_OFFSET:
            _load_windows(database, left, right, compared, has_topics=has_topics)
        else:
            for name, source in (("l", left), ("r", right)):
                columns = list(dict.fromkeys((*compared, *_ALL)))
                load(database, source, columns, f"CREATE TABLE {name} AS {_side(by, compared)}")
        if by == BY_KEY:
            self.without_key = (_take_without_key(database, "l"), _take_without_key(database, "r"))
        names = {BY_KEY: ["key"], BY_OFFSET: ["partition", "offset"], AS_MULTISET: list(compared)}[by]
        if has_topics:
            names = ["topic", *names]
        payload = [name for name in compared if name not in names]
        database.execute(f"CREATE TABLE differences AS {_compare(names, payload)}")
        self._order = ", ".join(f'"{name}" NULLS FIRST' for name in (*names, "side"))

    def rows(self, limit: int) -> tuple[list[str], list[tuple[object, ...]]]:
        """Return the columns and the first rows, at most `limit`, sorted by the columns that identify a record."""
        return rows_of(self._database, f"SELECT * FROM differences ORDER BY {self._order} LIMIT {limit}")

    def summary(self) -> dict[str, int]:
        """Return the number of surplus records for only-left and only-right, and of changed ones."""
        surplus = 'CASE WHEN side = \'changed\' THEN 1 ELSE abs("leftCount" - "rightCount") END'
        rows = self._database.execute(f"SELECT side, sum({surplus})::BIGINT FROM differences GROUP BY side").fetchall()
        counts = dict(rows)
        return {side: counts.get(side, 0) for side in (ONLY_LEFT, ONLY_RIGHT, CHANGED)}


def _load_windows(
    database: duckdb.DuckDBPyConnection, left: LocalSource, right: LocalSource, compared: Sequence[str], *,
    has_topics: bool,
) -> None:  # fmt: skip
    """Load the stretches of both sources that are not equal row by row into the tables `l` and `r`."""
    import pyarrow as pa

    place = ("topic", "partition", "offset") if has_topics else ("partition", "offset")
    columns = list(dict.fromkeys((*place, *compared)))
    with left.reader(columns) as l_reader, right.reader(columns) as r_reader:
        for name, reader in (("l", l_reader), ("r", r_reader)):
            database.register("input", reader.schema.empty_table())
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM input")
        for window in unequal_windows(iter(l_reader), iter(r_reader), place):
            for name, rows in zip(("l", "r"), window, strict=True):
                if rows is not None:
                    database.register("input", pa.Table.from_batches([rows]))
                    database.execute(f"INSERT INTO {name} SELECT * FROM input")
    database.unregister("input")


def _take_without_key(database: duckdb.DuckDBPyConnection, table: str) -> int:
    """Delete the rows of the records without a key and return the number of these records."""
    rows = database.execute(f"SELECT coalesce(sum(records), 0)::BIGINT FROM {table} WHERE key IS NULL").fetchall()
    database.execute(f"DELETE FROM {table} WHERE key IS NULL")
    return int(rows[0][0])


def _side(by: str, compared: Sequence[str]) -> str:
    """Return the query of one side: all records, or by key the latest value of each key that has one, and a row with
    the number of `records` without a key."""
    if by != BY_KEY:
        names = dict.fromkeys(("topic", *compared))
        return f"SELECT {', '.join(map(_quoted, names))} FROM input"
    payload = ", ".join(f"{name} := {_quoted(name)}" for name in compared if name != "key") or "nothing := 0"
    unpacked = ", ".join(f"payload.{name} AS {_quoted(name)}" for name in compared if name != "key")
    return f"""
        WITH in_partition AS (
            SELECT topic, partition, key, arg_max(struct_pack({payload}), "offset") AS payload,
                   arg_max(struct_pack(t := coalesce(timestamp, {_EARLIEST}), o := "offset"), "offset") AS latest,
                   arg_max(value IS NULL, "offset") AS is_gone, count(*) AS records
            FROM input GROUP BY topic, partition, key
        ), latest AS (
            SELECT topic, key, arg_max(payload, latest) AS payload, arg_max(is_gone, latest) AS is_gone,
                   sum(records) AS records
            FROM in_partition GROUP BY topic, key
        )
        SELECT topic, key{"," if unpacked else ""} {unpacked}, records FROM latest WHERE NOT is_gone OR key IS NULL"""


def _compare(names: Sequence[str], payload: Sequence[str]) -> str:
    content = f"struct_pack({', '.join(f'{name} := {_quoted(name)}' for name in payload)})" if payload else "true"
    identity = ", ".join(map(_quoted, names))
    is_same = '"leftCount" = "rightCount"'
    both = f"""CASE WHEN "leftCount" > "rightCount" THEN '{ONLY_LEFT}' ELSE '{ONLY_RIGHT}' END"""
    shown = ""
    if payload:
        is_same += ' AND "left" IS NOT DISTINCT FROM "right"'
        both, shown = f"'{CHANGED}'", ', "left", "right"'
    return f"""
        WITH both_sides AS (
            SELECT {identity}, {content} AS content, true AS is_left FROM l
            UNION ALL SELECT {identity}, {content}, false FROM r
        ), grouped AS (
            SELECT {identity}, first(content) FILTER (is_left) AS "left",
                   first(content) FILTER (NOT is_left) AS "right",
                   count(*) FILTER (is_left) AS "leftCount", count(*) FILTER (NOT is_left) AS "rightCount"
            FROM both_sides GROUP BY {identity}
        )
        SELECT CASE WHEN "leftCount" = 0 THEN '{ONLY_RIGHT}' WHEN "rightCount" = 0 THEN '{ONLY_LEFT}' ELSE {both} END
                   AS side, {identity}{shown}, "leftCount", "rightCount"
        FROM grouped WHERE NOT ({is_same})"""


def _quoted(name: str) -> str:
    return f'"{name}"'
