"""Column pruning from Spark's optimized plan, so that a query reads only the Kafka columns that it uses.

Spark prunes the columns of a Python data source only after the source has built all of them. The sources here build
only the columns of the requested schema, so a query is planned twice: over all columns, whose plan shows which are
used, then over those columns only. The second query may mean something else (a name may resolve differently, a star
selects fewer columns). It is used only if its plan equals the first plan to the letter. PySpark 4.0 pushes no filters
into Python sources either. They are read from the plan and passed to the source as bounds; Spark still applies the
filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.record_bounds import EPOCH, RecordBounds, compare

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

SOURCES = ("kafka-log", "kt")
_SETTINGS = {
    "spark.sql.python.filterPushdown.enabled": "false",
    "spark.sql.debug.maxToStringFields": "100000",
    "spark.sql.maxMetadataStringLength": "100000",
}
"""Settings while plans are compared: no filter moves into a source, and the text of a plan is complete."""

_FLIPPED_OPERATORS = {
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
}
_THROUGH = frozenset(
    (
        "Project", "Filter", "Aggregate", "Join", "Sort", "GlobalLimit", "LocalLimit", "Window", "Generate", "Expand",
        "Repartition", "RepartitionByExpression", "RebalancePartitions", "Deduplicate", "DeduplicateWithinWatermark",
        "SubqueryAlias", "Sample", "EventTimeWatermark", "CollectMetrics", "ArrowEvalPython", "BatchEvalPython",
        "ResolvedHint", "Offset", "Tail",
    )
)  # fmt: skip
"""Plan nodes that use the columns they reference and pass the others through; other nodes are taken to use all."""

_ID = re.compile(r"#(\d+)L?")
_RELATION = re.compile(r"(?<!Streaming)RelationV2\[([^\n]*)\] ")
_STREAM = re.compile(r"StreamingRelationV2 [^\n]*")
_STREAM_COLUMNS = re.compile(r"\[([A-Za-z]+#\d+L?(?:, [A-Za-z]+#\d+L?)*)\]")
_TIME = re.compile(r"\b\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?")
"""A time in a plan. Of two plans of the same query only the current time differs, which is the time of planning."""
_OBJECT = re.compile(r"(?<=[A-Za-z0-9])@[0-9a-f]+\b")
_LINE = re.compile(r"((?:[:+ ][- ] )*)~?(.*)")
_PROJECTION = re.compile(r"Project(?: \[(?:[A-Za-z]+#\d+L?(?:, )?)*\])?")


@dataclass(frozen=True)
class Needs:
    """Columns that a query uses, over all Kafka sources, and the bounds from its filters if it has only one Kafka
    source."""

    columns: frozenset[str]
    bounds: RecordBounds = RecordBounds()


def prune(everything: DataFrame, make: Callable[[Needs], DataFrame], *, with_bounds: bool = False) -> DataFrame:
    """Return the query over only the columns it uses. `everything` is the query over all columns; `make` builds the
    query for given needs and may be called several times. `with_bounds`: also pass the bounds from the filters. Returns
    `everything` if there is nothing to save, if use cannot be determined, or if the pruned plan would differ."""
    from py4j.protocol import Py4JError

    try:
        with _plain_plans(everything.sparkSession):
            plan = _optimized_plan(everything)
            needs, names = _needs(plan, with_bounds=with_bounds)
            if needs.columns == names and needs.bounds == RecordBounds():
                return everything
            pruned_query = _build(make, needs, names)
            return pruned_query if plan_text(plan) == plan_text(_optimized_plan(pruned_query)) else everything
    except (Py4JError, PySparkException, PipelineError, AttributeError, TypeError):
        return everything  # a plan of another Spark version or of Spark Connect, or a name that does not resolve


def _build(make: Callable[[Needs], DataFrame], needs: Needs, names: frozenset[str]) -> DataFrame:
    """Build the pruned query; a column that the query names but does not use is added and the query built again. Other
    errors of `make` pass through."""
    while True:
        try:
            return make(needs)
        except (PySparkException, PipelineError) as error:
            cause = error if isinstance(error, PySparkException) else error.__cause__
            column = _unresolved_column(cause) if isinstance(cause, PySparkException) else ""
            if column not in names - needs.columns:
                raise
            needs = replace(needs, columns=needs.columns | {column})


def _unresolved_column(error: PySparkException) -> str:
    """Return the column name of Spark's unresolved-column error; empty for other errors."""
    parameters = error.getMessageParameters() or {}
    return parameters.get("objectName", "").rpartition(".")[2].strip("`")


