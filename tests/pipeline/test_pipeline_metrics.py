"""What readers report, in the SQL tab of Spark's UI: read through the REST API of a session with a UI of its own."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from support.recorded_segments import log_directory

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.batch import run_batch, with_reports
from kafkatools.pipeline.run.read_metrics import NewReports
from kafkatools.pipeline.run.reports import CHECKSUM, Damage, SplitReport, write_report
from kafkatools.pipeline.run.session import register
from kafkatools.pipeline.run.spec import pipeline_from
from kafkatools.pipeline.run.stream_metrics import SourceReports, StreamMetrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

_PROGRAM = textwrap.dedent("""
    import json, sys, urllib.request

    from support.kt import run_kt

    from kafkatools import EmbeddedBroker, Producer
    from kafkatools.pipeline.errors import PipelineError
    from kafkatools.pipeline.run.batch import run_batch
    from kafkatools.pipeline.run.session import open_session
    from kafkatools.pipeline.run.spec import pipeline_from
    from kafkatools.pipeline.run.stream import Stopped, StreamCallbacks, run_stream
    from kafkatools.pipeline.uris import Cluster

    def stream(bootstrap, name, trigger):
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "25"}
        values = {"from": "topic:t", "from-option": options, "stream": True, "trigger": trigger}
        values |= {"to": f"json:{out}-{name}", "checkpoint": f"{out}-{name}-state"}
        pipeline = pipeline_from(values, {"input": Cluster(bootstrap, {})})

        def stop_at_the_end(records):
            if records == 40 and trigger is None:
                raise KeyboardInterrupt

        try:
            run_stream(spark, pipeline, lambda table: 0, StreamCallbacks(stop_at_the_end, print))
        except Stopped:
            pass

    log, out, *conf = sys.argv[1:]
    spark = open_session("metrics", "local[2]", dict(pair.split("=") for pair in conf))
    values = {"from": f"log:{log}", "from-option": {"splitBytes": "20000"}, "sql": "SELECT offset FROM input"}
    run_batch(spark, pipeline_from({**values, "to": f"json:{out}"}, {}), lambda table: 0)
    try:
        run_batch(spark, pipeline_from({**values, "strict": True, "to": f"json:{out}2"}, {}), lambda table: 0)
    except PipelineError:
        pass
    with EmbeddedBroker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(40):
                producer.send("t", b"%d" % number).result()
        stream(broker.bootstrap, "ends", "available-now")
        stream(broker.bootstrap, "endless", None)
        sql = "SELECT max(value) FROM t WHERE offset < 30; SELECT 1"
        run_kt("pipeline", "sql", sql, "--bootstrap-server", broker.bootstrap, environ={"KT_HOME": f"{out}-home"})
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/sql?details=true&length=100"
    entries = json.load(urllib.request.urlopen(url))
    spark.stop()
    print(json.dumps(entries))
