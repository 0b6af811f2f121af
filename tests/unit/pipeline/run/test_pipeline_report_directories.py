"""Directories of readers' reports: a task that still writes while one is deleted changes no result."""

from __future__ import annotations

import errno
import os
import pathlib
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kafkatools.commands.pipeline.sql import shell
from kafkatools.pipeline.run.batch import reports_directory
from kafkatools.pipeline.run.spec import pipeline_from


def of_run() -> AbstractContextManager[object]:
    return reports_directory(pipeline_from({"from": "topic:t", "to": "console:"}, {}))


def of_statement() -> AbstractContextManager[object]:
    spark: Any = type("Session", (), {"sparkContext": None})()
    return shell._table_reports(spark)


@pytest.mark.parametrize("directory", [of_run, of_statement])
def test_a_report_that_is_written_while_its_directory_is_deleted_is_no_error(
    directory: Callable[[], AbstractContextManager[object]], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_empty(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shell, "is_shown", lambda _: True)
    monkeypatch.setattr(shell, "is_local", lambda _: True)
    with pytest.raises(KeyboardInterrupt), directory():
        assert len(list(tmp_path.iterdir())) == 1
        monkeypatch.setattr(os, "rmdir", not_empty)
        raise KeyboardInterrupt
