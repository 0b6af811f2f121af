"""`kt pipeline sql` on the session of the tests: topics of a broker as tables, views, errors, and what is read."""

from __future__ import annotations

import json
import pathlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.avro_values import registered_value
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.schema_registry import Answer, Request, serving
from support.spark_classes import COMPILED, INTERPRETED

from kafkatools import Producer
from kafkatools.pipeline.catalog.options import TableOptions
from kafkatools.pipeline.catalog.views import ViewFile
from kafkatools.pipeline.run.session import register
from kafkatools.pipeline.uris import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="PySpark is not installed")

from kafkatools.pipeline.catalog.catalog import Catalog  # noqa: E402
from kafkatools.pipeline.catalog.tables import RecordTables, TableReports  # noqa: E402

RECORDS = 40


class Place(NamedTuple):
    """A broker, its log directory and the home of kt."""

    bootstrap: str
    log_dir: pathlib.Path
    home: pathlib.Path

    def run(self, *words: str, status: int = 0, stdin: bytes = b"") -> Ran:
        """`kt pipeline sql WORDS`."""
        server = ("--bootstrap-server", self.bootstrap)
        environ = {"KT_HOME": str(self.home)}
        ran = run_kt("pipeline", "sql", *words, *server, environ=environ, stdin=stdin, cwd=self.home)
        assert ran.status == status, (words, ran)
        return ran

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """The rows of --json."""
        return [json.loads(line) for line in self.run(*words, "--json").out.splitlines()]

    def views(self) -> list[pathlib.Path]:
        """The files of views in the home."""
        return list(self.home.glob("views/*.sql"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, pathlib.Path]]:
    directory = tmp_path_factory.mktemp("sql")
    with embedded_broker(directory, num_partitions="2") as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(RECORDS):
                headers = [("trace", b"%d" % number)]
                producer.send(
                    "orders", b"v%d" % number, key=b"k%d" % (number % 4), partition=number % 2, headers=headers
                )
                producer.send("a.b-c", b"\xff" if number % 4 == 0 else b"text", partition=0)
            for topic in ("Twins", "twins", "many.dots.more"):
                producer.send(topic, topic.encode())
        yield bootstrap, directory


@pytest.fixture(scope="module", autouse=True)
def _compiled(spark: SparkSession) -> Iterator[None]:
    """Queries of the session itself are compiled: Spark cannot decode the tables of its catalog otherwise."""
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    yield
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


@pytest.fixture
def place(spark: Any, broker: tuple[str, pathlib.Path], tmp_path: pathlib.Path) -> Place:
    return Place(*broker, tmp_path)


def test_topics_are_tables_by_their_names(place: Place) -> None:
    query = "SELECT partition, count(*) AS n, max(offset) AS last FROM orders GROUP BY partition ORDER BY 1"
    half = RECORDS // 2
    assert place.rows(query) == [{"partition": number, "n": half, "last": half - 1} for number in (0, 1)]
    assert place.run(query).out.split() == ["partition", "n", "last", "0", "20", "19", "1", "20", "19"]
    assert place.run(query, "--output-format", "csv").out == "partition,n,last\n0,20,19\n1,20,19\n"
    (first,) = place.rows("SELECT * FROM `topic:orders` WHERE partition = 1 AND offset = 0")
    assert list(first) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert (first["key"], first["value"], first["headers"]) == ("k1", "v1", [{"key": "trace", "value": "1"}])
    (metadata,) = place.rows("SELECT * FROM orders LIMIT 1", "--from-option", "includeMetadata=true")
    assert {"leaderEpoch", "producerId", "batchPosition"} <= set(metadata)
    assert not place.views()


