"""`kt pipeline run` in this process, on the session of the tests: topics of an embedded broker and its files, SQL and
sinks, what is told at the end, and how mistakes are told."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.embedded import embedded_broker
from support.json_schemas import schema_of
from support.kt import Ran, run_kt

USERS = ("ann", "bob", "cid", "dan", "eve")
ORDERS = [{"user": USERS[at % 5], "amount": at, "tags": ["a", "b"][: at % 3]} for at in range(60)]
BAD = [b"{not json", b"\xff\xfe"]


class Place(NamedTuple):
    """A broker with topics, its log directory, and a directory for what runs write."""

    bootstrap: str
    log_dir: pathlib.Path
    directory: pathlib.Path

    def run(self, *words: str, status: int = 0, source: bool = True) -> Ran:
        """`kt pipeline run` in the directory."""
        server = ("--bootstrap-server", self.bootstrap) if source else ()
        ran = run_kt("pipeline", "run", *server, *words, cwd=self.directory)
        assert ran.status == status, (words, ran)
        return ran

    def rows(self, *words: str, status: int = 0) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The rows of a run to console:, and what is told of it; every line is one of the schema's."""
        ran = self.run(*words, "--to", "console:", "--json", status=status)
        for line in ran.out.splitlines():
            assert schema_of("pipeline").kind_of(line) == "row"
        (told,) = ran.err.splitlines()
        assert schema_of("pipeline").kind_of(told, stderr=True) == "run"
        return [json.loads(line) for line in ran.out.splitlines()], json.loads(told)


