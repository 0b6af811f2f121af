"""What a query needs of its sources, read from its optimized plan, so that SQL reads no column that it does not use.

Spark prunes the columns of a Python data source only behind the source: every column is made and thrown away. The
reader of these sources makes the columns of the schema it is given, so the query is made twice: once over all columns,
whose plan tells what is used, then over a source with just those. That the second means the same is not taken for
granted (a name may resolve differently, a star stands for less): its plan must be the first one's to the letter, or the
first is taken. PySpark 4.0 pushes no filters into Python sources either; they are read from the plan there and given to
the source as bounds, for it to narrow what it reads; Spark still applies them.
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
"""While plans are compared: no filter disappears from them into a source, nothing is left out of their text."""

_FLIPPED = {
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
}
_THROUGH = frozenset(
    {
        "Project",
        "Filter",
        "Aggregate",
        "Join",
        "Sort",
        "GlobalLimit",
        "LocalLimit",
        "Window",
        "Generate",
        "Expand",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "SubqueryAlias",
        "Sample",
        "EventTimeWatermark",
        "CollectMetrics",
        "ArrowEvalPython",
        "BatchEvalPython",
        "ResolvedHint",
        "Offset",
        "Tail",
    }
)
"""Nodes of a plan that need what they reference and hand the rest through; of any other all columns are needed."""

_ID = re.compile(r"#(\d+)L?")
_RELATION = re.compile(r"RelationV2\[([^\n]*)\] ")
_LINE = re.compile(r"((?:[:+ ][- ] )*)(.*)")
_PICKING = re.compile(r"Project(?: \[(?:[A-Za-z]+#\d+L?(?:, )?)*\])?")


@dataclass(frozen=True)
class Needs:
    """What a query uses of these sources: the names of columns, over all of them, and what its filters say of the
    records where there is but one source."""

    columns: frozenset[str]
    bounds: RecordBounds = RecordBounds()


def pruned(everything: DataFrame, make: Callable[[Needs], DataFrame], *, with_bounds: bool = False) -> DataFrame:
    """A query that reads what it uses: `everything` is it over all columns, `make` makes it anew over sources with
    fewer. Gives `everything` where it uses all, where that cannot be told, or where the other would not be the same.
    """
    from py4j.protocol import Py4JError

    try:
        with _plain_plans(everything.sparkSession):
            plan = _optimized(everything)
            needs, names = _needs(plan, with_bounds=with_bounds)
            if needs.columns == names and needs.bounds == RecordBounds():
                return everything
            narrowed = _made(make, needs, names)
            return narrowed if plan_text(plan) == plan_text(_optimized(narrowed)) else everything
    except (Py4JError, PySparkException, PipelineError, AttributeError, TypeError):
        return everything  # a plan of another version, of Spark Connect, or a query that needs a name more


def _made(make: Callable[[Needs], DataFrame], needs: Needs, names: frozenset[str]) -> DataFrame:
    """The narrowed query; a column that it names, though it does not use it, is there as well."""
    while True:
        try:
            return make(needs)
        except (PySparkException, PipelineError) as error:
            cause = error if isinstance(error, PySparkException) else error.__cause__
            named = _unresolved(cause) if isinstance(cause, PySparkException) else ""
            if named not in names - needs.columns:
                raise
            needs = replace(needs, columns=needs.columns | {named})


def _unresolved(error: PySparkException) -> str:
    """The column that an error says is not there."""
    parameters = error.getMessageParameters() or {}
    return parameters.get("objectName", "").rpartition(".")[2].strip("`")


def needed_columns(frame: DataFrame) -> frozenset[str] | None:
    """The columns of these sources that a query uses; None where that cannot be told."""
    needs = needs_of(frame)
    return None if needs is None else needs.columns


def needs_of(frame: DataFrame) -> Needs | None:
    """What a query uses of these sources; None where that cannot be told."""
    from py4j.protocol import Py4JError

    try:
        with _plain_plans(frame.sparkSession):
            needs, names = _needs(_optimized(frame), with_bounds=True)
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


def _optimized(frame: DataFrame) -> JavaObject:
    """The optimized plan, of a stream too. Made apart from the frame, which would keep it with these settings."""
    session: Any = frame.sparkSession
    java_frame: JavaObject = frame._jdf
    optimizer = session._jsparkSession.sessionState().optimizer()
    return optimizer.execute(java_frame.queryExecution().analyzed())


def _needs(plan: JavaObject, *, with_bounds: bool) -> tuple[Needs, frozenset[str]]:
    """What a plan needs, and the names of all columns of its sources."""
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
    """One reading of a source in a plan."""

    columns: list[str]
    used: list[str]
    condition: JavaObject


def _walk(node: JavaObject, required: set[int], parent: JavaObject, leaves: list[_Leaf]) -> None:
    """Collects the readings below a node of whose output the attributes `required` are used."""
    name = node.getClass().getSimpleName()
    for subquery in _items(node.subqueries()):
        _walk(subquery, _ids(subquery.output()), None, leaves)
    if _source_of(node, name) in SOURCES:
        found = [(attribute.name(), attribute.exprId().id()) for attribute in _items(node.output())]
        is_filtered = parent is not None and parent.getClass().getSimpleName() == "Filter"
        used = [column for column, number in found if number in required]
        leaves.append(_Leaf([column for column, _ in found], used, parent.condition() if is_filtered else None))
        return
    through = required | _ids(node.references().toSeq()) if name in _THROUGH else None
    for child in _items(node.children()):
        _walk(child, _ids(child.output()) if through is None else through, node, leaves)


def _source_of(node: JavaObject, name: str) -> str:
    """The name of the source that a leaf reads."""
    if name == "DataSourceV2ScanRelation":
        return str(node.relation().table().name())
    return str(node.sourceName()) if name == "StreamingRelationV2" else ""


def _items(sequence: JavaObject) -> Iterator[JavaObject]:
    """A Scala Seq."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _ids(attributes: JavaObject) -> set[int]:
    return {each.exprId().id() for each in _items(attributes)}


