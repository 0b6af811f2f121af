"""kt query: SQL over a topic of a broker, log directories, Parquet and CSV files, and what mistakes say."""

from __future__ import annotations

import io
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import Ran, run_kt
from support.recorded_segments import log_directory
from support.requirements import require

try:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as parquet
except ImportError:
    require("DuckDB is not installed: pip install '.[sql]'")

import kafkatools
from kafkatools.commands.query.output import row_writer
from kafkatools.console import Console
from kafkatools.core.install_command import install_command
from kafkatools.exit_status import CommandError
from kafkatools.pipeline.query import query as queries
from kafkatools.pipeline.query.stream import RecordStream
from kafkatools.pipeline.scan import plans
from kafkatools.pipeline.uris import parse_source

FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
RECORDS = 300
SELECT_ALL = "SELECT topic, partition, offset, timestamp, key, value, headers FROM 'topic:orders' ORDER BY 2, 3"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topic orders: 300 records in three partitions, the sixth of them no JSON."""
    with embedded_broker(tmp_path_factory.mktemp("query"), auto_create_topics_enable="false") as bootstrap:
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(kafkatools.NewTopic("orders", num_partitions=3))
        with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(RECORDS):
                value = b"no JSON" if number == 5 else b'{"user":"u%d","amount":%d}' % (number % 7, number)
                producer.send(
                    "orders", value, key=b"k%d" % number, partition=number % 3, timestamp=FIRST_MS + 1000 * number,
                    headers={"trace": b"%d" % number} if number % 2 else {},
                )  # fmt: skip
        yield bootstrap


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> pathlib.Path:
    """A partition of nine segments with offsets 0 to 1196."""
    return pathlib.Path(shutil.copytree(log_directory("multi-segment"), tmp_path / "ledger-0"))


def rows(ran: Ran) -> list[dict[str, object]]:
    assert ran.status == 0, ran.err
    return [json.loads(line) for line in ran.stdout.splitlines()]


def query(text: str, *options: str) -> list[dict[str, object]]:
    return rows(run_kt("query", text, "--json", *options))


# -- topics --


def test_json_fields_of_a_topic(broker: str) -> None:
    text = "SELECT value->>'user' AS name, count(*) AS n FROM 'topic:orders' GROUP BY name ORDER BY name NULLS LAST"
    found = query(text, "--bootstrap-server", broker)
    expected = {f"u{user}": len([n for n in range(RECORDS) if n % 7 == user and n != 5]) for user in range(7)}
    assert found == [*({"name": name, "n": count} for name, count in expected.items()), {"name": None, "n": 1}]


@pytest.mark.slow
def test_all_columns_are_those_of_the_records(broker: str) -> None:
    found = query(SELECT_ALL, "--bootstrap-server", broker)
    assert len(found) == RECORDS
    number = 3 * 2 + 1  # the third record of partition 1
    assert found[RECORDS // 3 + 2] == {
        "topic": "orders", "partition": 1, "offset": 2, "timestamp": f"2026-01-01T00:00:0{number}+00:00",
        "key": f"k{number}", "value": f'{{"user":"u0","amount":{number}}}', "headers": [{"key": "trace", "value": "7"}],
    }  # fmt: skip


@pytest.mark.slow
def test_a_scan_gives_the_same_records(broker: str) -> None:
    scanned = kafkatools.scan("topic:orders", bootstrap_servers=broker, columns=["partition", "offset", "value"])
    table = scanned.to_arrow()
    places = zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
    assert list(places) == [(part, offset) for part in range(3) for offset in range(RECORDS // 3)]
    found = query(SELECT_ALL, "--bootstrap-server", broker)
    assert [value.decode() for value in table["value"].to_pylist()] == [row["value"] for row in found]
    bounded = kafkatools.scan(
        "topic:orders", {"bootstrap.servers": broker}, columns=["offset"], partitions=[2], offsets=(10, 12)
    )
    assert bounded.to_arrow()["offset"].to_pylist() == [10, 11]


def test_a_plain_name_is_a_topic_and_may_be_read_twice(broker: str) -> None:
    text = (
        "SELECT count(*) AS n FROM orders a JOIN orders b USING (partition, offset) "
        "WHERE header(a.headers, 'trace') = '9' AND b.timestamp >= '2026-01-01 00:00:09'"
    )
    assert query(text, "--bootstrap-server", broker) == [{"n": 1}]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("WITH orders AS (SELECT * FROM orders WHERE offset < 2) SELECT count(*) AS n FROM orders", ["orders"]),
        ("WITH a AS (SELECT * FROM orders), orders AS (SELECT 5) SELECT count(*) AS n FROM a WHERE offset < 2",
         ["orders"]),
        ("WITH t AS (SELECT 3), u AS MATERIALIZED (SELECT * FROM T UNION ALL SELECT 4) SELECT * FROM U", []),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM N WHERE i < 6) SELECT max(i) AS n FROM n", []),
        ("SELECT (WITH x AS (SELECT 1) SELECT * FROM x), count(*) FROM x", ["x"]),
    ],
)  # fmt: skip
def test_a_name_of_a_with_clause_is_a_topic_where_the_clause_does_not_hold(
    broker: str, text: str, names: list[str]
) -> None:
    assert [table.name for table in queries.check(text).records] == names
    if "orders" in names:
        assert query(text, "--bootstrap-server", broker) == [{"n": 6}]


def test_bytes_and_metadata_are_there_when_named(broker: str) -> None:
    (row,) = query(
        "SELECT *, value_bytes, octet_length(key_bytes) AS size, timestampType, producerEpoch FROM orders "
        "WHERE partition = 2 AND offset = 1",
        "--bootstrap-server", broker,
    )  # fmt: skip
    assert list(row)[:7] == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert row["value_bytes"] == row["value"] == "no JSON"
    assert (row["size"], row["timestampType"], row["producerEpoch"]) == (2, 0, 0)


# -- pushdown --


@pytest.mark.parametrize(
    ("text", "columns", "bounds"),
    [
        ("SELECT count(*), sum(length(value)) FROM 'log:x'", {"value"}, {}),
        ("SELECT count(*) FROM 'log:x'", set(), {}),
        ("SELECT key FROM 'log:x' WHERE offset > 5 AND offset <= 90", {"key", "offset"},
         {"start_offset": 6, "end_offset": 91}),
        ("SELECT key FROM 'log:x' WHERE offset BETWEEN 3 AND 7 AND value->>'a' = 'b'", {"key", "value", "offset"},
         {"start_offset": 3, "end_offset": 8}),
        ("SELECT key FROM 'log:x' WHERE timestamp >= '2026-01-01' AND partition = 2", {"key", "timestamp", "partition"},
         {"partitions": [2], "start_timestamp_ms": FIRST_MS}),
        ("SELECT key FROM (SELECT * FROM 'log:x') t WHERE t.offset < 4", {"key", "offset"}, {"end_offset": 4}),
        ("SELECT key FROM 'log:x' WHERE offset < 4 OR partition = 1", {"key", "offset", "partition"}, {}),
        ("SELECT a.key FROM 'log:x' a, 'log:x' b WHERE a.offset < 4 AND b.key = a.value", {"key", "offset", "value"},
         {}),
    ],
)  # fmt: skip
def test_a_query_reads_only_what_it_uses(text: str, columns: set[str], bounds: dict[str, object]) -> None:
    (needs,) = queries.check(text).needs.values()
    assert needs.columns == columns
    assert json.loads(needs.bounds.to_text()) == bounds


def test_bounds_of_a_condition_spare_damaged_segments(ledger: pathlib.Path) -> None:
    sorted(ledger.glob("*.log"))[0].write_bytes(b"damage")
    assert query(f"SELECT count(*) AS n FROM 'log:{ledger}' WHERE offset >= 1000") == [{"n": 197}]
    ran = run_kt("query", f"SELECT count(*) FROM 'log:{ledger}'")
    assert ran.status == 1
    assert f"{sorted(ledger.glob('*.log'))[0]} at byte 0: " in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multi-segment", "codec-zstd-java", "txn-java", "compacted", "message-set-v1-gzip"])
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_records_are_counted_without_decoding_them(name: str, level: str) -> None:
    table = f"'log:{log_directory(name)}'"
    options = ("--isolation-level", level)
    assert query(f"SELECT count(*) AS n FROM {table}", *options) == query(
        f"SELECT count(*) AS n FROM {table} WHERE offset IS NOT NULL AND key_bytes IS NOT DISTINCT FROM key_bytes "
        "AND octet_length(coalesce(value_bytes, '')) >= 0",
        *options,
    )


def test_a_wrong_checksum_is_found_while_counting(ledger: pathlib.Path) -> None:
    segment = sorted(ledger.glob("*.log"))[3]
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    ran = run_kt("query", f"SELECT count(*) FROM 'log:{ledger}'")
    assert ran.status == 1
    assert str(segment) in ran.err


def test_a_limit_ends_the_scan(ledger: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_LOG_PART_BYTES", 1024)
    sorted(ledger.glob("*.log"))[-1].write_bytes(b"damage")  # of the last segment; nobody gets there
    assert query(f"SELECT offset FROM 'log:{ledger}' LIMIT 3") == [{"offset": 0}, {"offset": 1}, {"offset": 2}]


def test_read_committed_applies_to_files() -> None:
    path = log_directory("txn-java")
    everything = query(f"SELECT offset, transaction FROM 'log:{path}' ORDER BY offset")
    stable_end = min(int(str(row["offset"])) for row in everything if row["transaction"] == "open")
    committed = [
        row for row in everything if row["transaction"] in (None, "committed") and int(str(row["offset"])) < stable_end
    ]
    text = f"SELECT offset, transaction FROM 'log:{path}' ORDER BY offset"
    assert query(text, "--isolation-level", "read_committed") == committed != everything


# -- files and formats --


@pytest.mark.slow
def test_parquet_and_csv_are_tables_and_results(ledger: pathlib.Path, tmp_path: pathlib.Path) -> None:
    table, names = tmp_path / "records.parquet", tmp_path / "names.csv"
    ran = run_kt("query", f"SELECT offset, key, timestamp FROM 'log:{ledger}' WHERE offset < 5", "-o", str(table))
    assert (ran.status, ran.stdout) == (0, b"")
    written = parquet.read_table(table)
    assert written["offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert written.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    names.write_text("id,name\n3,three\n4,four\n")
    text = f"SELECT name FROM '{table}' t JOIN 'csv:{names}' n ON n.id = t.offset ORDER BY t.offset"
    assert query(text) == [{"name": "three"}, {"name": "four"}]
    ran = run_kt("query", text, "--output-format", "csv")
    assert ran.stdout == b"name\nthree\nfour\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger-0", "names.csv", "records.parquet"]


def test_rows_as_a_table_and_as_csv(ledger: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text = f"SELECT offset, NULL AS nothing, 'a, \"b\"' AS odd, [1, 2] AS list FROM 'log:{ledger}' LIMIT 2"
    ran = run_kt("query", text)
    assert ran.out == 'offset  nothing  odd     list\n0       null     a, "b"  [1,2]\n1       null     a, "b"  [1,2]\n'
    out = tmp_path / "rows.csv"
    assert run_kt("query", text, "--output", str(out)).status == 0
    assert out.read_text() == 'offset,nothing,odd,list\n0,,"a, ""b""","[1,2]"\n1,,"a, ""b""","[1,2]"\n'
    ran = run_kt("query", f"SELECT offset, offset FROM 'log:{ledger}' LIMIT 1", "--json")
    assert ran.out == '{"offset":0,"offset_1":0}\n'