def needs_of(frame: DataFrame) -> Needs | None:
    """Return the needs of a query of its Kafka sources; None if it has none or the plan cannot be read."""
    from py4j.protocol import Py4JError

    try:
        with _plain_plans(frame.sparkSession):
            needs, names = _needs(_optimized_plan(frame), with_bounds=True)
    except (Py4JError, PySparkException, AttributeError, TypeError):
        return None
    return needs if names else None


@contextmanager
def _plain_plans(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, text)


def _optimized_plan(frame: DataFrame) -> JavaObject:
    """Return the optimized plan of a batch or streaming query. Computed apart from the DataFrame, which would cache the
    plan with these settings."""
    session: Any = frame.sparkSession
    java_frame: JavaObject = frame._jdf
    optimizer = session._jsparkSession.sessionState().optimizer()
    return optimizer.execute(java_frame.queryExecution().analyzed())


def _needs(plan: JavaObject, *, with_bounds: bool) -> tuple[Needs, frozenset[str]]:
    """Return the needs of a plan of its Kafka sources, and the names of all columns of these sources. `with_bounds`:
    also the bounds from the filter right above the source, if there is only one Kafka source."""
    leaves: list[_Leaf] = []
    _walk(plan, _ids(plan.output()), None, leaves)
    names = frozenset(name for leaf in leaves for name in leaf.columns)
    used = frozenset(name for leaf in leaves for name in leaf.used)
    bounds = RecordBounds()
    if with_bounds and len(leaves) == 1 and leaves[0].condition is not None:
        bounds = _bounds_of(leaves[0].condition)
    return Needs(used, bounds), names


@dataclass
class _Leaf:
    """One scan of a Kafka source in a plan: its columns, those used, and the condition of the filter right above it
    (None without one)."""

    columns: list[str]
    used: list[str]
    condition: JavaObject


def _walk(node: JavaObject, required: set[int], parent: JavaObject, leaves: list[_Leaf]) -> None:
    """Collect the Kafka scans below a plan node, of whose output the attribute IDs `required` are used."""
    name = node.getClass().getSimpleName()
    for subquery in _items(node.subqueries()):
        _walk(subquery, _ids(subquery.output()), None, leaves)
    if _source_of(node, name) in SOURCES:
        columns = [(attribute.name(), attribute.exprId().id()) for attribute in _items(node.output())]
        is_filtered = parent is not None and parent.getClass().getSimpleName() == "Filter"
        used = [column for column, number in columns if number in required]
        leaves.append(_Leaf([column for column, _ in columns], used, parent.condition() if is_filtered else None))
        return
    through = required | _ids(node.references().toSeq()) if name in _THROUGH else None
    for child in _items(node.children()):
        _walk(child, _ids(child.output()) if through is None else through, node, leaves)


def _source_of(node: JavaObject, name: str) -> str:
    """Return the data source name that a leaf node scans; empty for other nodes."""
    if name == "DataSourceV2ScanRelation":
        return str(node.relation().table().name())
    return str(node.sourceName()) if name == "StreamingRelationV2" else ""


