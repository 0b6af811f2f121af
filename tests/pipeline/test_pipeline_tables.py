"""Streams and merges into Delta and Iceberg tables, in one session of Spark: rows equal, none doubled.

It is Spark 4.0.0 unless KT_TEST_SPARK names another (`.ci/spark-matrix`).
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.official_spark import HAS_DELTA, HAS_ICEBERG, SPARK, TABLES_SPARK, OfficialSpark
from support.recorded_logs import unpack_log

import kafkatools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("tables")]

TABLES = ["delta:DIRECTORY/NAME"] * HAS_DELTA + ["iceberg:lake.db.NAME"] * HAS_ICEBERG


def tables(of_suite: str) -> list[str]:
    """Both kinds of tables, in `make test` the one given: each test starts Spark several times."""
    return [table for table in TABLES if TABLES_SPARK != SPARK or table.startswith(of_suite)]


class Place:
    """A broker, the Spark process and a directory."""

    def __init__(self, spark4: OfficialSpark, bootstrap: str, directory: pathlib.Path) -> None:
        self.spark4, self.bootstrap, self.directory = spark4, bootstrap, directory

    def table(self, table: str, name: str) -> str:
        return table.replace("DIRECTORY", str(self.directory)).replace("NAME", name)

    def send(self, topic: str, *records: tuple[str | None, str | None], partition: int | None = None) -> None:
        with kafkatools.Producer(bootstrap_servers=self.bootstrap) as producer:
            for key, value in records:
                producer.send(
                    topic, None if value is None else value.encode(), key=None if key is None else key.encode(),
                    partition=partition,
                )  # fmt: skip

    def kt(self, *words: str, status: int = 0) -> tuple[str, str]:
        server = () if words[0] == "verify" else ("--bootstrap-server", self.bootstrap)
        ran = self.spark4.call(run_there, words=[*words, *server], directory=str(self.directory))
        assert ran[0] == status, ran
        return ran[1], ran[2]

    def rows(self, uri: str, columns: str) -> list[list[Any]]:
        rows: list[list[Any]] = self.spark4.call(rows_there, uri=uri, columns=columns)
        return rows


@pytest.fixture(scope="module")
def place(spark4: OfficialSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with embedded_broker(tmp_path_factory.mktemp("broker"), num_partitions="2") as bootstrap:
        directory = tmp_path_factory.mktemp("place")
        (directory / "n.ddl").write_text("n INT")
        yield Place(spark4, bootstrap, directory)


def run_there(spark: Any, words: list[str], directory: str) -> Any:
    """Runs in the process, whose session the command shares."""
    from support.kt import run_kt

    ran = run_kt("pipeline", *words, cwd=directory)
    return [ran.status, ran.out, ran.err]


def killed_there(spark: Any, words: list[str], directory: str, step: str) -> None:
    """Runs in the process: an export that ends as if by a signal at a step of its first round."""
    from support.kt import run_kt

    from kafkatools.pipeline.jobs.export_tables import TableState

    class Killed(BaseException):
        """Ends a run as if by a signal."""

    method = {"begun": "begin", "committed": "_finish", "finished": "_finish"}[step]
    original = getattr(TableState, method)

    def dying(self: Any, *arguments: Any) -> None:
        if step != "committed":
            original(self, *arguments)
        raise Killed

    setattr(TableState, method, dying)
    try:
        run_kt("pipeline", *words, cwd=directory)
    except Killed:
        return
    finally:
        setattr(TableState, method, original)
    raise AssertionError("the run was not killed")


def overtaken_there(spark: Any, words: list[str], directory: str, late: list[Any]) -> Any:
    """Runs in the process: an export that is about to write its first round while records arrive, which another export
    writes after that round."""
    import threading

    from support.kt import run_kt

    import kafkatools
    from kafkatools.pipeline.jobs.export_tables import TableState

    original, statuses = TableState.write, []

    def write(self: Any, rows: Any) -> int:
        TableState.write = original  # type: ignore[method-assign]
        with kafkatools.Producer(bootstrap_servers=words[-1]) as producer:
            for topic, value in late:
                producer.send(topic, value.encode(), partition=0)
        other = threading.Thread(target=lambda: statuses.append(run_kt("pipeline", *words, cwd=directory).status))
        other.start()
        other.join()
        return original(self, rows)

    TableState.write = write  # type: ignore[method-assign]
    try:
        statuses.append(run_kt("pipeline", *words, cwd=directory).status)
    finally:
        TableState.write = original  # type: ignore[method-assign]
    return statuses


def failing_there(spark: Any, words: list[str], directory: str) -> Any:
    """Runs in the process: a run whose reports cannot be read after its rows are written."""
    from support.kt import run_kt

    from kafkatools.pipeline.errors import PipelineError
    from kafkatools.pipeline.run import batch

    original = batch.read_reported

    def fail(*_: Any) -> Any:
        raise PipelineError("the report cannot be read")

    batch.read_reported = fail
    try:
        ran = run_kt("pipeline", *words, cwd=directory)
    finally:
        batch.read_reported = original
    return [ran.status, ran.out, ran.err]


def rows_there(spark: Any, uri: str, columns: str) -> Any:
    """Runs in the process: the table's rows."""
    kind, _, target = uri.partition(":")
    table = target if kind == "iceberg" else f"delta.`{target}`"
    return sorted(list(row) for row in spark.sql(f"SELECT {columns} FROM {table}").collect())


