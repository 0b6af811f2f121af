"""What readers report, in the SQL tab of Spark's UI: read through the REST API of a session with a UI of its own."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from support.recorded_segments import log_directory

from kafkatools.pipeline.run.read_metrics import NewReports
from kafkatools.pipeline.run.reports import CHECKSUM, Damage, SplitReport, write_report

pytestmark = pytest.mark.slow

_PROGRAM = textwrap.dedent("""
    import json, sys, urllib.request

    from kafkatools.pipeline.errors import PipelineError
    from kafkatools.pipeline.run.batch import run_batch
    from kafkatools.pipeline.run.session import open_session
    from kafkatools.pipeline.run.spec import pipeline_from

    log, out, *conf = sys.argv[1:]
    spark = open_session("metrics", "local[2]", dict(pair.split("=") for pair in conf))
    values = {"from": f"log:{log}", "from-option": {"splitBytes": "20000"}, "sql": "SELECT offset FROM input"}
    run_batch(spark, pipeline_from({**values, "to": f"json:{out}"}, {}), lambda table: 0)
    try:
        run_batch(spark, pipeline_from({**values, "strict": True, "to": f"json:{out}2"}, {}), lambda table: 0)
    except PipelineError:
        pass
    context = spark.sparkContext
    entries = []
    if context.uiWebUrl:
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/sql?details=true&length=100"
        entries = json.load(urllib.request.urlopen(url))
    spark.stop()
    print(json.dumps(entries))
""")


def entries_of(log: pathlib.Path, out: pathlib.Path, *conf: str) -> list[dict[str, Any]]:
    program = [sys.executable, "-c", _PROGRAM, str(log), str(out), *conf]
    ran = subprocess.run(program, capture_output=True, check=False)
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
    ours, failed = (entry for entry in entries if entry["description"].startswith("kt pipeline: log:"))
    assert (ours["status"], failed["status"]) == ("COMPLETED", "FAILED")
    assert ours["description"] == f"kt pipeline: log:{damaged} to json:{out}"
    (node,) = ours["nodes"]
    assert node["nodeName"] == f"Read log:{damaged} as input"
    metrics = {metric["name"]: int(metric["value"].replace(",", "")) for metric in node["metrics"]}
    rows = sum(len(file.read_text().splitlines()) for file in out.glob("*.json"))
    size = sum(file.stat().st_size for file in damaged.glob("*.log"))
    batches = metrics.pop("batches read")
    assert metrics == {"bytes read": size, "records read": rows, "damaged ranges": 2}
    assert 0 < batches < rows < 1197
    assert [entry["id"] for entry in entries] == list(range(len(entries)))  # Spark's own numbers, each once


def test_without_a_ui_a_run_is_as_it_was(damaged: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert entries_of(damaged, tmp_path / "out", "spark.ui.enabled=false") == []
    assert list((tmp_path / "out").glob("*.json"))


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
