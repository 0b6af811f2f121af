"""The record tables of the catalog: a topic or log files as a DataFrame, decoded by a schema registry.

Rules: nothing is read to open a table: the schema of a topic is the newest one of its subject, and values of older
schemas are resolved to it. A value that cannot be decoded is null and counted. If the registry does not answer, the
statement fails: without it the table would have other columns.
"""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Collection
from typing import NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import TopicListing, list_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError
from kafkatools.core.json_texts import parse_json
from kafkatools.pipeline.catalog.options import PARTS, TableOptions
from kafkatools.pipeline.decoding import formats
from kafkatools.pipeline.decoding.values import ValueDecoder
from kafkatools.pipeline.errors import PipelineError, schema_failures
from kafkatools.pipeline.run.batch import columns_schema, with_reports
from kafkatools.pipeline.run.session import is_connected
from kafkatools.pipeline.run.spec import Decoding
from kafkatools.pipeline.sources.pruning import Needs
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.sources.schema import HEADER_COLUMNS, METADATA_COLUMNS, RECORD_COLUMNS
from kafkatools.pipeline.uris import LOG, TOPIC, Cluster, Uri, read_source
from kafkatools.tools.schemas.access import RegistryAccess, basic_authorization
from kafkatools.tools.schemas.registry import JSON, SchemaRegistry
from kafkatools.tools.schemas.wire_format import HEADER_SIZE, schema_id
from kafkatools.tools.schemas.wire_format import header as schema_header

_MAX_AGE_MS = 30_000
"""Age of the list of topics at which it is requested again."""