def _items(sequence: JavaObject) -> Iterator[JavaObject]:
    """Iterate over a Scala Seq."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _ids(attributes: JavaObject) -> set[int]:
    return {attribute.exprId().id() for attribute in _items(attributes)}


def plan_text(plan: JavaObject) -> str:
    """Return a text that is equal for equal plans of a query: without times, attribute IDs numbered in order of
    appearance, sources with used columns only and without the addresses of a stream's objects, and without projections
    that only select columns right above a source."""
    result = ", ".join(f"{attribute.name()}#{attribute.exprId().id()}" for attribute in _items(plan.output()))
    text = _TIME.sub("TIME", f"{result}\n{_without_projections(str(plan.treeString()))}")
    counts: dict[str, int] = {}
    for number in _ID.findall(text):
        counts[number] = counts.get(number, 0) + 1

    def used(columns: str) -> str:
        return ", ".join(column for column in columns.split(", ") if all(counts[n] > 1 for n in _ID.findall(column)))

    def stream(relation: re.Match[str]) -> str:
        return _STREAM_COLUMNS.sub(lambda match: f"[{used(match[1])}]", _OBJECT.sub("", relation[0]))

    text = _RELATION.sub(lambda match: f"RelationV2[{used(match[1])}] ", text)
    order: dict[str, int] = {}
    return _ID.sub(lambda match: f"#{order.setdefault(match[1], len(order))}", _STREAM.sub(stream, text))


def _without_projections(text: str) -> str:
    """Remove the lines of a plan tree that only select columns of a source or of a filter over one, and unindent the
    lines below them."""
    lines = [(len(match[1]) // 3, match[2]) for line in text.splitlines() if (match := _LINE.match(line))]
    remaining_lines: list[tuple[int, str]] = []
    removed: list[int] = []
    for index, (depth, line) in enumerate(lines):
        while removed and depth <= removed[-1]:
            removed.pop()
        below = lines[index + 1][1] if index + 1 < len(lines) else ""
        if _PROJECTION.fullmatch(line) and below.startswith(("RelationV2[", "StreamingRelationV2 ", "Filter ")):
            removed.append(depth)
        else:
            remaining_lines.append((depth - len(removed), line))
    return "\n".join(f"{depth} {line}" for depth, line in remaining_lines)


# -- Filters --


def _bounds_of(condition: JavaObject) -> RecordBounds:
    """Return the bounds that a condition implies; unrestricted bounds if none."""
    if condition.getClass().getSimpleName() == "And":
        return _bounds_of(condition.left()).within(_bounds_of(condition.right()))
    comparison = _comparison(condition)
    comparison_bounds = compare(*comparison) if comparison is not None else None
    return comparison_bounds[0] if comparison_bounds is not None else RecordBounds()


def _comparison(expression: JavaObject) -> tuple[str, str, object] | None:
    """Return column, operator and value of a comparison with constants; None for any other expression."""
    operator = expression.getClass().getSimpleName()
    if operator == "In":
        values = _constants(expression.value(), list(_items(expression.list())))
        return None if values is None else (str(expression.value().name()), "In", values)
    if operator not in _FLIPPED_OPERATORS:
        return None
    left, right = expression.left(), expression.right()
    if left.getClass().getSimpleName() == "Literal":
        left, right, operator = right, left, _FLIPPED_OPERATORS[operator]
    values = _constants(left, [right])
    return None if values is None else (str(left.name()), operator, values[0])


def _constants(column: JavaObject, literals: Sequence[JavaObject]) -> list[object] | None:
    """The values of literals that a column is compared with; None if these are other expressions."""
    if column.getClass().getSimpleName() != "AttributeReference":
        return None
    if any(literal.getClass().getSimpleName() != "Literal" for literal in literals):
        return None
    return [_value(literal) for literal in literals]


def _value(literal: JavaObject) -> object:
    """Convert a literal of the plan to the Python value that Spark passes to pushed filters; None for null and for
    types other than int, bigint, string and timestamp."""
    value, kind = literal.value(), literal.dataType().simpleString()
    if value is None or kind in ("int", "bigint"):
        return value
    if kind == "string":
        return str(value.toString())
    return EPOCH + timedelta(microseconds=value) if kind == "timestamp" else None
