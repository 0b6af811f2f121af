"""Bytes, batches, records and damaged ranges that readers report, as metrics in the SQL tab of Spark's UI.

A Python data source cannot add metrics to a query, in no version up to PySpark 4.3: its workers' accumulators are
dropped, its streams report no source metrics, and Spark forgets a query's metrics with the query's end, before the last
reports are read. So a run has an entry of its own in the SQL tab, beside Spark's entries: a running execution whose
nodes are the Kafka sources, updated while the reports arrive, and ended after the last one. It consists of the events
that Spark's own executions post, so the REST API and event logs have it. `stream_metrics.py` makes one for each
micro-batch of a stream.

Rules: Spark's classes for this are internal. If a call of them fails, the run has no metrics and goes on. Spark adds up
the updates of a metric of the driver, so an update is a difference.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from kafkatools.core.clock import Clock, SystemClock
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.reports import SplitReport, read_reports
from kafkatools.pipeline.run.session import is_connected

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway, JavaObject, JVMView
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)
_METRICS = ("bytes read", "batches read", "records read", "damaged ranges")
_FIRST_S, _LONGEST_SHARE = 1.0, 0.02
"""Seconds before the first update, and the share of the elapsed time between later ones: a long run has some
hundred."""
_EVENTS = "org.apache.spark.sql.execution.ui.SparkListener"


class NewReports:
    """Reads the reports of one source, in a directory and the directories below it, each report once."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._passed: dict[str, set[str]] = {}

    def reports(self) -> Iterator[SplitReport]:
        """Yield the reports that arrived since the last call. Raises PipelineError if a report cannot be read."""
        storage.forget_listings(self._directory)
        for directory in _directories(self._directory):
            yield from read_reports(directory, self._passed.setdefault(directory, set()))

    def forget(self, directory: str, name: str) -> None:
        """Forget the name of a report that was read and deleted."""
        self._passed.get(directory, set()).discard(name)

    def sums(self) -> list[int]:
        """Return the sums of the metrics over the reports that arrived since the last call. Raises PipelineError if a
        report cannot be read."""
        return sums_of(self.reports())


def sums_of(reports: Iterable[SplitReport]) -> list[int]:
    """Return the sum of each metric over reports."""
    sums = [0] * len(_METRICS)
    for report in reports:
        numbers = report.size_bytes, report.batches, report.records, len(report.damages)
        sums = [sum(pair) for pair in zip(sums, numbers, strict=True)]
    return sums


def _directories(directory: str) -> Iterator[str]:
    if storage.kind_of(directory) == storage.DIRECTORY:
        yield directory
        for entry in storage.entries(directory):
            if entry.kind == storage.DIRECTORY:
                yield from _directories(storage.join(directory, entry.name))


@contextmanager
def read_metrics(spark: SparkSession, description: str, sources: Mapping[str, str]) -> Iterator[None]:
    """Show what the readers report within the context in Spark's UI, under a description. `sources` maps the names of
    the sources to their report directories. Does nothing without the UI and without an event log, over Spark Connect,
    and where Spark's classes differ."""
    if not sources or not is_shown(spark):
        yield
        return
    clock = SystemClock()
    entry = attempt(lambda: SqlEntry(spark, description, list(sources), clock.wall_ms()))
    if entry is None:
        yield
        return
    reports = {name: NewReports(directory) for name, directory in sources.items()}

    def update() -> None:
        added = {name: new.sums() for name, new in reports.items()}
        if any(any(numbers) for numbers in added.values()):
            entry.add(added)

    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(update, ended, clock), name="read-metrics", daemon=True)
    thread.start()
    error = ""
    try:
        yield
    except BaseException as failure:
        error = str(failure) or type(failure).__name__
        raise
    finally:
        ended.set()
        thread.join()
        attempt(update)
        attempt(lambda: entry.end(error, clock.wall_ms()))


def is_shown(spark: SparkSession) -> bool:
    """Return whether metrics can be seen: in the UI or an event log of this process's Spark, not over Spark Connect."""
    if is_connected(spark):
        return False
    context = spark.sparkContext
    return context.uiWebUrl is not None or context.getConf().get("spark.eventLog.enabled", "false") == "true"


