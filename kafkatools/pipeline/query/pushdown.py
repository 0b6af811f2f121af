"""What a query uses of each table of records: columns, and bounds on topic, partition, offset and timestamp.

Both come from DuckDB's optimized plan over empty tables of the same names and types. DuckDB applies all filters to the
rows itself, so a bound that is missed costs time only. The plan's JSON is not a documented format: anything that does
not look as expected means all columns and no bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kafkatools.pipeline.sources.record_bounds import EPOCH, RecordBounds, compare

if TYPE_CHECKING:
    import duckdb

SETTING = "SET disabled_optimizers='statistics_propagation'"
"""While a statement is planned: the optimizer must not conclude from the empty tables that there are no rows."""

RESET = "RESET disabled_optimizers"

_PLAN = "SELECT json_serialize_plan(?::VARCHAR, skip_null := true, skip_empty := true, optimize := true)"
_OPERATORS = {
    "COMPARE_EQUAL": "EqualTo",
    "COMPARE_GREATERTHAN": "GreaterThan",
    "COMPARE_GREATERTHANOREQUALTO": "GreaterThanOrEqual",
    "COMPARE_LESSTHAN": "LessThan",
    "COMPARE_LESSTHANOREQUALTO": "LessThanOrEqual",
}
_Node = Mapping[str, Any]


@dataclass(frozen=True)
class TableNeeds:
    """The columns that a query uses of a table, and the bounds of the rows that it can use."""

    columns: frozenset[str]
    bounds: RecordBounds = RecordBounds()


def needs_of(
    connection: duckdb.DuckDBPyConnection, statement: str, tables: Mapping[str, Sequence[str]]
) -> dict[str, TableNeeds]:
    """Return what a statement needs of each table. `tables` are the columns of the tables, which are empty tables of
    the connection."""
    everything = {name: TableNeeds(frozenset(columns)) for name, columns in tables.items()}
    row = connection.execute(_PLAN, [statement]).fetchone()
    needs: dict[str, list[TableNeeds]] = {}
    try:
        plan = json.loads(row[0]) if row is not None else {}  # DuckDB writes NaN and infinity as words
        for scan in _scans(plan):
            needs.setdefault(str(scan["function_data"]["table"]), []).append(_needs(scan))
    except (KeyError, TypeError, IndexError, ValueError, OverflowError):
        return everything
    return everything | {name: _together(found) for name, found in needs.items() if name in tables}


def _together(scans: Sequence[TableNeeds]) -> TableNeeds:
    """Return the needs of a table that several parts of a statement read, once for all of them."""
    if len(scans) == 1:
        return scans[0]
    return TableNeeds(frozenset().union(*(scan.columns for scan in scans)))


def _scans(node: object) -> Iterator[_Node]:
    """Yield the scans of tables in a plan."""
    if isinstance(node, dict):
        if node.get("type") == "LOGICAL_GET" and "table" in node.get("function_data", {}):
            yield node
        for child in node.values():
            yield from _scans(child)
    elif isinstance(node, list):
        for child in node:
            yield from _scans(child)


def _needs(scan: _Node) -> TableNeeds:
    names: list[str] = scan["names"]
    indexes = [int(column["index"]) for column in scan.get("column_indexes", ())]
    columns = [names[index] if index < len(names) else "" for index in indexes]  # row ids have a higher index
    bounds = RecordBounds()
    for entry in scan.get("table_filters", {}).get("filters", ()):
        bounds = bounds.within(_bounds(columns[int(entry["key"])], entry["value"]))
    return TableNeeds(frozenset(columns) - {""}, bounds)


def _bounds(column: str, condition: _Node) -> RecordBounds:
    """Return the bounds that a filter of one column implies; unrestricted bounds if none."""
    kind = str(condition["filter_type"]).removeprefix("LEGACY_")
    bounds = RecordBounds()
    if kind == "CONJUNCTION_AND":
        for child in condition["child_filters"]:
            bounds = bounds.within(_bounds(column, child))
    elif kind == "CONSTANT_COMPARISON" and condition["comparison_type"] in _OPERATORS:
        operator = _OPERATORS[condition["comparison_type"]]
        bounds = _narrowed(column, operator, _constant(condition["constant"]))
    elif kind == "IN_FILTER":
        bounds = _narrowed(column, "In", [_constant(value) for value in condition["values"]])
    return bounds


def _narrowed(column: str, operator: str, value: object) -> RecordBounds:
    narrowed = compare(column, operator, value)
    return RecordBounds() if narrowed is None else narrowed[0]


def _constant(constant: _Node) -> object:
    """Convert a constant of the plan to the value that Spark would have for the column."""
    value, kind = constant.get("value"), constant["type"]["id"]
    if kind == "TIMESTAMP WITH TIME ZONE" and isinstance(value, int):
        return EPOCH + timedelta(microseconds=value)
    return value
