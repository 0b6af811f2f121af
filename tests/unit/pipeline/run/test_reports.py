"""Reports of splits: whole or not at all, once each, with a checksum that does not depend on how a log was split."""

from __future__ import annotations

import io
import json
import pathlib
import random
from dataclasses import asdict

import pytest
from support.requirements import require

try:
    import numpy as np
    import pyspark  # noqa: F401
except ImportError:
    require("PySpark is not installed: pip install '.[spark]'")

from kafkatools.commands.pipeline.show import report_result
from kafkatools.console import Console
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.batch import RunResult, SourceResult
from kafkatools.pipeline.run.reports import BYTE, CHECKSUM, OFFSET, Damage, SplitReport, read_reports, write_report
from kafkatools.pipeline.run.spec import Pipeline, Sink
from kafkatools.pipeline.uris import Uri


def report(start: int = 0, **fields: int) -> SplitReport:
    return SplitReport("orders", 3, "/data/orders-3/00000000000000000000.log", start, start + 100, **fields)


def test_reports_are_read_as_they_were_written(tmp_path: pathlib.Path) -> None:
    one = report(records=5, first_offset=1, last_offset=5)
    one.damages.append(Damage("/data/x.log", 7, 30, CHECKSUM, "Record is corrupt"))
    one.add_batches(np.array([1, 4]), np.array([0xFFFFFFFF, 12]))
    write_report(str(tmp_path / "new" / "reports"), one)
    write_report(str(tmp_path / "new" / "reports"), report(100))
    assert list(read_reports(str(tmp_path / "new" / "reports"))) == [one, report(100)]
    assert list(read_reports(str(tmp_path / "none"))) == []


def test_every_key_of_a_report(tmp_path: pathlib.Path) -> None:
    one = report(first_offset=1, last_offset=5, records=5, batches=2, checksum=9, start_offset=1, end_offset=6)
    one.damages.append(Damage("/data/x.log", 7, 30, CHECKSUM, "Record is corrupt"))
    write_report(str(tmp_path), one)
    damage = {"file": "/data/x.log", "position": 7, "length": 30, "kind": "checksum", "reason": "Record is corrupt",
              "unit": "byte"}  # fmt: skip
    assert json.loads((tmp_path / one.name).read_text()) == {
        "topic": "orders", "partition": 3, "file": "/data/orders-3/00000000000000000000.log", "start_position": 0,
        "end_position": 100, "first_offset": 1, "last_offset": 5, "records": 5, "batches": 2, "checksum": 9,
        "start_offset": 1, "end_offset": 6, "size_bytes": 0, "damages": [damage],
    }  # fmt: skip


@pytest.mark.parametrize(("unit", "place"), [(BYTE, "at byte 7 (30 bytes)"), (OFFSET, "at offset 7 (30 bytes)")])
def test_the_summary_of_a_run_says_what_the_position_of_a_damage_counts(unit: str, place: str) -> None:
    damage = asdict(Damage("orders-3", 7, 30, CHECKSUM, "the batch is damaged", unit))
    result = RunResult([SourceResult("input", "topic:orders", 5, damages=[damage])], "console:", 5)
    stderr = io.BytesIO()
    pipeline = Pipeline((), Sink(Uri("console", "")))
    report_result(Console(io.BytesIO(), io.BytesIO(), stderr, {}), pipeline, result)
    assert f"1 damaged range, the first in orders-3 {place}: the batch is damaged\n" in stderr.getvalue().decode()


def test_damage_names_a_byte_of_a_file_and_an_offset_of_a_live_topic() -> None:
    in_file = Damage("/data/x.log", 7, 30, CHECKSUM, "Record is corrupt")
    assert in_file.text() == "/data/x.log at byte 7: Record is corrupt (30 bytes lost)"
    in_topic = Damage("orders-3", 7, 30, CHECKSUM, "the batch is damaged: bad", OFFSET)
    assert in_topic.text() == "orders-3 at offset 7: the batch is damaged: bad (30 bytes lost)"


def test_a_task_that_runs_twice_counts_once(tmp_path: pathlib.Path) -> None:
    write_report(str(tmp_path), report(records=1))
    write_report(str(tmp_path), report(records=2))
    (tmp_path / (report(100).name + ".77.tmp")).write_text("{")  # one that was killed
    assert [each.records for each in read_reports(str(tmp_path))] == [2]


def test_the_same_partition_of_another_directory_has_its_own_name() -> None:
    other = report()
    other.file = "/copy/orders-3/00000000000000000000.log"
    assert len({report().name, report(100).name, other.name}) == 3


def test_the_checksum_does_not_depend_on_splits_and_order_but_on_every_batch() -> None:
    generator = random.Random(5)
    batches = [(generator.randrange(1 << 40), generator.randrange(1 << 32)) for _ in range(500)]
    whole = report()
    whole.add_batches(*np.array(batches).T)
    shuffled = batches[:]
    generator.shuffle(shuffled)
    total = 0
    for start in range(0, 500, 70):
        part = report(start)
        part.add_batches(*np.array(shuffled[start : start + 70]).T)
        total += part.checksum
    assert total % 2**64 == whole.checksum
    for changed in (batches[1:], [(batches[0][0] + 1, batches[0][1]), *batches[1:]], [*batches, batches[0]]):
        different = report()
        different.add_batches(*np.array(changed).T)
        assert different.checksum != whole.checksum
    swapped = [(batches[0][0], batches[1][1]), (batches[1][0], batches[0][1]), *batches[2:]]
    different = report()
    different.add_batches(*np.array(swapped).T)
    assert different.checksum != whole.checksum


def test_what_is_no_report_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"topic": "orders"}))
    with pytest.raises(PipelineError, match=r"other\.json is not a report of a reader task"):
        list(read_reports(str(tmp_path)))


def test_a_place_that_cannot_be_written_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"file/orders-3-.* cannot be written: "):
        write_report(str(tmp_path / "file"), report())
