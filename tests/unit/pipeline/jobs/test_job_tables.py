"""Failures of jobs in this process: the exception of a reader, and a DuckDB without space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.in_process.tables import LocalSource, connection, load
from kafkatools.pipeline.uris import Uri


def test_a_full_disk_is_one_line_that_names_the_temporary_directory() -> None:
    with (
        pytest.raises(PipelineError, match=r"^Out of Memory Error: .*TMPDIR names.*kt-job-") as raised,
        connection() as database,
    ):
        database.execute("SET memory_limit='8MB'")
        database.execute("SET max_temp_directory_size='1MB'")
        database.execute("CREATE TABLE t AS SELECT range AS r, repeat('x', 100) AS s FROM range(1000000)")
    assert "\n" not in str(raised.value)


class _EndsEarly(LocalSource):
    """A source whose broker fails behind the first record batch."""

    @contextmanager
    def reader(self, columns: Sequence[str], table: str = "records") -> Iterator[pa.RecordBatchReader]:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch([pa.array([1])], names=["offset"])
            raise PipelineError("broker 1 is gone")

        yield pa.RecordBatchReader.from_batches(pa.schema([("offset", pa.int64())]), self._watched(batches()))


def test_the_exception_of_a_reader_is_raised_as_it_is() -> None:
    source = _EndsEarly(Uri("topic", "t"))
    with pytest.raises(PipelineError, match=r"^broker 1 is gone$"), connection() as database:
        load(database, source, ["offset"], 'CREATE TABLE t AS SELECT max("offset") FROM input')
