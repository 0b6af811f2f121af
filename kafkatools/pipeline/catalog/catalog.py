"""The tables and views of a cluster for the statements of a Spark session.

Rules: a name is looked up only if a statement uses it: Spark reports a name that it does not find, the catalog makes a
temporary view of that name, and the statement is planned again. So ten thousand topics cost nothing, and a new topic is
found. Views of the catalog are dropped once the statement is planned: a table holds the ends of its topic, and another
catalog of the session may have a topic of the same name. Over Spark Connect they are kept, since a DataFrame finds its
tables by name when its rows are requested.

A query is planned over drafts of its tables first (see `OpenMode`), and only the columns and bounds that this plan uses
are read. A statement that writes is run once, over whole tables.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    NumberFormatException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, Observation, SparkSession

from kafkatools.pipeline.catalog.statements import (
    Command,
    CreateView,
    DropView,
    Explain,
    Query,
    ShowCreate,
    ShowTables,
    Write,
    command_of,
    tokens,
    without_semicolon,
)
from kafkatools.pipeline.catalog.tables import OpenMode, RecordTables, TableReports, TopicMissing
from kafkatools.pipeline.catalog.views import View, ViewFile
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.identifiers import quoted
from kafkatools.pipeline.run.batch import observed_metrics
from kafkatools.pipeline.run.session import is_connected, is_ours, plain_error
from kafkatools.pipeline.sources.pruning import Needs, prune

TOPIC, INTERNAL, VIEW, TEMPORARY_VIEW, TABLE = "topic", "internal topic", "view", "temporary view", "table"
_NOT_FOUND = {"TABLE_OR_VIEW_NOT_FOUND": "relationName", "REQUIRES_SINGLE_PART_NAMESPACE": "identifier"}
"""Spark's errors about a name that is not found, the second one for two dots and more: the parameter with the name."""
_POSITION = re.compile(r" \(line (\d+), position (\d+)\)$")
_ADVICE = re.compile(r" Verify the spelling and correctness of .*? IF EXISTS\.", re.S)
_WRONG = (AnalysisException, IllegalArgumentException, UnsupportedOperationException)
"""Spark's errors about a statement; others are about values, or of the server of Spark Connect."""
_READ_ONLY = "{} can only be read here; kt pipeline run --to topic:NAME writes to a topic"