SQL = "SELECT CAST(key AS STRING) AS user, value.n AS n, partition, offset, timestamp, tombstone FROM input"


def test_the_query_is_that_of_the_guide() -> None:
    guide = pathlib.Path(__file__).parents[2] / "docs" / "pipeline.md"
    assert f'--sql "{SQL}"' in guide.read_text()


@pytest.mark.parametrize("table", tables("iceberg"))
def test_a_topic_is_merged_by_key_and_a_resumed_run_merges_what_came_since(table: str, place: Place) -> None:
    topic = f"merged-{table[:5]}"
    uri, manifest = place.table(table, "merged"), str(place.directory / f"{topic}.json")
    place.send(topic, ("a", '{"n":1}'), ("b", '{"n":2}'), ("a", '{"n":3}'), ("c", '{"n":4}'), ("c", None))
    words = (
        "run", "--from", f"topic:{topic}", "--value", "json", "--value-schema", "n.ddl", "--sql", SQL, "--to", uri,
        "--merge-by", "user",
    )  # fmt: skip
    recorded = ("--manifest", manifest, "--resume")
    nothing = json.dumps({topic: {"0": 0, "1": 0}})
    unread = str(place.directory / f"{topic}-unread.json")
    place.kt(*words, "--from-option", f"endingOffsets={nothing}", "--manifest", unread)
    assert json.loads(pathlib.Path(unread).read_text())["sink"] | {"uri": ""} == {
        "uri": "", "mode": "merge", "rows": 0, "files": None, "version": None,
    }  # fmt: skip
    _, told = place.kt(*words, *recorded)
    assert told.splitlines()[-1] == f"{uri}: 5 rows"
    assert place.rows(uri, "user, n") == [["a", 3], ["b", 2]]
    place.send(topic, ("a", None), ("c", '{"n":5}'), ("b", "not JSON"))
    place.kt(*words, *recorded)
    assert place.rows(uri, "user, n") == [["b", None], ["c", 5]], "a value that cannot be decoded deletes nothing"
    content = json.loads(pathlib.Path(manifest).read_text())
    assert (content["sink"]["rows"], content["sink"]["mode"], content["sources"][0]["records"]) == (8, "merge", 8)
    version = content["sink"]["version"]
    place.kt(*words, *recorded)
    assert json.loads(pathlib.Path(manifest).read_text())["sink"]["version"] == version, "nothing new, no commit"
    checked, _ = place.kt("verify", manifest, "--bootstrap-server", place.bootstrap)
    assert checked.endswith(f"8 records read, version {version} of {uri} written\n")
    place.kt(*words, "--from-option", "endingOffsets=" + json.dumps({topic: {"0": 2, "1": 0}}))
    assert ["b", None] in place.rows(uri, "user, n"), "older records replace nothing"