@pytest.fixture(scope="module")
def place(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("runs")
    with embedded_broker(directory / "data", num_partitions="2") as bootstrap:
        made = Place(bootstrap, directory / "data", directory)
        server = ("--bootstrap-server", bootstrap)
        for topic, values in (
            ("orders", [b"%s|%s" % (order["user"].encode(), json.dumps(order).encode()) for order in ORDERS]),
            ("spoilt", [b'a|{"user":"x","amount":1}', *(b"b|" + one for one in BAD), b'c|{"user":"y","amount":2}']),
        ):
            run_kt("topics", *server, "--create", "--topic", topic, "--partitions", "2")
            words = ("--property", "parse.key=true", "--property", "key.separator=|")
            stdin = b"".join(one + b"\n" for one in values)
            sent = run_kt("console-producer", *server, "--topic", topic, *words, stdin=stdin)
            assert sent.status == 0, sent
        yield made


def test_sql_over_decoded_values_of_a_topic(place: Place) -> None:
    sql = "SELECT value.user AS user, sum(value.amount) AS total FROM input GROUP BY 1 ORDER BY 1"
    rows, told = place.rows("--from", "topic:orders", "--value", "json", "--sql", sql)
    expected = {user: sum(one["amount"] for one in ORDERS if one["user"] == user) for user in USERS}
    assert {row["user"]: row["total"] for row in rows} == expected
    (source,) = told["sources"]
    assert (source["records"], source["bad_values"], source["bad_keys"]) == (60, 0, None)
    assert [one["partition"] for one in source["partitions"]] == [0, 1]
    assert sum(one["last_offset"] - one["first_offset"] + 1 for one in source["partitions"]) == 60
    assert told["sink"] == {"uri": "console:", "rows": 5, "files": None}


def test_the_files_of_a_log_give_what_the_topic_gives(place: Place) -> None:
    columns = "topic, partition, offset, CAST(value AS string) AS text"
    sql = f"SELECT {columns} FROM input WHERE topic = 'orders' ORDER BY 1, 2, 3"
    live, of_topic = place.rows("--from", "topic:orders", "--sql", sql)
    read, of_log = place.rows("--from", f"log:{place.log_dir}", "--sql", sql)
    assert read == live and len(live) == 60
    checksums = {one["partition"]: one["checksum"] for one in of_topic["sources"][0]["partitions"]}
    partitions = [one for one in of_log["sources"][0]["partitions"] if one["topic"] == "orders"]
    assert {one["partition"]: one["checksum"] for one in partitions} == checksums


def test_a_table_is_aligned_and_nulls_and_structs_are_shown(place: Place) -> None:
    sql = (
        "SELECT 1 AS one, 'a  b' AS text, CAST(NULL AS int) AS none, named_struct('x', array(1.50, 2)) AS s, true AS t"
    )
    ran = place.run("--from", "topic:orders", "--sql", f"{sql} FROM input LIMIT 1", "--to", "console:")
    assert ran.out == 'one  text  none  s                      t\n1    a  b  null  {"x":["1.50","2.00"]}  true\n'
    assert ran.err.splitlines()[-1] == "console: 1 row"


def test_what_cannot_be_decoded_is_null_and_counted(place: Place) -> None:
    words = ("--from", "topic:spoilt", "--value", "json")
    rows, told = place.rows(*words, "--sql", "SELECT value.user AS user FROM input")
    assert sorted(str(row["user"]) for row in rows) == ["None", "None", "x", "y"]
    assert told["sources"][0]["bad_values"] == 2
    ran = place.run(*words, "--to", "parquet:spoilt", "--mode", "overwrite")
    assert "topic:spoilt: 2 values could not be decoded: null in their place" in ran.err.splitlines()
    strict = place.run(*words, "--strict", "--to", "parquet:strict", status=1)
    (line,) = strict.err.splitlines()
    assert line.startswith("the value of spoilt-") and line.endswith("cannot be decoded as json")
    texts, told = place.rows("--from", "topic:spoilt", "--value", "string", "--sql", "SELECT value FROM input")
    assert sum(row["value"] is None for row in texts) == told["sources"][0]["bad_values"] == 1


def test_a_schema_file_instead_of_inference(place: Place) -> None:
    (place.directory / "order.ddl").write_text("user STRING, amount INT, missing DOUBLE")
    words = ("--from", "topic:orders", "--value", "json", "--value-schema", "order.ddl")
    rows, _ = place.rows(*words, "--sql", "SELECT value.* FROM input WHERE value.amount = 7")
    assert rows == [{"user": "cid", "amount": 7, "missing": None}]
    (place.directory / "bad.ddl").write_text("user STRING STRING")
    ran = place.run(
        "--from", "topic:orders", "--value", "json", "--value-schema", "bad.ddl", "--to", "console:", status=1
    )
    (line,) = ran.err.splitlines()
    assert line.startswith("bad.ddl is not a Spark schema: Syntax error at or near 'STRING'")


def test_a_file_sink_and_its_modes(place: Place) -> None:
    words = ("--from", "topic:orders", "--value", "json", "--sql", "SELECT value.* FROM input", "--to", "json:out")
    ran = place.run(*words, "--partition-by", "user")
    first, last = ran.err.splitlines()
    assert first == "topic:orders: 60 records of 2 partitions"
    assert last.startswith("json:out: 60 rows in ")
    files = (place.directory / "out").glob("user=ann/*.json")
    written = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(row["amount"] for row in written) == [one["amount"] for one in ORDERS if one["user"] == "ann"]
    asked = place.run(*words, status=1)
    assert asked.err == "json:out already exists; choose --mode append, overwrite or ignore\n"
    assert place.run(*words, "--mode", "ignore").err == "json:out: nothing to do\n"
    assert (
        place.run(*words, "--mode", "error", status=1).err
        == "json:out already exists, and --mode error does not write to an existing sink\n"
    )
    place.run(*words, "--mode", "append", "--partition-by", "user")
    rows, told = place.rows("--from", "json:out", "--sql", "SELECT count(*) AS n FROM input")
    assert rows == [{"n": 120}]
    assert told["sources"][0]["records"] is None


def test_a_function_instead_of_sql_and_csv(place: Place) -> None:
    (place.directory / "shaping.py").write_text(
        "from pyspark.sql.functions import udf\n\n\ndef double(x):\n    return x * 2\n\n\n"
        "def shape(table):\n    return table.select(udf(double, 'int')('value.amount').alias('n'))\n\n\n"
        "def wrong(table):\n    return 3\n"
    )
    words = ("--from", "topic:orders", "--value", "json", "--to", "csv:shaped")
    place.run(*words, "--transform", "shaping:shape")
    rows, _ = place.rows("--from", "csv:shaped", "--sql", "SELECT sum(n) AS n FROM input")
    assert rows == [{"n": 2 * sum(range(60))}]
    bytes_only = place.run("--from", "topic:orders", "--to", "csv:raw", status=1)
    hint = "decode with --key string and --value string, or omit with --sql"
    assert bytes_only.err == f"CSV cannot hold binary columns (key, value): {hint}\n"
    wrong = place.run(*words, "--mode", "append", "--transform", "shaping:wrong", status=1)
    assert wrong.err == "--transform shaping:wrong: the function returns int, not a DataFrame\n"
    wrong = place.run(*words, "--mode", "append", "--transform", "shaping:none", status=1)
    assert wrong.err == "--transform shaping:none: the module shaping has no function none\n"


def test_columns_with_dots_become_json_for_a_topic(spark: Any) -> None:
    from kafkatools.pipeline.run.batch import as_records

    rows = spark.createDataFrame([(1, "x", "k")], ["user.id", "a`b", "key"])
    assert [tuple(row) for row in as_records(rows).collect()] == [("k", '{"user.id":1,"a`b":"x"}')]
    assert as_records(rows.withColumnRenamed("a`b", "value")).columns == ["user.id", "value", "key"]


def test_a_toml_file_with_two_sources_and_an_option_over_it(place: Place) -> None:
    (place.directory / "users.csv").write_text("user,name\nann,Ann\nbob,Bob\ncid,Cid\n")
    (place.directory / "join.toml").write_text(
        f"""
        bootstrap-server = "{place.bootstrap}"
        sql = "SELECT name, count(*) n FROM orders JOIN users ON orders.value.user = users.user GROUP BY 1 ORDER BY 1"
        to = "parquet:nowhere"
        [sources.orders]
        from = "topic:orders"
        value = "json"
        [sources.users]
        from = "csv:users.csv"
        """
    )
    ran = place.run("join.toml", "--to", "console:", "--json", source=False)
    assert [json.loads(line) for line in ran.out.splitlines()] == [{"name": n, "n": 12} for n in ("Ann", "Bob", "Cid")]
    (place.directory / "wrong.toml").write_text('from = "topic:orders"\nfrom-options = 1\n')
    wrong = place.run("wrong.toml", source=False, status=2)
    assert wrong.err.startswith("wrong.toml: unknown key from-options; the keys are from, ")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--from", "topic:orders"), 2, "A pipeline needs a sink: --to URI"),
        (("--from", "kafka:x", "--to", "console:"), 2,
         "kafka: is not a kind of source; use one of topic:, log:, parquet:"),
        (("--from", "topic:orders", "--to", "console:", "--stream"), 2, "--stream needs --checkpoint DIR"),
        (("--from", "topic:orders", "--to", "topic:x", "--mode", "overwrite"), 1, "topic:x can only be appended to"),
        (("--from", "topic:orders", "--to", "topic:x", "--sql", "SELECT *, 1 AS odd FROM input"), 1,
         "kt sink: a record has no place for `odd`"),
        (("--from", "topic:nowhere", "--to", "console:"), 1, "Topic nowhere does not exist"),
        (("--from", "log:nowhere", "--to", "console:"), 1, ""),
        (("--from", "parquet:nowhere", "--to", "console:"), 1, "Path does not exist: file:"),
        (("--from", "delta:x", "--to", "console:"), 1,
         "delta:x needs Spark's package for delta, which is not loaded; add"),
        (("--from", "topic:orders", "--sql", "SELECT amout FROM input", "--to", "console:"), 1,
         "SQL: A column, variable, or function parameter with name `amout` cannot be resolved. Did you mean one of"),
        (("--from", "topic:orders", "--sql", "SELEC 1", "--to", "console:"), 1, "SQL: Syntax error at or near 'SELEC'"),
        (("--from", "topic:orders", "--sql", "SELECT 1 AS a", "--to", "text:x"), 1,
         'text:x: The Text datasource doesn\'t support the column `a` of the type "INT"'),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(place: Place, words: tuple[str, ...], status: int, message: str) -> None:
    ran = place.run(*words, status=status)
    first, *hints = ran.err.splitlines()
    assert first.startswith(message) and not ran.out
    assert all(hint.startswith("See kt") for hint in hints)