class TableReports:
    """The report directories of the tables of a statement, below a directory. `by_table` has those of the opened
    tables. A table that a statement reads twice has one, in which a range that is read twice counts once."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.by_table: dict[str, str] = {}

    def of(self, uri: Uri) -> str:
        """Return the directory of a table."""
        name = f"{zlib.crc32(str(uri).encode()):08x}"
        return self.by_table.setdefault(str(uri), f"{self._directory}/{name}")


class OpenMode(NamedTuple):
    """The mode in which tables are opened for one planning of a statement.

    `needs`: the columns and bounds to read; None: all columns. `is_draft`: values are not decoded, but columns have the
    types of decoded ones, by expressions through which Spark plans; only the plan is used. `is_counting`: undecodable
    values are counted. `reports`: where readers report what they read; None: nowhere.
    """

    needs: Needs | None = None
    is_draft: bool = False
    is_counting: bool = False
    reports: TableReports | None = None


class RecordTable(NamedTuple):
    """An opened table. `observation` counts undecodable keys and values, None if nothing is decoded or counted.
    `is_decoded`: a draft of it differs from the table."""

    frame: DataFrame
    observation: Observation | None
    is_decoded: bool


class TopicMissing(PipelineError):
    """A name is neither a table, a view nor a topic."""


class RecordTables:
    """The topics of a cluster, and log files, as tables of a Spark session."""

    def __init__(self, spark: SparkSession, cluster: Cluster, options: TableOptions) -> None:
        self._spark = spark
        self._cluster = cluster
        self._options = options
        self._clock = SystemClock()
        self._topics: dict[str, TopicListing] = {}
        self._listed_ms: int | None = None
        self._plans: dict[tuple[str, int], formats.Plan] = {}
        self._newest_ids: dict[str, int | None] = {}

    def begin_statement(self) -> None:
        """Ask the registry for the newest schemas again. All plannings of a statement use the same ones."""
        self._newest_ids = {}

    def topics(self, *, max_age_ms: int = 0) -> dict[str, TopicListing]:
        """Return the topics by name, requested again if the list is older than `max_age_ms`. Raises PipelineError if no
        broker answers."""
        now_ms = self._clock.now_ms()
        if self._listed_ms is None or now_ms - self._listed_ms >= max_age_ms:
            try:
                with AdminClient(self._cluster.bootstrap, dict(self._cluster.settings), self._clock) as admin:
                    self._topics = {topic.name: topic for topic in list_topics(admin)}
            except KafkaError as error:
                raise PipelineError(str(error)) from error
            self._listed_ms = self._clock.now_ms()
        return self._topics

    def find(self, name: str, views: Collection[str] = ()) -> Uri:
        """Return the topic or log files of a name: topic:NAME, log:PATH or the name of a topic, in another case if only
        one topic fits. Raises TopicMissing, which suggests a topic or one of the views; PipelineError if the name fits
        several topics or no broker answers."""
        kind, colon, target = name.partition(":")
        if colon and kind == LOG and target:
            return Uri(LOG, target)
        topic = target if colon and kind == TOPIC else name
        if topic in self.topics(max_age_ms=_MAX_AGE_MS):
            return Uri(TOPIC, topic)
        topics = self.topics()
        similar = [other for other in topics if other.lower() == topic.lower()]
        if topic in topics or (len(similar) == 1 and not self._is_case_sensitive()):
            return Uri(TOPIC, topic if topic in topics else similar[0])
        if len(similar) > 1 and not self._is_case_sensitive():
            raise PipelineError(f"{topic} may be any of the topics {', '.join(sorted(similar))}")
        raise TopicMissing(f"There is no topic, view or table {name}{_suggestion(topic, {*topics, *views})}")

    def ensure_distinct(self, topic: str, names: set[str]) -> None:
        """Raise PipelineError if a statement with these names uses another topic whose name differs only in case: for
        Spark both would be one table."""
        others = {other for other in self._topics if other != topic and other.lower() == topic.lower()}
        if others & names and not self._is_case_sensitive():
            names_text = " and ".join(sorted({topic, *(others & names)}))
            raise PipelineError(
                f"The topics {names_text} differ only in case: set --conf spark.sql.caseSensitive=true to use both"
            )

    def key(self, name: str) -> str:
        """Return a name as Spark compares names: in lower case unless it is case-sensitive."""
        return name if self._is_case_sensitive() else name.lower()

    def _is_case_sensitive(self) -> bool:
        return (self._spark.conf.get("spark.sql.caseSensitive") or "").lower() == "true"

    def open(self, uri: Uri, mode: OpenMode) -> RecordTable:
        """Open a topic or log files. Raises PipelineError, and Spark's own exceptions."""
        options = dict(self._options.source)
        if mode.reports is not None:
            options = with_reports(options, mode.reports.of(uri))
        if mode.needs is not None:
            schema = columns_schema(mode.needs.columns)
            if mode.needs.bounds != RecordBounds():
                options["bounds"] = mode.needs.bounds.to_text()
        else:
            schema = columns_schema(frozenset(self._columns()))
        cluster = self._cluster if uri.kind == TOPIC else None
        # An INSERT would write to the source itself, even to a topic; Spark refuses it for a projection.
        table = read_source(self._spark, uri, options, cluster, schema).select("*")
        plans = [plan for part in PARTS if part in table.columns and (plan := self._plan(uri, part)) is not None]
        if mode.is_draft:
            return RecordTable(_draft(table, plans), None, bool(plans))
        for plan in plans:
            table = formats.decode(table, plan, strict=False)
        bad = [plan.bad_column for plan in plans]
        marks = [name for plan in plans for name in plan.mark_columns(strict=False)]
        if not bad or not mode.is_counting or is_connected(self._spark):
            return RecordTable(table.drop(*marks), None, bool(plans))
        observation = Observation(f"kt_{uri}")
        counts = [F.coalesce(F.sum(F.col(column).cast("long")), F.lit(0)).alias(column) for column in bad]
        return RecordTable(table.observe(observation, *counts).drop(*marks), observation, True)

    def _columns(self) -> list[str]:
        """Return the columns of a table of records, in the order of the source."""
        has_metadata = {name.lower(): text for name, text in self._options.source.items()}.get("includemetadata")
        metadata = METADATA_COLUMNS if (has_metadata or "").lower() == "true" else {}
        return [*RECORD_COLUMNS, *HEADER_COLUMNS, *metadata]

    # -- Schemas --

    def _plan(self, uri: Uri, part: str) -> formats.Plan | None:
        """Return how keys or values are decoded, by the newest schema of the topic's subject; None for bytes."""
        if uri.kind == TOPIC and self._options.registry is not None:
            with schema_failures():
                plan = self._registered_plan(f"{uri.target}-{part}", part)
            if plan is not None:
                return plan
        is_text = self._options.formats.get(part) == "string"
        return formats.Plan(part, "string") if is_text else None

    def _registered_plan(self, subject: str, part: str) -> formats.Plan | None:
        address, credentials = self._options.registry, self._options.credentials
        assert address is not None
        authorization = basic_authorization(*credentials) if credentials else None
        registry = SchemaRegistry(RegistryAccess((address,), authorization))
        if subject not in self._newest_ids:
            self._newest_ids[subject] = registry.newest_id(subject)
        newest = self._newest_ids[subject]
        if newest is None:
            return None
        if (part, newest) not in self._plans:
            registered = registry.by_id(newest)
            if registered is None:
                raise PipelineError(f"{address} has no schema {newest}, the newest one of the subject {subject}")
            self._plans[part, newest] = self._plan_of(registered.kind, part, subject, newest)
        return self._plans[part, newest]

    def _plan_of(self, kind: str, part: str, subject: str, number: int) -> formats.Plan:
        if kind == JSON:
            return formats.Plan(part, "json", StringType(), JsonText())
        decoding = Decoding(kind.lower(), registry=self._options.registry, credentials=self._options.credentials)
        if decoding.format not in ("avro", "protobuf"):
            raise PipelineError(f"The schema of {subject} is {kind}: only Avro, Protobuf and JSON can be decoded")
        sample = [schema_header(number)]  # instead of the subject, whose newest schema may be another one by now
        return formats.plan_decoding(self._spark, part, decoding, lambda _: sample, None)


def _suggestion(name: str, names: set[str]) -> str:
    matches = difflib.get_close_matches(name, sorted(names), n=1)
    return f"; did you mean {matches[0]}?" if matches else "; SHOW TABLES lists them"


def _draft(table: DataFrame, plans: list[formats.Plan]) -> DataFrame:
    """Return a table whose decoded columns have the right types and meaningless values."""
    for plan in plans:
        text = F.col(plan.part).cast("string")
        spark_type = plan.type or StringType()
        if isinstance(spark_type, (StructType, ArrayType, MapType)):
            draft = F.from_json(text, spark_type)
        else:
            draft = text.try_cast(spark_type)
        table = table.withColumn(plan.part, draft)
    return table


class JsonText:
    """Decodes values of JSON Schema to their JSON text: Spark has no type for any JSON."""

    finds_unknown_fields = False

    def start(self) -> ValueDecoder:
        """Return the decoder of values; it raises ValueError for bytes that are not a schema ID and JSON."""
        return ValueDecoder(_json_text)


def _json_text(data: bytes) -> str:
    if schema_id(data) is None:
        raise ValueError("no schema ID")
    text = data[HEADER_SIZE:].decode("utf-8")
    parse_json(text)
    return text
