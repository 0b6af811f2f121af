"""Jobs in this process whose statement fails in DuckDB: the error ends the job, and no chain of causes is endless."""

from __future__ import annotations

import pathlib

import pytest
from support.kt import run_kt
from support.log_batches import make_batch

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.in_process.tables import LocalSource, connection, load
from kafkatools.pipeline.run.session import was_interrupted
from kafkatools.pipeline.uris import Uri


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(make_batch([b"v"] * 3, keys=[b"k"] * 3))
    return tmp_path / "t-0"


def test_an_error_of_duckdb_is_no_cause_of_itself(log: pathlib.Path) -> None:
    with pytest.raises(PipelineError, match="Referenced column") as failed, connection() as database:
        load(database, LocalSource(Uri("log", str(log))), ("key",), "CREATE TABLE t AS SELECT nothing FROM input")
    assert failed.value.__cause__ is not None and failed.value.__cause__.__cause__ is None


def test_a_cycle_of_causes_is_no_interrupt() -> None:
    error, cause = ValueError(), ValueError()
    error.__cause__, cause.__cause__ = cause, error
    assert not was_interrupted(error)
    cause.__cause__ = KeyboardInterrupt()
    assert was_interrupted(error)


def test_a_field_that_is_named_twice_is_compared_once(log: pathlib.Path) -> None:
    ran = run_kt("diff", f"log:{log}", f"log:{log}", "--compare", "value,value")
    assert ran.status == 0, ran