def test_a_failure_leaves_the_file_as_it_was(ledger: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out.parquet"
    out.write_bytes(b"before")
    ran = run_kt("query", f"SELECT error('no') FROM 'log:{ledger}' WHERE offset = 1100", "-o", str(out))
    assert ran.status == 1
    assert out.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger-0", "out.parquet"]
    ran = run_kt("query", f"SELECT offset FROM 'log:{ledger}'", "-o", str(tmp_path / "missing" / "x.csv"))
    assert ran.status == 1
    assert "x.csv: No such file or directory" in ran.err


# -- mistakes --


def test_a_file_of_another_kind_is_not_taken_for_a_topic(tmp_path: pathlib.Path) -> None:
    (tmp_path / "rows.json").write_text("{}")
    ran = run_kt("query", "SELECT * FROM 'rows.json'", "--bootstrap-server", "127.0.0.1:1", cwd=tmp_path)
    assert (ran.status, ran.stdout) == (2, b"")
    assert ran.err.startswith("rows.json is neither a Parquet nor a CSV file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selec 1", 'column 1: syntax error at or near "selec"'),
        ("SELECT valeu FROM 'log:x'", 'column 8: Referenced column "valeu" not found'),
        ("SELECT offset,\n  valeu FROM 'log:x'", 'line 2, column 3: Referenced column "valeu" not found'),
        ("SELECT 1; SELECT 2", "only one SELECT statement is allowed"),
        ("COPY (SELECT 1) TO '/tmp/x.csv'", "only one SELECT statement is allowed"),
        ("ATTACH 'x.db'", "only one SELECT statement is allowed"),
        ("INSTALL httpfs", "only one SELECT statement is allowed"),
        ("SET threads = 1", "only one SELECT statement is allowed"),
        ("SELECT * FROM read_text('/etc/hostname')", 'Cannot access file "/etc/hostname"'),
        ("SELECT * FROM read_csv('*.csv')", 'Cannot access file "*.csv"'),
        ("SELECT * FROM 'missing.parquet'", "missing.parquet does not exist"),
        ("SELECT * FROM '/var/log'", "/var/log is neither a Parquet nor a CSV file; for a Kafka log use 'log:"),
        ("SELECT * FROM 'delta:x'", "delta:x cannot be queried; use topic:NAME, log:PATH, parquet:PATH or csv:PATH"),
        ("SELECT * FROM 'kafka:x'", "kafka: is not a kind of source"),
        ("SELECT * FROM x, X", "X and x differ only in case, which SQL ignores: write one as 'topic:NAME'"),
        ("SELECT * FROM 'topic:a,b'", "topic:a,b must name exactly one topic"),
        ("", "The query is missing"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_usage_error_before_anything_is_read(text: str, message: str) -> None:
    ran = run_kt("query", text, "--bootstrap-server", "127.0.0.1:1")
    assert ran.status == 2
    assert message in ran.err.splitlines()[0]
    assert ran.err.splitlines()[1:] == ["See kt query --help."]
    assert ran.stdout == b""


def test_json_is_the_format_of_a_file_whose_extension_names_none(tmp_path: pathlib.Path) -> None:
    written = {}
    for name in ("rows.out", "rows.csv"):
        assert run_kt("query", "SELECT 1 AS a", "--json", "--output", name, cwd=tmp_path).status == 0
        written[name] = (tmp_path / name).read_text()
    assert written == {"rows.out": '{"a":1}\n', "rows.csv": "a\n1\n"}


def test_options_that_do_not_fit() -> None:
    for options, message in (
        (["--output-format", "xml"], "--output-format takes table, json, csv, parquet, not xml"),
        (["--output-format", "parquet"], "Parquet is written to a file: --output FILE"),
        (["--memory-limit", "much"], "--memory-limit takes a number of bytes, or one with KiB, MiB, GiB or TiB"),
        (["--memory-limit", "1MiB"], "--memory-limit must be at least 32MiB, not 1MiB"),
        (["--isolation-level", "committed"], "--isolation-level takes read_uncommitted or read_committed"),
    ):
        ran = run_kt("query", "SELECT 1", *options)
        assert (ran.status, ran.err.splitlines()[0][: len(message)]) == (2, message)


def test_too_much_memory_is_one_line() -> None:
    large = "SELECT repeat('x', 200) || range AS text FROM range(1000000) ORDER BY text"
    ran = run_kt("query", large, "--memory-limit", "32MiB")
    assert ran.status == 1 and ran.err.startswith("Out of memory: "), ran.err
    assert ran.err.endswith("Select fewer rows or columns, or raise --memory-limit\n") and ran.err.count("\n") == 1


@pytest.mark.parametrize("table", ["log:/var/lib", "csv:/etc/passwd", "x.parquet", "/etc/passwd", "a.b"])
def test_only_topics_refuses_files_before_one_is_looked_up(table: str) -> None:
    ran = run_kt("query", f"SELECT * FROM '{table}'", "--only-topics", "--bootstrap-server", "127.0.0.1:1")
    assert ran.status == 2
    assert ran.err.startswith(f"{table} cannot be queried with --only-topics; write a topic as 'topic:NAME'\n")


def test_only_topics_reads_topics(broker: str) -> None:
    for name in ("orders", "'topic:orders'"):
        sql = f"SELECT count(*) > 0 AS a FROM {name}"
        ran = run_kt("query", sql, "--only-topics", "--bootstrap-server", broker, "--json")
        assert (ran.status, ran.out) == (0, '{"a":true}\n')


def test_what_is_not_there_is_one_line(broker: str, tmp_path: pathlib.Path) -> None:
    ran = run_kt("query", "SELECT * FROM 'topic:missing'", "--bootstrap-server", broker)
    assert (ran.status, ran.err) == (1, "topic missing does not exist\n")
    ran = run_kt("query", f"SELECT * FROM 'log:{tmp_path}/missing'")
    assert (ran.status, ran.err) == (1, f"{tmp_path}/missing does not exist\n")
    ran = run_kt("query", "SELECT * FROM 'topic:orders'", "--bootstrap-server", "127.0.0.1:1", "--json")
    assert ran.status == 1
    error = json.loads(ran.err)["error"]
    assert error["kind"] == "CONNECTION_FAILED"
    assert "Connection refused" in error["message"]


def test_a_failing_row_is_named_by_duckdb(broker: str) -> None:
    ran = run_kt(
        "query", "SELECT key::INT FROM orders WHERE partition = 0 AND offset = 0", "--bootstrap-server", broker
    )
    assert ran.status == 1
    assert "Could not convert string 'k0' to INT32" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("package", ["duckdb", "pyarrow"])
def test_a_missing_package_is_named_with_its_extra(package: str) -> None:
    code = (
        "import sys, importlib.util as u; find = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == sys.argv[1] else find(name, *a);"
        "from kafkatools.cli import main; from kafkatools.console import Console;"
        "sys.exit(int(main(['query', 'SELECT 1'], Console.of_process())))"
    )
    done = subprocess.run([sys.executable, "-c", code, package], capture_output=True, text=True, check=False)
    line = f"The Python package {package} is not installed: {install_command('sql')}"
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, line)


@pytest.mark.slow
def test_the_program_ends_quietly(ledger: pathlib.Path) -> None:
    text = f"SELECT count(*) AS n FROM 'log:{ledger}'"
    done = subprocess.run([sys.executable, "-m", "kafkatools", "query", text], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"n\n1197\n", b"")
    assert duckdb


def test_a_function_that_reads_a_file_is_answered_with_the_form_of_a_table() -> None:
    ran = run_kt("query", "SELECT * FROM read_csv('/data/it''s.csv')")
    assert (ran.status, ran.out) == (2, "")
    assert "Name the file as a table: FROM '/data/it''s.csv'" in ran.err.splitlines()[0]


def test_each_part_of_a_statement_reads_a_topic_to_the_same_end(broker: str) -> None:
    plan = plans.ScanPlan(parse_source("topic:growing"), ("offset",), settings={"bootstrap.servers": broker})
    stream = RecordStream(plan, {"offset": "bigint"})
    with kafkatools.Admin(bootstrap_servers=broker) as admin:
        admin.create_topics(kafkatools.NewTopic("growing", num_partitions=1))
    with kafkatools.Producer(bootstrap_servers=broker) as producer:
        counts = []
        for _ in range(2):
            producer.send("growing", b"x").result()
            counts.append(pa.RecordBatchReader.from_stream(stream).read_all().num_rows)
    stream.close()
    assert counts == [1, 1]


def test_texts_and_comments_add_no_columns_to_a_star(broker: str) -> None:
    first = "topic partition offset timestamp key value headers"
    for condition, more in {
        "value->>'sequence' IS NULL -- producerId\n": "",
        "key <> $$transaction$$": "",
        "sequence >= 0": " sequence",
    }.items():
        ran = run_kt("query", f"SELECT * FROM orders WHERE {condition} LIMIT 1", "--bootstrap-server", broker, "--json")
        assert list(rows(ran)[0]) == f"{first}{more}".split()


@pytest.mark.parametrize("value", ["'NaN'::DOUBLE", "'-infinity'::FLOAT", "'infinity'::TIMESTAMP"])
def test_constants_that_json_lacks(broker: str, value: str) -> None:
    query = f"SELECT count(*) AS records, {value}::VARCHAR <> 'x' AS other FROM orders WHERE {value} = {value}"
    assert rows(run_kt("query", query, "--bootstrap-server", broker, "--json")) == [{"records": RECORDS, "other": True}]


def test_nanoseconds_keep_all_digits() -> None:
    times = "unnest(['2026-01-01 00:00:00.123456789', NULL, '1969-12-31 23:59:59'])::TIMESTAMP_NS AS t"
    assert query(f"SELECT {times}") == [
        {"t": "2026-01-01T00:00:00.123456789"}, {"t": None}, {"t": "1969-12-31T23:59:59.000000000"},
    ]  # fmt: skip


def test_intervals_and_far_dates_are_text(tmp_path: pathlib.Path) -> None:
    intervals = "INTERVAL 14 MONTH + INTERVAL 3 DAY - INTERVAL 90 MINUTE AS a, to_milliseconds(1230) AS b"
    ran = run_kt("query", f"SELECT {intervals}, INTERVAL 0 DAY AS c, [INTERVAL '-1' DAY] AS d", "--json")
    assert rows(ran) == [
        {"a": "1 year 2 months 3 days -01:30:00", "b": "00:00:01.23", "c": "00:00:00", "d": ["-1 day"]}
    ]
    far = "unnest([DATE '20000-01-01', NULL]) AS x, unnest([NULL, TIMESTAMP '290000-01-01']) AS y"
    assert rows(run_kt("query", f"SELECT {far}", "--json")) == [
        {"x": "6585322 days since 1970", "y": None},
        {"x": None, "y": "9089348860800000000 µs since 1970"},
    ]
    nested = run_kt("query", "SELECT [DATE '20000-01-01'] AS x")
    assert (nested.status, nested.err.splitlines()[0]) == (
        1, "A value of type list<l: date32[day]> has a time before the year 1 or after 9999, or nanoseconds"
    )  # fmt: skip
    written = run_kt("query", "SELECT INTERVAL 1 DAY AS x", "--output", "x.parquet", cwd=tmp_path)
    assert written.status == 1 and written.err.startswith("The rows cannot be written as Parquet: ")
    assert "::VARCHAR" in written.err
    assert list(tmp_path.iterdir()) == []


def test_another_error_of_arrow_than_of_a_type_has_no_hint_about_types(tmp_path: pathlib.Path) -> None:
    def batches(error: pa.ArrowException) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [1]})
        raise error

    console = Console(io.BytesIO(), io.BytesIO(), io.BytesIO(), {})
    for error, reason in ((pa.ArrowMemoryError("malloc of size 64 failed\nmore"), "malloc of size 64 failed"),
                          (pa.ArrowInvalid(""), "ArrowInvalid")):  # fmt: skip
        write = row_writer(console, "parquet", str(tmp_path / "x.parquet"))
        with pytest.raises(CommandError) as caught:
            write(pa.schema({"x": pa.int64()}), batches(error))
        assert (str(caught.value), caught.value.hint) == (f"The rows cannot be written as Parquet: {reason}", "")
    assert list(tmp_path.iterdir()) == []