def test_rows_of_several_topics_are_merged_with_their_topic(place: Place) -> None:
    for topic in ("one", "two"):
        place.send(topic, ("a", '{"n":1}'))
    uri = place.table(TABLES[0], "several")
    words = ("run", "--from", "topic:one,two", "--value", "json", "--value-schema", "n.ddl", "--to", uri)
    refused = place.kt(*words, "--merge-by", "user", "--sql", SQL, status=1)[1]
    assert "--merge-by needs the columns user, topic, partition" in refused and "the rows have no 'topic'" in refused
    place.kt(*words, "--merge-by", "user", "--sql", SQL.replace("FROM", ", topic FROM"))
    assert place.rows(uri, "user, n") == [["a", 1]]


@pytest.mark.parametrize("table", tables("delta"))
def test_a_run_that_was_killed_before_its_commit_is_resumed(table: str, place: Place) -> None:
    topic = f"cut-{table[:5]}"
    uri, manifest = place.table(table, "cut"), place.directory / f"{topic}.json"
    place.send(topic, ("a", "1"))
    words = ("run", "--from", f"topic:{topic}", "--to", uri, "--manifest", str(manifest), "--resume")
    journal = pathlib.Path(f"{manifest}.journal")
    journal.write_text(json.dumps({"writing": uri, "version": None}))
    if table.startswith("delta:"):
        uncommitted = pathlib.Path(uri.removeprefix("delta:")) / "part-00000-of-a-killed-task.snappy.parquet"
        uncommitted.parent.mkdir(parents=True)
        uncommitted.write_bytes(b"PAR1")
    place.kt(*words)
    assert place.rows(uri, "CAST(value AS STRING)") == [["1"]] and not journal.exists()
    version = json.loads(manifest.read_text())["sink"]["version"]
    place.send(topic, ("b", "2"))
    journal.write_text(json.dumps({"writing": uri, "version": version}))
    place.kt(*words)
    assert place.rows(uri, "CAST(value AS STRING)") == [["1"], ["2"]]
    journal.write_text(json.dumps({"writing": uri, "version": version}))
    told = place.kt(*words, status=1)[1]
    assert f"a run was interrupted while writing to {uri}, whose version has changed since" in told
    journal.write_text(json.dumps({"writing": "delta:/elsewhere", "version": None}))
    told = place.kt(*words, status=1)[1]
    assert "a run was interrupted while writing to delta:/elsewhere, which may hold part of its rows" in told


@pytest.mark.parametrize("table", tables("iceberg"))
def test_a_run_that_fails_after_its_commit_is_not_written_again_without_a_question(table: str, place: Place) -> None:
    topic = f"late-{table[:5]}"
    uri, manifest = place.table(table, "late"), place.directory / f"{topic}.json"
    place.send(topic, ("a", "1"))
    words = ["run", "--from", f"topic:{topic}", "--to", uri, "--manifest", str(manifest)]
    ran = place.spark4.call(
        failing_there, words=[*words, "--bootstrap-server", place.bootstrap], directory=str(place.directory)
    )
    assert (ran[0], ran[2].splitlines()[-1]) == (1, "the report cannot be read")
    told = place.kt(*words, status=1)[1]
    assert f"a run was interrupted while writing to {uri}, whose version has changed since" in told
    assert place.rows(uri, "CAST(value AS STRING)") == [["1"]]


def cut_off(manifest: pathlib.Path, uri: str, checkpoint: pathlib.Path, first: str) -> None:
    """Give back the manifest of the first run, with the journal that the second run began with."""
    manifest.write_text(first)
    (source,) = json.loads(first)["sources"]
    starts: dict[str, dict[str, int]] = {}
    for row in source["partitions"]:
        starts.setdefault(row["topic"], {})[str(row["partition"])] = row["end_offset"]
    journal = {"streaming": uri, "checkpoint": str(checkpoint), "batch": 0, "starts": [starts], "files": None}
    pathlib.Path(f"{manifest}.journal").write_text(json.dumps({**journal, "started_ms": 0}))