def attempt(call: Callable[[], _Result]) -> _Result | None:
    """Return the result of a call; None, with a line in the log, if it fails: Spark's classes differ between versions,
    the JVM may have ended, and the storage of the reports may not answer."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return call()
    except (Py4JError, PySparkException, PipelineError, AttributeError, LookupError, TypeError, ValueError, OSError):
        _log.debug("no metrics of readers in Spark's UI", exc_info=True)
        return None


def _follow(update: Callable[[], None], ended: threading.Event, clock: Clock) -> None:
    began, pause_s = clock.now_ms(), _FIRST_S
    while not ended.wait(pause_s):
        pause_s = max(_FIRST_S, _LONGEST_SHARE * (clock.now_ms() - began) / 1000)
        attempt(update)


class SqlEntry:
    """An execution in the SQL tab: a node for each source, with the sums of its reports. `started_ms`: when it began,
    in epoch milliseconds. Raises an exception of py4j or of Python if Spark's classes differ."""

    def __init__(self, spark: SparkSession, description: str, sources: Sequence[str], started_ms: int) -> None:
        jvm: JVMView = spark._jvm
        self._jvm = jvm
        session: JavaObject = spark._jsparkSession
        self._bus = session.sparkContext().listenerBus()
        self._id = self._next_id(spark)
        new_id = jvm.org.apache.spark.util.AccumulatorContext.newId
        self._ids = {name: [int(new_id()) for _ in _METRICS] for name in sources}
        nodes = [self._node(name) for name in sources]
        root = nodes[0] if len(nodes) == 1 else self._plan("Kafka sources", nodes, [])
        plan_text = "\n".join(f"Read {name}" for name in sources)
        none, empty = jvm.scala.Option.empty(), jvm.PythonUtils.toScalaMap({})
        tags = empty.keySet()
        self._post(
            "SQLExecutionStart",
            (self._id, none, description, plan_text, plan_text, root, started_ms, empty, tags, none, none),
        )
        self.add({name: [0] * len(_METRICS) for name in sources})

    def end(self, error: str, ended_ms: int) -> None:
        """End the entry, as failed if `error` is not empty."""
        message = self._jvm.scala.Option.apply(error)
        self._post("SQLExecutionEnd", (self._id, ended_ms, message, self._jvm.scala.Option.empty()))

    def _next_id(self, spark: SparkSession) -> int:
        """Take the next number of Spark's executions, which has no public method."""
        gateway: JavaGateway = spark.sparkContext._gateway
        new_array = gateway.new_array
        executions = self._jvm.java.lang.Class.forName("org.apache.spark.sql.execution.SQLExecution$")
        next_id = executions.getDeclaredMethod("nextExecutionId", new_array(self._jvm.java.lang.Class, 0))
        next_id.setAccessible(True)
        return int(next_id.invoke(executions.getField("MODULE$").get(None), new_array(self._jvm.Object, 0)))

    def _node(self, name: str) -> JavaObject:
        new_metric = self._jvm.org.apache.spark.sql.execution.metric.SQLMetricInfo
        metrics = [new_metric(metric, number, "sum") for metric, number in zip(_METRICS, self._ids[name], strict=True)]
        return self._plan(f"Read {name}", [], metrics)

    def _plan(self, name: str, children: list[JavaObject], metrics: list[JavaObject]) -> JavaObject:
        utils = self._jvm.PythonUtils
        return self._jvm.org.apache.spark.sql.execution.SparkPlanInfo(
            name, name, utils.toSeq(children), utils.toScalaMap({}), utils.toSeq(metrics)
        )

    def add(self, numbers: Mapping[str, list[int]]) -> None:
        """Add to the metrics of the sources."""
        pair = getattr(self._jvm.scala, "Tuple2$mcJJ$sp")
        updates = [
            pair(number, value)
            for name, values in numbers.items()
            for number, value in zip(self._ids[name], values, strict=True)
        ]
        self._post("DriverAccumUpdates", (self._id, self._jvm.PythonUtils.toSeq(updates)))

    def _post(self, event: str, arguments: tuple[object, ...]) -> None:
        """Post an event with as many of the arguments as its class has in this version of Spark."""
        (constructor,) = self._jvm.java.lang.Class.forName(_EVENTS + event).getConstructors()
        new_event = getattr(self._jvm.org.apache.spark.sql.execution.ui, f"SparkListener{event}")
        self._bus.post(new_event(*arguments[: constructor.getParameterCount()]))