class LocatedError(PipelineError):
    """A statement fails: Spark's message, and the line and column of the place in the statement, from 1; 0 if unknown.
    `condition` is Spark's name of the error."""

    def __init__(self, message: str, line: int = 0, column: int = 0, condition: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.condition = condition


class StatementError(LocatedError):
    """A statement is invalid."""


def located_error(error: PySparkException, message: str | None = None) -> LocatedError:
    """Return an error of Spark, with another message if one is passed, as one about the statement: StatementError
    unless the statement is right, but its data, a server or a worker fails."""
    text = _ADVICE.sub("", plain_error(error))
    place = _POSITION.search(text)
    line, column = (int(place[1]), int(place[2])) if place else (0, 0)
    is_wrong = isinstance(error, _WRONG) and not isinstance(error, NumberFormatException) and not is_ours(error)
    kind = StatementError if is_wrong else LocatedError
    return kind(message or _POSITION.sub("", text), line, column, error.getCondition() or "")


class Entry(NamedTuple):
    """A name of the catalog, and its kind: TOPIC, INTERNAL, VIEW, TEMPORARY_VIEW or TABLE."""

    name: str
    kind: str


@dataclass
class StatementResult:
    """The rows of a planned query, None for a statement that has none and is carried out; a line about what was done;
    and the observations of undecodable keys and values by table."""

    frame: DataFrame | None
    note: str = ""
    observations: dict[str, Observation] = field(default_factory=dict)

    def undecodable(self) -> dict[str, dict[str, int]]:
        """Return, after the rows were read, how many keys and values of each table could not be decoded, by "key" and
        "value"; tables and parts without any are left out."""
        found: dict[str, dict[str, int]] = {}
        if self.frame is None:
            return found
        for name, observation in self.observations.items():
            metrics = observed_metrics(self.frame.sparkSession, observation, self.frame) or {}
            counts = {part: metrics.get(f"__kt_bad_{part}") or 0 for part in ("key", "value")}
            if any(counts.values()):
                found[name] = {part: count for part, count in counts.items() if count}
        return found


@dataclass
class _Planning:
    """The state of one planning of a statement: the registered names as Spark compares them, and the words of the
    statement and of its views."""

    mode: OpenMode
    words: set[str]
    registered: set[str] = field(default_factory=set)
    stack: tuple[str, ...] = ()
    observations: dict[str, Observation] = field(default_factory=dict)
    is_decoded: bool = False


class Catalog:
    """The topics of a cluster as tables, and views in a file, for one Spark session."""

    def __init__(self, spark: SparkSession, tables: RecordTables, views: ViewFile) -> None:
        self.views = views
        self._spark = spark
        self._tables = tables
        self._shown: dict[str, DataFrame | str] = {}

    def sql(self, statement: str) -> DataFrame:
        """Run a statement of Spark SQL and return its rows; a topic is a table of its name. A query is run when its
        rows are requested. Raises PipelineError; StatementError if the statement is wrong."""
        frame = self.prepare(statement).frame
        return self._spark.createDataFrame([], "result string") if frame is None else frame

    def table(self, name: str) -> DataFrame:
        """Return the rows of a topic, a view or `log:PATH`. Raises PipelineError."""
        return self.sql(f"SELECT * FROM {quoted(name)}")

    def tables(self, *, include_internal: bool = False, max_age_ms: int = 0) -> list[Entry]:
        """Return the topics and views, sorted by name. `max_age_ms`: how old the list of topics may be. Raises
        PipelineError if no broker answers."""
        topics = self._tables.topics(max_age_ms=max_age_ms).values()
        entries = [Entry(topic.name, INTERNAL if topic.is_internal else TOPIC) for topic in topics]
        entries = [entry for entry in entries if include_internal or entry.kind == TOPIC]
        return sorted([*entries, *(Entry(name, VIEW) for name in self.views.views())])

    def prepare(
        self, statement: str, *, is_counting: bool = False, reports: TableReports | None = None
    ) -> StatementResult:
        """Plan a query, or carry out another statement. `is_counting`: count keys and values that cannot be decoded.
        `reports`: where the readers of a query report what they read. Raises PipelineError; StatementError if the
        statement is wrong."""
        statement = without_semicolon(statement)
        self._tables.begin_statement()
        try:
            command = _command_of(statement)
            if isinstance(command, Query):
                return self._query(statement, OpenMode(is_counting=is_counting, reports=reports))
            if isinstance(command, CreateView):
                return self._create_view(command, statement)
            if isinstance(command, DropView) and self.views.find(command.name):
                self.views.remove(command.name)
                return StatementResult(None, f"Dropped the view {command.name} from {self.views.label}")
            if isinstance(command, ShowTables):
                return StatementResult(self._show_tables(command))
            if isinstance(command, ShowCreate) and (view := self.views.find(command.name)):
                return StatementResult(self._rows([(view.statement.text,)], "createtab_stmt string"))
            if isinstance(command, Explain):
                return StatementResult(self._rows([(self._explain(command, statement),)], "plan string"))
            if isinstance(command, Write):
                self._ensure_writable(command.name)
            frame, _ = self._plan(statement, OpenMode())
            return StatementResult(frame if frame.columns else None)
        except PySparkException as error:
            is_insert = (error.getCondition() or "").startswith("UNSUPPORTED_INSERT")
            raise located_error(error, _READ_ONLY.format("Topics and views") if is_insert else None) from error

    # -- Statements that the catalog carries out --

    def _create_view(self, command: CreateView, statement: str) -> StatementResult:
        existing = self.views.find(command.name)
        if existing is not None and command.keeps:
            return StatementResult(None, f"The view {command.name} exists in {self.views.label}")
        if existing is not None and not command.replaces:
            raise StatementError(f"The view {command.name} exists; CREATE OR REPLACE VIEW replaces it")
        if command.name.lower() in map(str.lower, self._tables.topics()):
            raise StatementError(f"{command.name} is a topic: a view of that name would hide it")
        planning = _Planning(OpenMode(), _words(statement), stack=(self._tables.key(command.name),))
        with self._names():
            if self._spark.catalog.tableExists(quoted(command.name)):
                raise StatementError(f"{command.name} is a table or temporary view of Spark, which would hide the view")
            try:
                self._run(command.temporary(), planning)
            except (PySparkException, LocatedError) as error:
                raise _in_original_statement(error, command.temporary(), statement) from error
            finally:
                self._spark.catalog.dropTempView(command.name)
        self.views.put(command.name, statement.strip())
        return StatementResult(None, f"Created the view {command.name} in {self.views.label}")

    def _ensure_writable(self, name: str) -> None:
        """Raise StatementError if a statement is about to change a topic, log files or a view of the file, or to make a
        table that would hide it."""
        if self.views.find(name):
            raise StatementError(f"{name} is a view: CREATE OR REPLACE VIEW changes it, DROP VIEW drops it")
        with contextlib.suppress(TopicMissing):
            self._tables.find(name)
            raise StatementError(_READ_ONLY.format(name))

    def _show_tables(self, command: ShowTables) -> DataFrame:
        self.views.ensure_readable()
        pattern = command.pattern or "*"
        entries = self.tables(include_internal=pattern.startswith("_"))
        with self._names():
            for table in self._spark.catalog.listTables():
                entries.append(Entry(table.name, TEMPORARY_VIEW if table.isTemporary else TABLE))
        if command.only_views:
            entries = [entry for entry in entries if entry.kind in (VIEW, TEMPORARY_VIEW)]
        matches = re.compile("|".join(map(_expression, pattern.split("|"))), re.IGNORECASE | re.DOTALL)
        rows = [tuple(entry) for entry in sorted(entries) if matches.fullmatch(entry.name)]
        return self._rows(rows, "name string, kind string")

    def _explain(self, command: Explain, statement: str) -> str:
        try:
            frame = self._query(command.query, OpenMode()).frame
        except (PySparkException, LocatedError) as error:
            raise _in_original_statement(error, command.query, statement) from error
        assert frame is not None
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            frame.explain(mode=command.mode)
        return text.getvalue().strip()

    def _rows(self, rows: list[tuple[str, ...]], schema: str) -> DataFrame:
        return self._spark.createDataFrame(rows, schema)

    # -- Planning --

    def _query(self, statement: str, mode: OpenMode) -> StatementResult:
        if is_connected(self._spark):  # which shows no plan
            return StatementResult(self._plan(statement, OpenMode())[0])
        try:
            frame, needs, is_decoded = self._pruned(statement, mode)
        except PySparkException:
            frame, needs, is_decoded = None, None, True  # so that the error is the one of the tables themselves
        if frame is not None and not is_decoded:
            return StatementResult(frame)
        try:
            frame, planning = self._plan(statement, mode._replace(needs=needs))
        except PySparkException as error:
            if not mode.is_counting or (error.getCondition() or "") != "DUPLICATED_METRICS_NAME":
                raise
            mode = mode._replace(needs=needs, is_counting=False)
            frame, planning = self._plan(statement, mode)  # a table that is read twice in different ways
        return StatementResult(frame, observations=planning.observations)

    def _pruned(self, statement: str, mode: OpenMode) -> tuple[DataFrame, Needs | None, bool]:
        """Plan a query over drafts. Returns the query, the columns and bounds that it uses (None: all columns), and
        whether the drafts differ from the tables."""
        tried: list[Needs] = []
        draft = mode._replace(is_draft=True)

        def make(needs: Needs) -> DataFrame:
            tried.append(needs)
            return self._plan(statement, draft._replace(needs=needs))[0]

        whole, planning = self._plan(statement, draft)
        pruned = prune(whole, make, with_bounds=True)
        return pruned, None if pruned is whole else tried[-1], planning.is_decoded

    def _plan(self, statement: str, mode: OpenMode) -> tuple[DataFrame, _Planning]:
        """Plan a query, or run another statement, over tables that are opened now. Raises Spark's exceptions about the
        statement, and PipelineError."""
        planning = _Planning(mode, _words(statement))
        with self._names():
            return self._run(statement, planning), planning

    def _run(self, statement: str, planning: _Planning) -> DataFrame:
        while True:
            try:
                frame = self._spark.sql(statement)
                if is_connected(self._spark):
                    _ = frame.schema  # the server resolves names now
                return frame
            except PySparkException as error:
                parts = _missing_table(error)
                name = self._tables.key(".".join(parts))
                if not parts or (name in planning.registered and name not in planning.stack):
                    raise
                self._register(parts, planning, error)

    def _register(self, parts: list[str], planning: _Planning, error: PySparkException) -> None:
        """Make the temporary view of a name that Spark did not find. Raises PipelineError."""
        name = ".".join(parts)
        if len(parts) > 1:
            raise self._qualified_error(parts, error) from error
        key = self._tables.key(name)
        if key in planning.stack:
            raise StatementError(f"The view {name} uses itself")
        planning.registered.add(key)
        view = self.views.find(name)
        if view is not None:
            self._register_view(view, planning)
            return
        try:
            uri = self._tables.find(name, self.views.views())
        except TopicMissing as missing:
            self.views.ensure_readable()  # otherwise the name may be the one of a view
            raise located_error(error, str(missing)) from error
        self._tables.ensure_distinct(uri.target, planning.words)
        table = self._tables.open(uri, planning.mode)
        self._shown[name] = table.frame  # first: Ctrl-C may arrive while Spark makes the view, which is dropped then
        table.frame.createOrReplaceTempView(quoted(name))
        planning.is_decoded |= table.is_decoded
        if table.observation is not None:
            planning.observations[str(uri)] = table.observation

    def _register_view(self, view: View, planning: _Planning) -> None:
        name, statement = view.command.name, view.command.temporary()
        place = f"View {name} ({self.views.label}, line {view.statement.line})"
        planning.words |= _words(view.statement.text)
        outer, planning.stack = planning.stack, (*planning.stack, self._tables.key(name))
        self._shown[name] = statement
        try:
            self._run(statement, planning)
        except PySparkException as error:
            del self._shown[name]
            raise PipelineError(f"{place}: {located_error(error)}") from error
        except PipelineError as error:
            del self._shown[name]
            raise PipelineError(f"{place}: {error}") from error.__cause__
        finally:
            planning.stack = outer
        self._shown[name] = self._shown.pop(name)  # behind its tables, as `_restore` makes it again

    def _qualified_error(self, parts: list[str], error: PySparkException) -> LocatedError:
        """Return the error for a name with a schema, which may be the name of a topic with a dot."""
        topics = self._tables.topics(max_age_ms=60_000)
        name = ".".join(parts)
        if name in topics:
            return located_error(error, f"Write the name of the topic {name} in backticks: {quoted(name)}")
        return located_error(error)

    # -- Temporary views --

    @contextlib.contextmanager
    def _names(self) -> Iterator[None]:
        """Make names of the catalog within the context only; over Spark Connect also keep those of earlier
        statements."""
        before = self._forget()
        try:
            yield
        finally:
            if is_connected(self._spark):
                self._restore(before)
            else:
                self._forget()

    def _forget(self) -> Mapping[str, DataFrame | str]:
        """Drop the temporary views of the catalog and return them."""
        before = self._shown
        for name in before:
            self._spark.catalog.dropTempView(name)
        self._shown = {}
        return before

    def _restore(self, before: Mapping[str, DataFrame | str]) -> None:
        """Make the views of earlier statements again: over Spark Connect a DataFrame finds its tables by name when its
        rows are requested."""
        for name, made in before.items():
            if name not in self._shown:
                self._shown[name] = made
                if isinstance(made, str):
                    self._spark.sql(made)
                else:
                    made.createOrReplaceTempView(quoted(name))


def _command_of(statement: str) -> Command:
    try:
        return command_of(statement)
    except PipelineError as error:
        raise StatementError(str(error)) from error


def _missing_table(error: PySparkException) -> list[str]:
    """Return the parts of the name that Spark did not find; empty for another error."""
    parameter = _NOT_FOUND.get(error.getCondition() or "", "")
    name = (error.getMessageParameters() or {}).get(parameter, "")
    return [token.name for token in tokens(name) if token.is_name]


def _words(text: str) -> set[str]:
    return {token.name for token in tokens(text) if token.is_name}


def _expression(pattern: str) -> str:
    """Return the regular expression of an alternative of a LIKE pattern: `*` and `%` stand for any text."""
    return "".join(".*" if character in "*%" else re.escape(character) for character in pattern.strip())


def _in_original_statement(error: PySparkException | LocatedError, part: str, statement: str) -> LocatedError:
    """Return a new error for one about text that ends as a statement does, with the place in that statement."""
    located = error if isinstance(error, LocatedError) else located_error(error)
    if not located.line:
        return type(located)(str(located), condition=located.condition)
    at = sum(len(line) + 1 for line in part.split("\n")[: located.line - 1]) + located.column - 1
    at -= len(part) - len(statement)
    before = statement[: max(at, 0)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return type(located)(str(located), line, column, located.condition)