@pytest.mark.parametrize("table", tables("delta"))
@pytest.mark.parametrize("is_merge", [False, True])
def test_a_stream_that_repeats_its_last_batch_doubles_nothing(table: str, is_merge: bool, place: Place) -> None:
    """What Spark does after a kill between the commit of the table and that of the checkpoint."""
    name = f"{'merge' if is_merge else 'append'}-{table[:5]}"
    uri, manifest, checkpoint = place.table(table, f"s{is_merge}"), place.directory / f"{name}.json", f"state-{name}"
    place.send(name, *[(f"k{at % 7}", f"v{at}") for at in range(20)])
    words = (
        "run", "--from", f"topic:{name}", "--from-option", "startingOffsets=earliest", "--to", uri, "--stream",
        "--checkpoint", checkpoint, "--trigger", "available-now", "--manifest", str(manifest),
        *(("--merge-by", "key") if is_merge else ("--partition-by", "partition")),
    )  # fmt: skip
    place.kt(*words)
    first = manifest.read_text()
    place.send(name, *[(f"k{at % 7}", None if at in (34, 36, 38) else f"v{at}") for at in range(20, 40)])
    place.kt(*words)
    before = place.rows(uri, "partition, offset")
    content = json.loads(manifest.read_text())
    assert content["sink"]["rows"] == content["sources"][0]["records"] == 40
    place.kt("verify", str(manifest), "--bootstrap-server", place.bootstrap)
    if is_merge:
        assert len(before) == 4, "of three of the seven keys the last record is a tombstone"
    else:
        assert len({tuple(row) for row in before}) == len(before) == 40

    (place.directory / checkpoint / "commits" / "1").unlink()
    (place.directory / checkpoint / "commits" / ".1.crc").unlink()
    cut_off(manifest, uri, place.directory / checkpoint, first)
    place.kt(*words)
    assert place.rows(uri, "partition, offset") == before
    again = json.loads(manifest.read_text())
    assert (again["sink"], again["sources"]) == (content["sink"], content["sources"]), "all counted, and no commit"
    cut_off(manifest, uri, place.directory / checkpoint, first)
    _, told = place.kt(*words)
    assert "completing the manifest of a stream that was interrupted" in told
    assert not pathlib.Path(f"{manifest}.journal").exists()
    again, rows = json.loads(manifest.read_text()), None if is_merge else 40
    assert again["sources"] == content["sources"]
    assert again["sink"] == content["sink"] | {"rows": rows}, "a merge tells no rows"
    place.kt("verify", str(manifest), "--bootstrap-server", place.bootstrap)
    if not is_merge:
        asked = place.kt(*(word.replace(checkpoint, "new") for word in words[:-4]), status=1)[1]
        expected = f"{uri} already exists, and there is no checkpoint in new; --mode append adds to it"
        assert asked.splitlines()[0] == expected


@pytest.mark.parametrize("table", TABLES)
def test_an_export_that_is_killed_anywhere_goes_on_and_adds_what_came_since(table: str, place: Place) -> None:
    topic, uri = f"exported-{table[:5]}", place.table(table, "exported")
    place.send(topic, *[(f"k{at}", f"v{at}") for at in range(12)], partition=0)
    place.send(topic, *[(f"k{at}", f"v{at}") for at in range(12)], partition=1)
    words = ["export", f"topic:{topic}", "--to", uri, "--round", "8", "--partition-by", "topic"]
    for step in ("begun", "committed", "finished"):
        place.spark4.call(
            killed_there,
            words=[*words, "--bootstrap-server", place.bootstrap], directory=str(place.directory), step=step,
        )  # fmt: skip
    _, told = place.kt(*words)
    assert told.splitlines()[-1] == f"{uri}: 16 rows added (2 rounds)", "one was committed before"
    all_rows = [[partition, offset] for partition in (0, 1) for offset in range(12)]
    assert place.rows(uri, "partition, offset") == all_rows
    place.send(topic, ("k", "new"), partition=1)
    assert place.kt(*words)[1].splitlines()[-1] == f"{uri}: 1 row added (1 round)"
    assert place.kt(*words)[1].splitlines()[-1] == f"{uri}: up to date"
    assert place.rows(uri, "partition, offset") == [*all_rows, [1, 12]]
    refused = place.kt(*words, "--where", "offset > 3", status=1)[1]
    difference = "--where is not set there and offset > 3 here"
    told = f"{uri} belongs to another export: {difference}; export into a new place, or repeat the earlier options"
    assert refused.splitlines()[-1] == told