def test_log_files_are_tables_too(place: Place) -> None:
    query = f"SELECT count(*) AS n FROM `log:{place.log_dir}/orders-0` JOIN orders USING (partition, offset)"
    assert place.rows(query) == [{"n": RECORDS // 2}]
    missing = place.run("SELECT * FROM `log:/not/there`", status=1)
    assert missing.err.splitlines()[-1] == "/not/there does not exist"


def test_a_query_goes_on_if_reports_for_sparks_ui_cannot_be_written(place: Place, spark: SparkSession) -> None:
    file = place.home / "file"
    file.write_text("")
    register(spark)
    tables = RecordTables(spark, Cluster(place.bootstrap, {}), TableOptions.of(None, "string", "string", {}))
    catalog = Catalog(spark, tables, ViewFile(str(place.home / "views.sql")))
    values = f"SELECT value FROM orders UNION ALL SELECT value FROM `log:{place.log_dir}/orders-0`"
    prepared = catalog.prepare(f"SELECT count(value) AS n FROM ({values})", reports=TableReports(str(file)))
    assert prepared.frame is not None
    assert [row.n for row in prepared.frame.collect()] == [RECORDS + RECORDS // 2]


def test_show_tables_and_describe(place: Place) -> None:
    assert place.rows("SHOW TABLES LIKE 'a*|ord*'") == [
        {"name": "a.b-c", "kind": "topic"},
        {"name": "orders", "kind": "topic"},
    ]
    group = ("--group", "g", "--topic", "orders", "--reset-offsets", "--to-earliest", "--execute")
    made = run_kt("consumer-groups", "--bootstrap-server", place.bootstrap, *group, cwd=place.home)
    assert made.status == 0, made
    assert not any(row["name"].startswith("_") for row in place.rows("SHOW TABLES"))
    assert {"name": "__consumer_offsets", "kind": "internal topic"} in place.rows("SHOW TABLES LIKE '__*'")
    assert place.rows("SELECT count(*) > 0 AS some FROM __consumer_offsets") == [{"some": True}]
    columns = {row["col_name"]: row["data_type"] for row in place.rows("DESCRIBE orders")}
    assert columns["value"] == "binary" and columns["offset"] == "bigint"


def test_several_statements_of_arguments_files_and_stdin(place: Place, tmp_path: pathlib.Path) -> None:
    (tmp_path / "both.sql").write_text("-- ; one\nSELECT 1 AS a;\n\nSELECT nme\nFROM orders;\nSELECT 2 AS b")
    ran = place.run("--file", "both.sql", status=2)
    assert ran.out.split() == ["a", "1"]
    error = ran.err.splitlines()[-3:]
    assert error[0].startswith("A column") and error[0].endswith("(both.sql, line 4, position 8)")
    assert error[1:] == ["  SELECT nme", "         ^"]
    assert place.run("-e", "SELECT 1 AS a; SELECT 2 AS b").out.split() == ["a", "1", "b", "2"]
    assert place.run(stdin=b"SELECT 1 AS a;\nSELECT\n2 AS b").out.split() == ["a", "1", "b", "2"]
    (tmp_path / "marked.sql").write_bytes(b"\xef\xbb\xbfSELECT 1 AS a;")
    assert place.run("-f", "marked.sql").out.split() == ["a", "1"], "with a byte order mark"
    assert place.run(stdin=b"\xef\xbb\xbfSELECT 1 AS a").out.split() == ["a", "1"]
    later = place.run(stdin=b"SELECT 1 AS a;\n\nSELEC;\n", status=2)
    assert "Syntax error at or near 'SELEC'. (line 3, position 1)\n  SELEC\n  ^\n" in later.err
    for words in (
        ("SELECT 1", "-e", "SELECT 1"),
        ("--file", "missing.sql"),
        ("-- nothing",),
        ("SELECT 1", "--output-format", "xml"),
    ):
        assert place.run(*words, status=2).out == ""
    assert "stdin contains no SQL statement" in place.run(stdin=b"-- nothing\n", status=2).err
    assert "stdin is not UTF-8 text: line 2" in place.run(stdin=b"SELECT\n'\xff';\n", status=2).err


def test_only_what_a_query_uses_is_read(spark: Any, place: Place) -> None:
    """By the plan: the columns, and the bounds that the source is given."""
    catalog = catalog_of(spark, place, value="string")
    for query, columns in (
        ("SELECT key FROM orders WHERE offset >= 15", {"key", "offset"}),
        ("SELECT count(*) FROM orders", {"partition"}),
        ("SELECT count(*) FROM orders WHERE timestamp > now() - INTERVAL 1 HOUR", {"timestamp"}),
        ("SELECT value FROM (SELECT * FROM orders) WHERE partition = 1", {"value", "partition"}),
    ):
        frame = catalog.sql(query)
        (scan,) = [line for line in plan_of(frame).splitlines() if "RelationV2" in line]
        read = {column.split("#")[0] for column in scan.split("[")[1].split("]")[0].split(", ")}
        assert read == columns, scan
    assert "kt" not in plan_of(catalog.sql("SELECT 1"))


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().analyzed().toString())


def catalog_of(spark: Any, place: Place, **options: Any) -> Any:
    from kafkatools.pipeline.catalog import open_catalog

    return open_catalog(spark, place.bootstrap, **options)


def test_topics_are_found_when_they_are_used_and_read_to_their_present_end(spark: Any, place: Place) -> None:
    catalog = catalog_of(spark, place)
    name = f"late-{uuid.uuid4().hex}"
    with Producer(bootstrap_servers=place.bootstrap) as producer:
        for count in (1, 2, 3):
            producer.send(name, b"v").result()
            assert catalog.table(name).count() == count
            assert [row.n for row in catalog.sql(f"SELECT count(*) AS n FROM `{name}`").collect()] == [count]
    assert name in [entry.name for entry in catalog.tables()]


def test_frames_stay_usable_beside_later_ones(spark: Any, place: Place) -> None:
    catalog = catalog_of(spark, place)
    keys = catalog.sql("SELECT key, partition, offset FROM orders WHERE offset < 5")
    values = catalog.sql("SELECT value, partition, offset FROM orders WHERE offset < 3")
    assert keys.join(values, ["partition", "offset"]).count() == 6
    assert keys.count() == 10


def test_catalogs_of_two_clusters_on_one_session(spark: Any, place: Place, tmp_path: pathlib.Path) -> None:
    first = catalog_of(spark, place)
    with embedded_broker(tmp_path / "second") as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send("orders", b"of the second cluster")
        second = catalog_of(spark, place._replace(bootstrap=bootstrap))
        query = "SELECT count(*) AS n FROM orders"
        frames = [catalog.sql(query) for catalog in (first, second, first)]
        assert [frame.collect()[0].n for frame in frames] == [RECORDS, 1, RECORDS]
    assert "orders" not in [table.name for table in spark.catalog.listTables()]


def test_a_semicolon_at_the_end_of_a_programs_statement(spark: Any, place: Place) -> None:
    catalog = catalog_of(spark, place)
    catalog.sql("CREATE VIEW kept AS SELECT 1 AS one;")
    assert catalog.sql("SELECT one FROM kept; -- the end").collect()[0].one == 1
    assert "kept" in [row.name for row in catalog.sql("SHOW VIEWS;").collect()]
    catalog.sql("DROP VIEW kept;")
    assert "kept" not in [row.name for row in catalog.sql("SHOW VIEWS").collect()], "other tests left views"


def test_a_statement_that_writes_runs_once_over_whole_tables(place: Place, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "files"
    place.run(
        f"CREATE TEMPORARY VIEW some AS SELECT value FROM orders WHERE offset < 5;"
        f"INSERT OVERWRITE DIRECTORY '{target}' USING csv SELECT value FROM some WHERE partition = 0",
        status=2,
    )
    place.run(
        f"INSERT OVERWRITE DIRECTORY '{target}' USING csv SELECT value FROM orders WHERE offset < 5",
        "--value",
        "string",
    )
    lines = sorted(line for path in target.glob("*.csv") for line in path.read_text().splitlines())
    assert lines == sorted(f"v{number}" for number in range(10))
    name = f"t{uuid.uuid4().hex}"
    ran = place.rows(
        f"CREATE TABLE {name} USING parquet AS SELECT key FROM orders; INSERT INTO {name} SELECT key FROM orders;"
        f"SELECT count(*) AS n FROM {name}; DROP TABLE {name}"
    )
    assert ran == [{"n": 2 * RECORDS}]
    assert not (place.home / "spark-warehouse").exists() and not pathlib.Path("spark-warehouse").exists()


def test_topics_cannot_be_changed(place: Place) -> None:
    for statement in (
        "INSERT INTO orders SELECT 1",
        "DELETE FROM orders",
        "DROP TABLE orders",
        "TRUNCATE TABLE `a.b-c`",
        "CREATE TABLE orders AS SELECT 1 AS one",
    ):
        ran = place.run(statement, status=2)
        assert "can only be read here; kt pipeline run --to topic:NAME writes to a topic" in ran.err
    assert place.rows("SELECT count(*) AS n FROM orders") == [{"n": RECORDS}]


@pytest.mark.parametrize("options", [(), ("--from-option", "strictOptions=false")])
@pytest.mark.parametrize(
    "statement",
    [
        "WITH some AS (SELECT * FROM orders LIMIT 1) INSERT INTO orders SELECT * FROM some",
        "FROM orders INSERT INTO orders SELECT *",
        "INSERT INTO IDENTIFIER('orders') SELECT * FROM orders",
        "EXECUTE IMMEDIATE 'INSERT INTO orders SELECT * FROM orders'",
    ],
)
def test_no_statement_writes_to_a_topic(place: Place, statement: str, options: tuple[str, ...]) -> None:
    assert "can only be read here" in place.run(statement, *options, status=2).err
    assert place.rows("SELECT count(*) AS n FROM orders") == [{"n": RECORDS}]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT * FROM ordrs", "There is no topic, view or table ordrs; did you mean orders? (line 1, position 15)"),
        (
            "SELECT 1 FROM zzzzzz",
            "There is no topic, view or table zzzzzz; SHOW TABLES lists them (line 1, position 15)",
        ),
        (
            "SELECT * FROM many.dots.more",
            "Write the name of the topic many.dots.more in backticks: `many.dots.more`",
        ),
        ("SELECT * FROM spark_catalog.default.x", "The table or view `spark_catalog`.`default`.`x` cannot be found."),
        (
            "CREATE VIEW x.y AS SELECT 1",
            "The name of a view cannot have a schema; write a name with a dot in backticks",
        ),
    ],
)
def test_unknown_and_invalid_names_are_errors(place: Place, statement: str, error: str) -> None:
    ran = place.run(statement, status=2)
    assert error in ran.err and "Traceback" not in ran.err and "\tat " not in ran.err
    assert ran.out == ""


def test_a_statement_that_fails_names_the_place(place: Place) -> None:
    ran = place.run("SELECT partition,\n  1 / 0 AS x FROM orders", status=1)
    assert "(line 2, position 3)\n    1 / 0 AS x FROM orders\n    ^\n" in ran.err
    assert "Traceback" not in ran.err and "\tat " not in ran.err


def test_a_place_in_an_explained_query(place: Place) -> None:
    ran = place.run("EXPLAIN\nSELECT nme FROM orders", status=2)
    assert "(line 2, position 8)\n  SELECT nme FROM orders\n         ^\n" in ran.err
    ran = place.run("EXPLAIN EXTENDED SELECT * FROM ordrs", status=2)
    assert "did you mean orders? (line 1, position 32)" in ran.err


def test_the_status_is_1_for_values_that_fail_in_any_statement(place: Place, tmp_path: pathlib.Path) -> None:
    numbers = "SELECT CAST(CAST(value AS STRING) AS INT) AS number FROM orders"
    for statement in (numbers, f"INSERT OVERWRITE DIRECTORY '{tmp_path / 'numbers'}' USING csv {numbers}"):
        assert 'of the type "STRING" cannot be cast to "INT"' in place.run(statement, status=1).err
    place.run("SET spark.sql.shuffle.partitions=many", status=2)


def test_a_time_that_python_does_not_have(place: Place) -> None:
    ran = place.run("SELECT timestamp_seconds(1000000000000) AS t", status=1)
    assert "A value cannot be shown: year 33658 is out of range; CAST(... AS STRING)" in ran.err
    assert place.rows("SELECT CAST(timestamp_seconds(1000000000000) AS STRING) AS t")[0]["t"].startswith("+33658-")


def test_names_that_differ_in_case(place: Place) -> None:
    assert place.rows("SELECT CAST(value AS STRING) AS v FROM Twins") == [{"v": "Twins"}]
    assert place.rows("SELECT CAST(value AS STRING) AS v FROM twins") == [{"v": "twins"}]
    assert place.rows("SELECT count(*) AS n FROM ORDERS") == [{"n": RECORDS}]
    both = place.run("SELECT * FROM Twins CROSS JOIN twins", status=1)
    assert "The topics Twins and twins differ only in case: set --conf spark.sql.caseSensitive=true" in both.err
    assert "TWINS may be any of the topics Twins, twins" in place.run("SELECT * FROM TWINS", status=1).err
    words = (
        "SELECT a.topic AS a, b.topic AS b FROM Twins a CROSS JOIN twins b",
        "--conf",
        "spark.sql.caseSensitive=true",
    )
    assert place.rows(*words) == [{"a": "Twins", "b": "twins"}]


def test_json_errors_have_kind_exit_status_and_place(place: Place) -> None:
    ran = place.run("SELECT\n  nme FROM orders", "--json", status=2)
    (error,) = [json.loads(line)["error"] for line in ran.err.splitlines()]
    assert (error["kind"], error["line_number"], error["position"]) == ("USAGE", 2, 3)


def test_values_that_cannot_be_decoded_are_counted(place: Place) -> None:
    ran = place.run("SELECT count(*) AS n, count(value) AS good FROM `a.b-c`", "--value", "string")
    assert ran.out.split() == ["n", "good", "40", "30"]
    assert "topic:a.b-c: 10 values could not be decoded: null in their place\n" in ran.err
    assert "decoded" not in place.run("SELECT count(*) FROM `a.b-c`", "--value", "string").err
    twice = "SELECT a.value FROM `a.b-c` a JOIN `a.b-c` b ON a.offset = b.offset WHERE b.offset < 2"
    assert len(place.rows(twice, "--value", "string")) == 2


# -- Views --


def test_views_are_kept_for_the_cluster(place: Place) -> None:
    created = place.run(
        "CREATE VIEW late(k, v) AS SELECT key, value FROM orders WHERE offset >= 15; SELECT count(*) FROM late"
    )
    (path,) = place.views()
    assert created.out.split() == ["count(1)", "10"] and f"Created the view late in {path}\n" in created.err
    assert place.rows("SELECT v FROM LATE WHERE k = 'k1' ORDER BY v LIMIT 1") == [{"v": "v33"}]
    assert {"name": "late", "kind": "view"} in place.rows("SHOW TABLES")
    assert place.rows("SHOW VIEWS") == [{"name": "late", "kind": "view"}]
    place.run("CREATE VIEW nested AS SELECT v FROM late")
    assert place.rows("SELECT count(*) AS n FROM nested") == [{"n": 10}]
    assert (
        "The view late exists; CREATE OR REPLACE VIEW replaces it"
        in place.run("CREATE VIEW late AS SELECT 1", status=2).err
    )
    place.run("CREATE VIEW IF NOT EXISTS late AS SELECT 1")
    place.run("CREATE OR REPLACE VIEW late AS SELECT 1 AS one")
    assert place.rows("SELECT * FROM late") == [{"one": 1}]
    broken = place.run("SELECT * FROM nested", status=1)
    assert f"View nested ({path}, line 3): A column" in broken.err and "`v`" in broken.err
    place.run("DROP VIEW late; DROP VIEW nested")
    assert place.rows("SHOW VIEWS") == [] and path.read_text() == ""
    assert "cannot be found" in place.run("DROP VIEW late", status=2).err
    place.run("DROP VIEW IF EXISTS late")


def test_a_view_that_is_wrong_is_not_kept(place: Place) -> None:
    ran = place.run("CREATE VIEW v\nAS SELECT nme FROM orders", status=2)
    assert "(line 2, position 11)\n  AS SELECT nme FROM orders\n            ^\n" in ran.err
    ran = place.run("CREATE VIEW v AS SELECT * FROM ordrs", status=2)
    assert "(line 1, position 32)\n  CREATE VIEW v AS SELECT * FROM ordrs\n" in ran.err
    assert "orders is a topic" in place.run("CREATE VIEW orders AS SELECT 1", status=2).err
    assert "The view v uses itself" in place.run("CREATE VIEW v AS SELECT * FROM v", status=2).err
    hidden = place.run("CREATE TEMPORARY VIEW v AS SELECT 1; CREATE VIEW v AS SELECT 2", status=2)
    assert "v is a table or temporary view of Spark, which would hide the view" in hidden.err
    assert not place.views()


def test_broken_views_do_not_stop_the_others(place: Place, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "views.sql"
    path.write_text(
        "CREATE VIEW good AS SELECT count(*) AS n FROM orders;\n\nCREATE VIEW bad AS SELECT * FROM gone;\n"
        "CREATE VIEW loop AS SELECT * FROM loop;\nSELECT 1;\n"
    )
    words = ("--views", str(path))
    good = place.run("SELECT * FROM good", *words)
    assert good.out.split() == ["n", "40"] and f"{path}, line 5: The statement is not CREATE VIEW\n" in good.err
    bad = place.run("SELECT * FROM bad", *words, status=1)
    assert f"View bad ({path}, line 3): There is no topic, view or table gone" in bad.err
    assert (
        f"View loop ({path}, line 4): The view loop uses itself"
        in place.run("SELECT * FROM loop", *words, status=1).err
    )


def test_an_error_inside_of_a_view_has_no_place_in_the_statement(place: Place) -> None:
    place.run("CREATE VIEW divided AS SELECT partition, 1 / 0 AS x FROM orders")
    ran = place.run("SELECT x FROM divided", status=1)
    assert "Division by zero" in ran.err and "(in the view divided)\n" in ran.err
    assert "position" not in ran.err and "^" not in ran.err


def test_a_file_of_views_that_cannot_be_read(place: Place, tmp_path: pathlib.Path) -> None:
    (tmp_path / "views.sql").write_bytes(b"CREATE VIEW late AS SELECT '\xff'")
    words = ("--views", str(tmp_path / "views.sql"))
    assert place.rows("SELECT count(*) AS n FROM orders", *words) == [{"n": RECORDS}]
    for statement in ("SELECT * FROM late", "SHOW TABLES"):
        assert "is not UTF-8 text: byte 28" in place.run(statement, *words, status=1).err.splitlines()[-1]


# -- Schemas --


ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
WIDER = {**ORDER, "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}]}


class Schemas:
    """A registry whose subjects a test sets: the newest schema of each by its ID."""

    def __init__(self) -> None:
        self.by_id: dict[int, tuple[str, Any, tuple[str, ...]]] = {}
        self.subjects: dict[str, int] = {}
        self.is_away = False

    def add(self, subject: str, kind: str, schema: Any, *references: str) -> int:
        """Register a schema; `references` are subjects that are named as the schema names them."""
        number = len(self.by_id) + 1
        self.by_id[number] = kind, schema, references
        self.subjects[subject] = number
        return number

    def respond(self, request: Request) -> Answer:
        if self.is_away:
            return Answer(503, "{}")
        parts = request.path.split("?")[0].strip("/").split("/")
        number = int(parts[-1]) if parts[0] == "schemas" else self.subjects.get(parts[1])
        if number not in self.by_id:
            return Answer(404, json.dumps({"error_code": 40401, "message": "not found"}))
        kind, schema, names = self.by_id[number]
        text = schema if isinstance(schema, str) else json.dumps(schema)
        references = [{"name": name, "subject": name, "version": 1} for name in names]
        reply = {"id": number, "version": 1, "schemaType": kind, "schema": text, "references": references}
        return Answer(200, json.dumps(reply))


def test_a_registry_gives_the_columns_of_a_topic(spark: Any, place: Place) -> None:
    pytest.importorskip("fastavro")
    schemas, topic = Schemas(), f"payments{uuid.uuid4().hex[:8]}"
    with serving(schemas.respond) as server, Producer(bootstrap_servers=place.bootstrap) as producer:
        words = ("--schema-registry", server.url)
        old = schemas.add(f"{topic}-value", "AVRO", ORDER)
        schemas.add(f"{topic}-key", "AVRO", '"long"')
        for number in range(10):
            key = registered_value(2, "long", number)
            producer.send(topic, registered_value(old, ORDER, {"id": number}), key=key, partition=0).result()
        rows = place.rows(f"SELECT key, value.id AS id FROM {topic} WHERE offset >= 8 ORDER BY offset", *words)
        assert rows == [{"key": 8, "id": 8}, {"key": 9, "id": 9}]
        described = {row["col_name"]: row["data_type"] for row in place.rows(f"DESCRIBE {topic}", *words)}
        assert (described["key"], described["value"]) == ("bigint", "struct<id:bigint>")
        # The other topics of the cluster keep their bytes; a view goes through the schema too.
        assert place.rows("SELECT count(value) AS n FROM orders", *words) == [{"n": RECORDS}]
        place.run(f"CREATE VIEW ids AS SELECT value.id AS id, offset FROM {topic}", *words)
        assert place.rows("SELECT sum(id) AS total FROM ids WHERE offset < 3", *words) == [{"total": 3}]

        catalog = catalog_of(spark, place, schema_registry=server.url)
        frame = catalog.sql(f"SELECT value.id FROM {topic} WHERE offset >= 8 AND partition >= 0")
        (scan,) = [line for line in plan_of(frame).splitlines() if "RelationV2" in line]
        assert "key#" not in scan and "headers#" not in scan and "value#" in scan
        assert "value#" not in plan_of(catalog.sql(f"SELECT offset FROM {topic}")).split("RelationV2")[1]

        # A newer schema, while the catalog is open: its fields, also of older values.
        newest = schemas.add(f"{topic}-value", "AVRO", WIDER)
        producer.send(topic, registered_value(newest, WIDER, {"id": 10, "note": "new"}), key=key, partition=0).result()
        producer.send(topic, b"not Avro", key=key, partition=0).result()
        notes = catalog.sql(f"SELECT value.note, count(*) AS n FROM {topic} GROUP BY 1 ORDER BY n")
        assert sorted((row.note or "", row.n) for row in notes.collect()) == [("", 1), ("new", 1), ("none", 10)]
        ran = place.run(f"SELECT count(value.note) AS n FROM {topic}", *words)
        assert ran.out.split() == ["n", "11"]
        assert f"topic:{topic}: 1 value could not be decoded: null in their place" in ran.err
        schemas.is_away = True
        assert server.url in place.run(f"SELECT * FROM {topic}", *words, status=1).err


MONEY = 'syntax = "proto3";\npackage m;\nmessage Money { int64 cents = 1; }\n'
BASKET = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "money.proto";
message Basket { string user = 1; m.Money total = 2; repeated m.Money items = 3; google.protobuf.Timestamp at = 4; }
"""
POINT = {"type": "record", "name": "Point", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "a", "type": "n.Point"}, {"name": "b", "type": "n.Point"}],
}


def test_protobuf_and_schemas_with_references(spark: Any, place: Place) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("google.protobuf")
    schemas, suffix = Schemas(), uuid.uuid4().hex[:8]
    schemas.add("money.proto", "PROTOBUF", MONEY)
    schemas.add("n.Point", "AVRO", POINT)
    basket = schemas.add(f"baskets{suffix}-value", "PROTOBUF", BASKET, "money.proto")
    line = schemas.add(f"lines{suffix}-value", "AVRO", LINE, "n.Point")
    with serving(schemas.respond) as server, Producer(bootstrap_servers=place.bootstrap) as producer:
        # user: "ada", total { cents: 7 }, items { cents: 3 }, items { cents: 4 }, at { seconds: 5 }
        body = bytes.fromhex("0a03616461 12020807 1a020803 1a020804 22020805")
        framed = b"\0" + basket.to_bytes(4, "big")
        producer.send(f"baskets{suffix}", framed + b"\0" + body).result()
        producer.send(f"baskets{suffix}", framed + b"\0" + b"\xff").result()
        producer.send(f"lines{suffix}", b"\0" + line.to_bytes(4, "big") + b"\x02\x04").result()
        catalog = catalog_of(spark, place, schema_registry=server.url)
        assert catalog.sql("SHOW TABLES").count() > 2 and not server.requests, "no topic is used"
        columns = {row.col_name: row.data_type for row in catalog.sql(f"DESCRIBE baskets{suffix}").collect()}
        cents = "struct<cents:bigint>"
        assert columns["value"] == f"struct<user:string,total:{cents},items:array<{cents}>,at:timestamp>"
        query = "SELECT value.user, value.total.cents, value.items[1].cents AS last, unix_seconds(value.at) AS at"
        rows = catalog.sql(f"{query} FROM baskets{suffix} ORDER BY offset").collect()
        assert [tuple(row) for row in rows] == [("ada", 7, 4, 5), (None, None, None, None)]
        del server.requests[:]
        joined = f"SELECT value.b.x FROM lines{suffix} a JOIN (SELECT offset FROM baskets{suffix}) b USING (offset)"
        assert [row.x for row in catalog.sql(joined).collect()] == [2]
        asked = [request.path for request in server.requests]
        newest = [path for path in asked if path.endswith("/latest")]
        parts = [f"/subjects/{topic}{suffix}-{part}/versions/latest" for topic in ("baskets", "lines")
                 for part in ("key", "value")]  # fmt: skip
        assert sorted(newest) == sorted(parts), "once in a statement"
        assert len(asked) <= 4 + 2 * len(("schema", "reference")) + 2, asked
        del server.requests[:]
        catalog.sql(joined)
        assert sorted(request.path for request in server.requests) == sorted(parts), "schemas are kept"


def test_a_value_with_a_json_schema_is_its_json_text(place: Place) -> None:
    schemas, topic = Schemas(), f"events{uuid.uuid4().hex[:8]}"
    number = schemas.add(f"{topic}-value", "JSON", {"type": "object"})
    with serving(schemas.respond) as server, Producer(bootstrap_servers=place.bootstrap) as producer:
        producer.send(topic, b"\0" + number.to_bytes(4, "big") + b'{"user":"ada"}').result()
        producer.send(topic, b'{"user":"no header"}').result()
        words = ("--schema-registry", server.url)
        ran = place.run(f"SELECT get_json_object(value, '$.user') AS user FROM {topic} WHERE value IS NOT NULL", *words)
        assert ran.out.split() == ["user", "ada"] and "1 value could not be decoded" in ran.err


def test_wrong_options_are_refused_before_spark_is_asked(place: Place) -> None:
    for words, error in (
        (("--value", "json"), "--value must be binary or string, not 'json'"),
        (("--schema-registry", "registry:8081"), "--schema-registry must be http://HOST:PORT or https://HOST:PORT"),
    ):
        assert error in place.run("SELECT 1", *words, status=2).err
    away = run_kt("pipeline", "sql", "SELECT 1", "--bootstrap-server", "127.0.0.1:1")
    assert away.status == 1 and "127.0.0.1:1" in away.err
