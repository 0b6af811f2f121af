"""Temporary directories of the pipeline are for their owner only, whatever the umask."""

from __future__ import annotations

import os
import pathlib
import stat
import tempfile
from collections.abc import Iterator

import pytest

from kafkatools.commands.pipeline.job_source import damage_reports
from kafkatools.pipeline.run.batch import reports_directory
from kafkatools.pipeline.run.spec import pipeline_from


@pytest.fixture
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """The directory for temporary files, with a umask that takes no permission away."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


def ensure_private(directory: pathlib.Path) -> None:
    """All that stands in a directory is closed to other users."""
    entries = list(directory.iterdir())
    assert entries
    assert {stat.S_IMODE(path.stat().st_mode) for path in entries} == {0o700}


@pytest.mark.parametrize("is_chosen", [False, True])
def test_reports_of_a_run_are_private(temporary: pathlib.Path, is_chosen: bool) -> None:
    place = temporary / "reports"
    values = {"from": "log:/logs", "to": "console:", **({"report-path": str(place)} if is_chosen else {})}
    if is_chosen:
        place.mkdir()
    with reports_directory(pipeline_from(values, {})):
        ensure_private(place if is_chosen else temporary)


def test_reports_of_a_job_are_private(temporary: pathlib.Path) -> None:
    with damage_reports():
        ensure_private(temporary)