@pytest.mark.parametrize("table", TABLES)
def test_two_exports_at_the_same_time_neither_lose_nor_double_a_record(table: str, place: Place) -> None:
    topic, uri = f"twice-{table[:5]}", place.table(table, "twice")
    place.send(topic, *[("k", f"v{at}") for at in range(8)], partition=0)
    words = ["export", f"topic:{topic}", "--to", uri]
    statuses = place.spark4.call(
        overtaken_there,
        words=[*words, "--bootstrap-server", place.bootstrap], directory=str(place.directory),
        late=[(topic, "late")] * 4,
    )  # fmt: skip
    assert statuses == [0, 0]
    assert place.rows(uri, "offset") == [[at] for at in range(12)]
    place.send(topic, ("k", "last"), partition=0)
    place.kt(*words)
    assert place.rows(uri, "offset") == [[at] for at in range(13)]


@pytest.mark.parametrize("table", tables("delta"))
def test_offsets_that_a_killed_export_has_committed_are_not_missed_when_they_are_deleted(
    table: str, place: Place
) -> None:
    topic, uri = f"kept-{table[:5]}", place.table(table, "kept")
    place.send(topic, *[("k", f"v{at}") for at in range(4)], partition=0)
    words = ["export", f"topic:{topic}", "--to", uri]
    place.kt(*words)
    place.send(topic, *[("k", f"v{at}") for at in range(4, 8)], partition=0)
    place.spark4.call(
        killed_there,
        words=[*words, "--bootstrap-server", place.bootstrap], directory=str(place.directory), step="committed",
    )  # fmt: skip
    with kafkatools.Admin(bootstrap_servers=place.bootstrap) as admin:
        admin.delete_records({(topic, 0): 6})
    place.send(topic, ("k", "new"), partition=0)
    assert place.kt(*words)[1].splitlines() == [f"{uri}: 1 row added (1 round)"]
    assert place.rows(uri, "offset") == [[at] for at in range(9)]


def test_an_export_adds_nothing_to_a_table_that_is_no_export(place: Place) -> None:
    place.send("plain", ("a", "1"))
    uri = place.table(TABLES[0], "plain")
    place.kt("run", "--from", "topic:plain", "--to", uri)
    refused = place.kt("export", "topic:plain", "--to", uri, status=1)[1]
    assert refused.splitlines()[-1] == f"{uri} is a table that is not an export; name a new one"


@pytest.mark.parametrize("table", TABLES)
def test_verify_sees_that_a_table_was_changed(table: str, spark4: OfficialSpark, tmp_path: pathlib.Path) -> None:
    log = str(unpack_log("codec-lz4-java", tmp_path))
    uri, manifest = (
        table.replace("DIRECTORY", str(tmp_path)).replace("NAME", "verified"),
        str(tmp_path / "manifest.json"),
    )
    before, after = spark4.call(verified_there, log=log, table=uri, manifest=manifest)
    version = json.loads(pathlib.Path(manifest).read_text())["sink"]["version"]
    assert before == [
        0,
        f"The sources and the sink match the manifest: 500 records read, version {version} of {uri} written\n",
    ]
    assert after[0] == 3
    assert after[1].startswith(f"{uri}: table: has version ")
    assert after[1].endswith(f", the run wrote version {version}: it was changed after the run\n")


def verified_there(spark: Any, log: str, table: str, manifest: str) -> Any:
    """Runs in the process, whose session the commands share: status and output of two verifications."""
    from support.kt import run_kt

    def kt(*words: str) -> Any:
        ran = run_kt("pipeline", *words)
        return [ran.status, ran.out]

    query = ("--from", f"log:{log}", "--sql", "SELECT offset, value FROM input", "--to", table)
    written = kt("run", *query, "--manifest", manifest)
    assert written[0] == 0, written
    before = kt("verify", manifest)
    kt("run", *query, "--mode", "append")
    return [before, kt("verify", manifest)]
