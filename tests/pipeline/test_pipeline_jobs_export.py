"""`export`: what Apache Kafka's dump has is in the files once, also when a run ends at any of its steps."""

from __future__ import annotations

import json
import pathlib
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support import recorded_segments
from support.dumped_records import batches_of
from support.embedded import embedded_broker
from support.kt import run_kt

from kafkatools import Producer
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.export import run_export
from kafkatools.pipeline.jobs.export_state import (
    STATE,
    Export,
    ensure_continued,
    ensure_same_export,
    export_identity,
    lost_ranges,
    next_ranges,
)
from kafkatools.pipeline.jobs.in_process.export_files import LocalDirectory
from kafkatools.pipeline.run.session import register
from kafkatools.pipeline.sinks.files import Directory
from kafkatools.pipeline.uris import Uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEGMENTS = ("topics", "multi-segment", "log-all")


class Killed(BaseException):
    """Ends a run as if by a signal."""


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    directory = tmp_path / "log"
    shutil.copytree(recorded_segments.log_directory("multi-segment"), directory / "ledger-0")
    return directory


def test_a_second_run_into_a_directory_is_refused(
    spark: SparkSession, root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    register(spark)
    out = tmp_path / "out"
    out.mkdir()
    export = Export(Uri("log", str(root)), Uri("parquet", str(out)))
    with (
        LocalDirectory(str(out)).alone(),
        pytest.raises(PipelineError, match="/out: another export into this directory is running"),
    ):
        run_export(spark, export)
    assert list(out.iterdir()) == []


def offsets_in_dump() -> list[int]:
    batches = batches_of(*SEGMENTS)
    offsets = [offset for batch in batches for offset in range(batch.base_offset, batch.last_offset + 1)]
    assert len(offsets) == sum(batch.count for batch in batches)
    return offsets


def offsets_in_files(out: pathlib.Path) -> list[int]:
    """Read without Spark."""
    import pyarrow.parquet

    files = [path for path in out.rglob("*.parquet") if STAGED not in path.parts]
    return sorted(offset for path in files for offset in pyarrow.parquet.read_table(path)["offset"].to_pylist())


STAGED = "_kt-export"


def test_a_run_that_is_killed_anywhere_goes_on(
    spark: SparkSession, root: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(spark)
    out = tmp_path / "out"
    truth = offsets_in_dump()
    export = Export(Uri("log", str(root)), Uri("parquet", str(out)), round_offsets=len(truth) // 2 + 1)
    move, steps = Directory.move, iter(("written", "moved half", "moved"))

    def dying(directory: Directory, source: str, names: Any) -> None:
        step = next(steps, "")
        names = list(names)
        move(directory, source, {"written": [], "moved half": names[:1]}.get(step, names))
        if step:
            raise Killed

    def dying_early(*_: object) -> None:
        monkeypatch.undo()
        raise Killed

    monkeypatch.setattr("kafkatools.pipeline.jobs.export_state.write_whole", dying_early)
    with pytest.raises(Killed):
        run_export(spark, export)
    assert offsets_in_files(out) == [] and (out / STAGED).exists()
    monkeypatch.setattr(Directory, "move", dying)
    for _ in range(3):
        with pytest.raises(Killed):
            run_export(spark, export)
        found = offsets_in_files(out)
        assert len(set(found)) == len(found)
    done = run_export(spark, export)
    assert offsets_in_files(out) == truth
    assert done.ends == {("ledger", 0): truth[-1] + 1} and not (out / STAGED).exists()
    assert {path.parent.name for path in out.rglob("*.parquet")} == {"date=2023-11-14"}
    assert json.loads((out / STATE).read_text()) == {
        "version": 1,
        "export": {
            "source": f"log:{root}", "where": None, "dialect": None, "format": "parquet",
            "partition_by": ["date"], "text": False,
            "isolationlevel": None, "kafka.isolation.level": None, "includeheaders": None, "includemetadata": None,
            "table": None, "wholesegments": None, "assign": None, "subscribe": None, "subscribepattern": None,
            "to-option": {},
        },
        "partitions": [{"topic": "ledger", "partition": 0, "end": truth[-1] + 1}],
        "moving": [],
    }  # fmt: skip
    again = run_export(spark, export)
    assert (again.rows, again.rounds, again.files) == (0, 0, 0)
    with pytest.raises(PipelineError, match="belongs to another export: the format is parquet there and csv here;"):
        run_export(spark, Export(export.source, Uri("csv", str(out))))
    options = {**export.options, "isolationLevel": "read_committed"}
    with pytest.raises(PipelineError, match="--from-option isolationLevel is not set there and read_committed here;"):
        run_export(spark, replace(export, options=options))
    (out / STATE).unlink()
    with pytest.raises(PipelineError, match="contains files that are not an export"):
        run_export(spark, export)


def test_texts_and_what_is_no_text(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    register(spark)
    shutil.copytree(recorded_segments.log_directory("plain-java"), tmp_path / "log" / "orders-0")
    options = {"includeHeaders": "true"}
    export = Export(
        Uri("log", str(tmp_path / "log")), Uri("json", str(tmp_path / "out")), options=options,
        partition_by=("topic",), is_text=True, where="offset < 60",
    )  # fmt: skip
    done = run_export(spark, export)
    files = (tmp_path / "out" / "topic=orders").glob("*.json")
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    truth = {
        record.offset: record
        for batch in batches_of("topics", "plain-java", "log-print")
        for record in batch.records
        if record.offset < 60
    }
    assert done.rows == len(lines) == len(truth)
    for line in lines:
        record = truth[line["offset"]]
        value, raw = line.get("value"), line.get("valueBase64")
        assert (value is None and raw is None) == (record.value_size < 0)
        if value is not None:
            assert len(value.encode()) == record.value_size
        assert line.get("key") == record.key or "keyBase64" in line
    assert any("valueBase64" in line for line in lines)


def test_options_that_change_rows_or_columns_belong_to_an_export() -> None:
    export = Export(Uri("log", "/log"), Uri("csv", "/out"), sink_options={"sep": ";", "compression": "gzip"})
    recorded = export_identity(export)
    ensure_same_export(export, recorded)
    ensure_same_export(replace(export, options={"includeHeaders": "False", "splitBytes": "9"}), recorded)
    ensure_same_export(replace(export, sink_options={"SEP": ";"}), recorded)
    for change, message in (
        ({"options": {"includeHeaders": "true"}}, "--no-headers is set there and not set here"),
        ({"options": {"includemetadata": "TRUE"}}, "--from-option includeMetadata is not set there and true here"),
        ({"options": {"wholeSegments": "true"}}, "--from-option wholeSegments is not set there and true here"),
        (
            {"options": {"kafka.isolation.level": "read_committed"}},
            "--from-option isolationLevel is not set there and read_committed here",
        ),
        ({"sink_options": {}}, "--to-option sep is ; there and not set here"),
        ({"sink_options": {"sep": ";", "NULLVALUE": "TRUE"}}, "--to-option nullValue is not set there and TRUE here"),
        ({"where": "offset < 5"}, "--where is not set there and offset < 5 here"),
        ({"partition_by": ()}, "--partition-by is date there and none here"),
        (
            {"source": Uri("log", "http://user:secret@host/log")},
            "the source is log:/log there and log:http://user@host/log here",
        ),
        ({"sink": Uri("json", "/out")}, "the format is csv there and json here"),
    ):
        other: Export = replace(export, **change)  # type: ignore[arg-type]
        with pytest.raises(PipelineError, match=f":/out belongs to another export: {message}; export into a new place"):
            ensure_same_export(other, recorded)
    of_earlier_version = {name: value for name, value in recorded.items() if name not in ("includemetadata", "table")}
    ensure_same_export(replace(export, options={"includeMetadata": "true"}), of_earlier_version)
    ensure_same_export(export, {**recorded, "includeheaders": "false"})
    with pytest.raises(PipelineError, match="another export: order is key there and not set here; export into"):
        ensure_same_export(export, {**recorded, "order": "key"})


def test_an_export_of_another_cluster_is_another_export() -> None:
    export = Export(Uri("topic", "a"), Uri("csv", "/out"), cluster_id="A")
    recorded = export_identity(export)
    ensure_same_export(export, recorded)
    message = (
        "^csv:/out belongs to another export: cluster of the source is A there and B here; export into a new place"
    )
    with pytest.raises(PipelineError, match=message):
        ensure_same_export(replace(export, cluster_id="B"), recorded)
    ensure_same_export(replace(export, cluster_id=None), recorded)
    ensure_same_export(export, export_identity(replace(export, cluster_id=None)))


def test_a_topic_of_the_same_name_in_another_cluster_does_not_continue_an_export(
    spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    register(spark)
    for number, engine in ((0, "local"), (1, "spark"), (1, "local")):
        with embedded_broker(tmp_path / str(number)) as bootstrap:
            with Producer(bootstrap_servers=bootstrap) as producer:
                producer.send("t", b"value")
            words = ("export", "topic:t", "--to", f"parquet:{tmp_path}/out", "--engine", engine)
            ran = run_kt(*words, "--bootstrap-server", bootstrap)
        assert ran.status == number, ran
        assert number == 0 or " belongs to another export: cluster of the source is " in ran.err
    assert offsets_in_files(tmp_path / "out") == [0]


@pytest.mark.parametrize(
    ("before", "present"),
    [
        ({"options": {"isolationLevel": "read_committed"}}, {"options": {"kafka.isolation.level": "read_committed"}}),
        ({}, {"options": {"isolationLevel": "read_uncommitted"}}),
        ({"options": {"subscribe": "b,a"}}, {"options": {"subscribe": "a, b"}}),
        ({"options": {"assign": '{"a":[0],"b":[1]}'}}, {"options": {"assign": '{"b": [1], "a": [0]}'}}),
        ({"source": Uri("log", "/log")}, {"source": Uri("log", "/log/")}),
        ({"source": Uri("log", "log")}, {"source": Uri("log", "./log")}),
        ({"source": Uri("topic", "a,b")}, {"source": Uri("topic", "b,a")}),
        ({}, {"is_text": True}),
        ({}, {"sink_options": {"header": "true"}}),
        ({"sink_options": {"sep": ";"}}, {"sink_options": {"delimiter": ";"}}),
        ({"sink_options": {"quoteAll": "true"}}, {"sink_options": {"quoteAll": "TRUE"}}),
        ({}, {"options": {"table": "records", "wholeSegments": "False"}}),
    ],
)
def test_two_spellings_of_one_export_are_equal(before: Any, present: Any) -> None:
    export = Export(Uri("topic", "a"), Uri("csv", "/out"))
    ensure_same_export(replace(export, **present), export_identity(replace(export, **before)))


def test_an_end_before_the_exported_one_is_an_error() -> None:
    export = Export(Uri("topic", "a"), Uri("parquet", "/out"))
    available = {("a", 0): (0, 100), ("b", 0): (7, 7)}
    ensure_continued(export, available, {})
    ensure_continued(export, available, {("a", 0): 100, ("b", 0): 7, ("gone", 0): 9})
    for options in ({"endingOffsets": "{}"}, {"failOnDataLoss": "false"}):
        ensure_continued(replace(export, options=options), available, {("a", 0): 101})
    with pytest.raises(PipelineError, match=r"^a-0 ends at offset 100, but parquet:/out has its records up to 100: "):
        ensure_continued(export, {TopicPartition("a", 0): (0, 100)}, {TopicPartition("a", 0): 101})


def test_ranges_of_a_round() -> None:
    available = {("a", 0): (0, 100), ("a", 1): (50, 60), ("b", 0): (7, 7)}
    assert next_ranges(available, {}, 40) == {("a", 0): (0, 20), ("a", 1): (50, 60)}
    assert next_ranges(available, {("a", 0): 95, ("a", 1): 60}, 40) == {("a", 0): (95, 100)}
    assert next_ranges(available, {("a", 0): 100, ("a", 1): 90}, 40) == {}
    assert next_ranges(available, {}, 1) == {("a", 0): (0, 1), ("a", 1): (50, 51)}
    assert lost_ranges(available, {("a", 0): 4, ("a", 1): 20}) == {("a", 1): (20, 50)}
