"""`export` in this process; `jobs/export_state.py` explains rounds and how a run resumes.

The files of a round are written to the stage. A run that fails or is interrupted deletes the stage, so only complete
files remain.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.export_state import (
    STAGE,
    Export,
    Exported,
    ExportState,
    ensure_continued,
    ensure_same_topics,
    lost_ranges,
    next_ranges,
)
from kafkatools.pipeline.jobs.in_process.export_files import LocalDirectory, RoundFiles, locked_state
from kafkatools.pipeline.jobs.in_process.export_rows import RowShape
from kafkatools.pipeline.jobs.in_process.tables import LocalSource
from kafkatools.pipeline.jobs.offsets import Ranges
from kafkatools.pipeline.storage import local_path
from kafkatools.pipeline.uris import path_of


def run_export(
    source: LocalSource, export: Export, shape: RowShape, advance: Callable[[int], object] = lambda rows: None
) -> Exported:
    """Finish the file moves of an interrupted run, then export the offsets available now that are not exported yet, in
    rounds. `advance` is called with numbers of records that were read. Returns the sums. Raises PipelineError."""
    if local_path(path_of(export.sink)) is None:
        raise PipelineError(f"{export.sink} must be a local directory; kt pipeline export also writes to URLs")
    directory = LocalDirectory(path_of(export.sink))
    is_new = not os.path.lexists(directory.path)
    try:
        with locked_state(export, directory) as state:
            return _run(source, export, shape, state, advance)
    except BaseException:
        if is_new and os.path.isdir(directory.path) and not os.listdir(directory.path):
            os.rmdir(directory.path)
        raise


def _run(
    source: LocalSource, export: Export, shape: RowShape, state: ExportState, advance: Callable[[int], object]
) -> Exported:
    state.finish_move()
    ends = source.ranges()
    ensure_same_topics(export, state.topic_ids)
    ensure_continued(export, ends, state.ends)
    progress = Exported(ends=dict(state.ends), deleted_ranges=lost_ranges(ends, state.ends))
    while ranges := next_ranges(ends, state.ends, export.round_offsets):
        progress.rows += _round(source, export, shape, state, ranges, advance)
        progress.rounds += 1
        try:
            progress.files += state.finish_move()
        except KeyboardInterrupt:  # the moves are quick, and half of them would be a part of a round
            state.finish_move()
            raise
        progress.ends = dict(state.ends)
    return progress


def _round(
    source: LocalSource, export: Export, shape: RowShape, state: ExportState, ranges: Ranges,
    advance: Callable[[int], object],
) -> int:  # fmt: skip
    """Write the files of a round to the stage, record them and return the number of rows."""
    header = ",".join(shape.columns) + "\n" if export.sink.kind == "csv" else ""
    state.directory.delete([STAGE])
    files = RoundFiles(os.path.join(path_of(export.sink), STAGE), export.sink.kind, header.encode())
    try:
        with source.in_order(shape.source_columns, ranges) as batches:
            for batch in batches:
                for rows in shape.shaped(batch):
                    files.add(rows)
                advance(batch.num_rows)
        names = files.finish()
    except BaseException:
        state.directory.delete([STAGE])
        raise
    state.record(names, ranges)
    return files.rows