""")


def entries_of(log: pathlib.Path, out: pathlib.Path, *conf: str) -> list[dict[str, Any]]:
    program = [sys.executable, "-c", _PROGRAM, str(log), str(out), *conf]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(program, capture_output=True, check=False, env=environ, cwd=out.parent)
    assert ran.returncode == 0, ran.stderr.decode()[-4000:]
    found: list[dict[str, Any]] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.fixture
def damaged(tmp_path: pathlib.Path) -> pathlib.Path:
    """A partition of nine segments, with a damaged batch in the second and in the last."""
    log = pathlib.Path(shutil.copytree(log_directory("multi-segment"), tmp_path / "ledger-0"))
    files = sorted(log.glob("*.log"))
    for file in (files[1], files[-1]):
        data = bytearray(file.read_bytes())
        data[70] ^= 1
        file.write_bytes(data)
    return log


def test_bytes_batches_records_and_damage_are_in_the_sql_tab(damaged: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    entries = entries_of(damaged, out, "spark.ui.enabled=true", "spark.ui.port=0")
    assert [entry["id"] for entry in entries] == list(range(len(entries)))  # Spark's own numbers, each once
    ours, failed = (entry for entry in entries if entry["description"].startswith("kt pipeline: log:"))
    assert (ours["status"], failed["status"]) == ("COMPLETED", "FAILED")
    assert ours["description"] == f"kt pipeline: log:{damaged} to json:{out}"
    assert [node["nodeName"] for node in ours["nodes"]] == [f"Read log:{damaged} as input"]
    metrics = metrics_of(ours)
    rows = sum(len(file.read_text().splitlines()) for file in out.glob("*.json"))
    size = sum(file.stat().st_size for file in damaged.glob("*.log"))
    batches = metrics.pop("batches read")
    assert metrics == {"bytes read": size, "records read": rows, "damaged ranges": 2}
    assert 0 < batches < rows < 1197

    read = {entry["description"]: metrics_of(entry) for entry in entries if "kt pipeline" in entry["description"]}
    for description, values in read.items():
        if "topic:t" in description or " FROM t " in description:
            assert values.pop("bytes read") > 60 * values["records read"]
    for name in ("ends", "endless"):
        for number, records in enumerate((25, 15)):
            assert read[f"kt pipeline: topic:t to json:{out}-{name}, micro-batch {number}"] == {
                "batches read": records, "records read": records, "damaged ranges": 0,
            }  # fmt: skip
    statement = "kt pipeline sql: SELECT max(value) FROM t WHERE offset < 30"
    assert read[statement] == {"batches read": 30, "records read": 30, "damaged ranges": 0}
    assert len(read) == 7 and not list(out.parent.rglob("kt-pipeline-*"))


def metrics_of(entry: dict[str, Any]) -> dict[str, int]:
    """The metrics of the only node of an entry."""
    (node,) = entry["nodes"]
    return {metric["name"]: int(metric["value"].replace(",", "")) for metric in node["metrics"]}


@pytest.mark.xdist_group("spark")
def test_without_a_ui_a_run_is_as_it_was(damaged: pathlib.Path, spark: SparkSession, tmp_path: pathlib.Path) -> None:
    assert spark.sparkContext.uiWebUrl is None
    register(spark)
    out = tmp_path / "out"
    values: dict[str, Any] = {"from": f"log:{damaged}", "from-option": {"splitBytes": "20000"}, "to": f"json:{out}"}
    run_batch(spark, pipeline_from(values, {}), lambda table: 0)
    assert list(out.glob("*.json"))
    with pytest.raises(PipelineError, match="at byte"):
        run_batch(spark, pipeline_from({**values, "strict": True, "to": f"json:{out}2"}, {}), lambda table: 0)


def test_each_report_counts_once(tmp_path: pathlib.Path) -> None:
    reports = NewReports(str(tmp_path / "reports"))
    assert reports.sums() == [0, 0, 0, 0]
    report = SplitReport("orders", 0, "file", 0, 100, records=7, batches=2, size_bytes=100)
    write_report(str(tmp_path / "reports" / "records"), report)
    assert reports.sums() == [100, 2, 7, 0]
    report.damages.append(Damage("file", 5, 3, CHECKSUM, "x"))
    write_report(str(tmp_path / "reports" / "batches"), report)
    assert reports.sums() == [100, 2, 7, 1]
    assert reports.sums() == [0, 0, 0, 0]


def test_reports_of_a_stream_belong_to_micro_batches_by_their_offsets(tmp_path: pathlib.Path) -> None:
    for deletes in (False, True):
        directory = tmp_path / str(deletes)
        reports = SourceReports(str(directory), deletes=deletes)
        assert reports.of_batch([({}, {"t": {"0": 10}})]) == []
        for partition, start in ((0, 0), (0, 10), (1, 0), (0, 5)):
            report = SplitReport("t", partition, "", start, start + 5, start_offset=start, records=start)
            write_report(str(directory), report)
        found = reports.of_batch([({}, {}), ({}, {"t": {"0": 10}})])  # another source comes first in the query
        assert [(report.partition, report.start_offset) for report in found] == [(0, 0), (0, 5)]
        assert len(list(directory.iterdir())) == (0 if deletes else 4)
        write_report(str(directory), SplitReport("t", 1, "", 5, 9, start_offset=5))
        found = reports.of_batch([({"t": {"0": 10}}, {"t": {"0": 15, "1": 9}})])
        assert [(report.partition, report.start_offset) for report in found] == [(0, 10), (1, 0), (1, 5)]


def test_a_progress_without_a_field_costs_only_the_entry(tmp_path: pathlib.Path) -> None:
    spark: Any = None
    metrics = StreamMetrics(spark, "s", {"t": SourceReports(str(tmp_path / "reports"), deletes=True)})
    metrics.add_batch({}, [])


def test_reports_change_neither_what_damage_does_nor_what_is_decoded() -> None:
    without = {"strict": "true", "decodeRecords": "false", "reportPath": "/r", "requireReports": "false"}
    assert with_reports({"a": "b"}, "/r") == {"a": "b", **without}
    assert with_reports({"STRICT": "true"}, "/r") == {
        "STRICT": "true", "reportPath": "/r", "requireReports": "false",
    }  # fmt: skip
    assert with_reports({"decoderecords": "true"}, "/r") == {
        "decoderecords": "true", "strict": "true", "reportPath": "/r", "requireReports": "false",
    }  # fmt: skip
    assert with_reports({"ReportPath": "/own"}, "/r") == {"ReportPath": "/own"}
