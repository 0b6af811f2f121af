"""Which offsets the manifest of a stream that was killed lacks, from checkpoint, journal and manifest."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from kafkatools.pipeline.run.recorded_stream import _committed
from kafkatools.pipeline.run.spec import Pipeline, Sink, Source
from kafkatools.pipeline.run.stream_progress import BatchOffsets, _beginning
from kafkatools.pipeline.run.stream_sources import topic_offsets
from kafkatools.pipeline.uris import Uri

PIPELINE = Pipeline((Source("input", Uri("topic", "t")),), Sink(Uri("delta", "/table")), is_streaming=True)
START_OF_LAST = {"topic": "t", "partition": 0, "end_offset": 10}
FIRST = {"t": {"0": 10}, "$start": {"t": {"0": 4}}}


class Checkpoint:
    """The offsets of micro-batches 0 and 1, of which the first may be deleted; `last` is committed."""

    def __init__(self, last: int, *, has_first: bool = True) -> None:
        self.last, self.has_first = last, has_first

    def last_committed(self) -> int:
        return self.last

    def planned(self, number: int) -> BatchOffsets | None:
        if number == 0:
            return (
                BatchOffsets({"input": topic_offsets(FIRST)}, {"input": _beginning(FIRST)}) if self.has_first else None
            )
        return BatchOffsets({"input": {"t": {"0": 30, "1": 5}}}, {"input": {}})


def missing(checkpoint: Checkpoint, batch: int, starts: Any, end: int | None = None) -> tuple[int, Any, Any] | None:
    rows = [] if end is None else [{"topic": "t", "partition": 0, "end_offset": end}]
    before: Any = {"sources": [{"name": "input", "partitions": rows}]}
    found = _committed(checkpoint, {"batch": batch, "starts": starts}, PIPELINE, before)  # type: ignore[arg-type]
    return None if found is None else (found.batch, found.starts["input"], found.ends["input"])


def test_a_stream_that_committed_nothing_lacks_nothing() -> None:
    assert missing(Checkpoint(-1), -1, None) is None
    assert missing(Checkpoint(1), 1, [{"t": {"0": 30, "1": 5}}], 30) is None


def test_a_new_stream_lacks_all_from_its_beginning() -> None:
    assert missing(Checkpoint(0), -1, None) == (0, {"t": {"0": 4}}, {"t": {"0": 10}})
    assert missing(Checkpoint(1), -1, [{"t": {"0": 4}}]) == (1, {"t": {"0": 4}}, {"t": {"0": 30, "1": 5}})


def test_a_kill_after_the_manifest_and_before_the_end_of_the_journal_adds_nothing() -> None:
    assert missing(Checkpoint(0), -1, [{"t": {"0": 4}}], 10) is None
    assert missing(Checkpoint(1), -1, [{"t": {"0": 4}}], 10) == (1, {"t": {"0": 10}}, {"t": {"0": 30, "1": 5}})


@pytest.mark.parametrize(("runs", "is_missing"), [(0, False), (2, False), (3, True)])
def test_a_manifest_that_was_written_after_the_journal_lacks_nothing(runs: int, is_missing: bool) -> None:
    """Also if its last micro-batches read no record, so that it ends before them."""
    journal = {"batch": -1, "starts": [{"t": {"0": 4}}], "runs": runs}
    before: Any = {"runs": 3, "sources": [{"name": "input", "partitions": [START_OF_LAST]}]}
    found = _committed(Checkpoint(1), journal, PIPELINE, before)  # type: ignore[arg-type]
    assert (found is not None) == is_missing


def test_a_beginning_that_spark_has_deleted_is_unknown() -> None:
    assert missing(Checkpoint(1, has_first=False), -1, None) == (1, {}, {"t": {"0": 30, "1": 5}})
