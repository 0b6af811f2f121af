"""`check` as a Spark job: the same findings as file by file, spread over tasks."""

from __future__ import annotations

import pathlib
import shutil
from typing import TYPE_CHECKING

import pytest
from support import recorded_segments

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.check import CheckFinding, check_here, files_to_check, spread
from kafkatools.pipeline.jobs.spark_check import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_findings_of_a_log_directory(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    for topic, name in {"sound-0": "multi-segment", "moved-1": "txn-java", "cold-0": "damaged-zero-middle"}.items():
        shutil.copytree(recorded_segments.log_directory(name), tmp_path / topic)
    shutil.copytree(tmp_path / "cold-0", tmp_path / "cold-0.1234abcd-delete")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\nmany\n")
    lost = sorted((tmp_path / "moved-1").glob("*.txnindex"))
    for path in lost:
        path.unlink()
    rows = check(spark, [str(tmp_path)]).collect()
    assert check_here(files_to_check([str(tmp_path)])) == sorted(
        map(CheckFinding._make, rows), key=lambda row: row.place
    )
    by_directory = {pathlib.Path(row.directory).name for row in rows}
    assert by_directory == {"cold-0", "moved-1", tmp_path.name}
    zeroed = [
        row for row in rows if row.kind == "log" and row.directory.endswith("cold-0") and row.severity == "damage"
    ]
    assert [row.position for row in zeroed] == [4681]
    assert zeroed[0].lost == "608 bytes lost, continuing at byte 5289"
    assert {row.kind for row in rows if row.directory.endswith("moved-1")} == {"txnindex"}
    assert [row.kind for row in rows if row.directory == str(tmp_path)] == ["recovery-point-offset-checkpoint"]
    assert rows[0].position is None or rows[0].position >= 0
    (sound,) = files_to_check([str(tmp_path / "sound-0" / f"{0:020d}.log")])
    assert check(spark, [sound.path]).count() == len(check_here([sound])) == 0


def test_files_are_spread_by_size(tmp_path: pathlib.Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    for number, size in enumerate((10, 90, 50, 40, 10)):
        (directory / f"{number:020d}.log").write_bytes(bytes(size))
    groups = spread(files_to_check([str(tmp_path)]), 2)
    assert sorted(sum(file.size_bytes for file in group) for group in groups) == [100, 100]
    assert len(spread(files_to_check([str(tmp_path)]), 100)) == 5


def test_nothing_to_check_is_said(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PipelineError, match="contains no files of a log"):
        files_to_check([str(tmp_path)])
    with pytest.raises(PipelineError, match="no such file or directory"):
        files_to_check([str(tmp_path / "gone")])


def test_a_path_may_be_named_twice_and_an_index_is_no_file_to_check(tmp_path: pathlib.Path) -> None:
    segment = tmp_path / "t-0" / f"{0:020d}.log"
    segment.parent.mkdir()
    for path in (segment, segment.with_suffix(".index")):
        path.write_bytes(b"")
    files = files_to_check([str(tmp_path), str(tmp_path), str(segment.parent)])
    assert [file.path for file in files] == [str(segment.with_suffix(".index")), str(segment)]
    with pytest.raises(PipelineError, match="is an index; name its segment"):
        files_to_check([str(segment.with_suffix(".index"))])