def plan_text(plan: JavaObject) -> str:
    """A plan as text that is the same for the same plan: numbers in the order they appear, sources with what is used
    of their columns only, nothing of what merely picks columns right above them, but those of the result."""
    result = ", ".join(f"{each.name()}#{each.exprId().id()}" for each in _items(plan.output()))
    text = f"{result}\n{_without_picking(str(plan.toString()))}"
    counts: dict[str, int] = {}
    for number in _ID.findall(text):
        counts[number] = counts.get(number, 0) + 1

    def used(relation: re.Match[str]) -> str:
        columns = [each for each in relation[1].split(", ") if all(counts[n] > 1 for n in _ID.findall(each))]
        return f"RelationV2[{', '.join(columns)}] "

    order: dict[str, int] = {}
    return _ID.sub(lambda found: f"#{order.setdefault(found[1], len(order))}", _RELATION.sub(used, text))


def _without_picking(text: str) -> str:
    """The lines of a tree without those that only pick columns of a source, or of a filter over one; what hangs below
    them moves up."""
    lines = [(len(found[1]) // 3, found[2]) for line in text.splitlines() if (found := _LINE.match(line))]
    kept: list[tuple[int, str]] = []
    removed: list[int] = []
    for index, (depth, line) in enumerate(lines):
        while removed and depth <= removed[-1]:
            removed.pop()
        below = lines[index + 1][1] if index + 1 < len(lines) else ""
        if _PICKING.fullmatch(line) and below.startswith(("RelationV2[", "Filter ")):
            removed.append(depth)
        else:
            kept.append((depth - len(removed), line))
    return "\n".join(f"{depth} {line}" for depth, line in kept)


# -- Filters --


def _bounds_of(condition: JavaObject) -> RecordBounds:
    """What a condition says of the records, as far as bounds can say it."""
    if condition.getClass().getSimpleName() == "And":
        return _bounds_of(condition.left()).within(_bounds_of(condition.right()))
    comparison = _comparison(condition)
    taken = compare(*comparison) if comparison is not None else None
    return taken[0] if taken is not None else RecordBounds()


def _comparison(expression: JavaObject) -> tuple[str, str, object] | None:
    """Column, operator and value of a comparison with constants."""
    operator = expression.getClass().getSimpleName()
    if operator == "In":
        return _comparison_of("In", expression.value(), list(_items(expression.list())))
    if operator not in _FLIPPED:
        return None
    left, right = expression.left(), expression.right()
    if left.getClass().getSimpleName() == "Literal":
        left, right, operator = right, left, _FLIPPED[operator]
    found = _comparison_of(operator, left, [right])
    return None if found is None else (found[0], operator, found[2][0])


def _comparison_of(
    operator: str, column: JavaObject, literals: Sequence[JavaObject]
) -> tuple[str, str, list[object]] | None:
    if column.getClass().getSimpleName() != "AttributeReference":
        return None
    if any(each.getClass().getSimpleName() != "Literal" for each in literals):
        return None
    return str(column.name()), operator, [_value(each) for each in literals]


def _value(literal: JavaObject) -> object:
    """A constant as Spark gives it to a filter."""
    value, kind = literal.value(), literal.dataType().simpleString()
    if value is None or kind in ("int", "bigint"):
        return value
    if kind == "string":
        return str(value.toString())
    return EPOCH + timedelta(microseconds=value) if kind == "timestamp" else None
