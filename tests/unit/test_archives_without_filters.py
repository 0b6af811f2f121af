"""Archives of the project are unpacked on Python 3.11.0 to 3.11.3, whose tarfile has no extraction filters."""

from __future__ import annotations

import pathlib
import tarfile
from typing import Any

import pytest
from support.recorded_logs import unpack_log


@pytest.fixture(autouse=True)
def _without_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """tarfile as in Python 3.11.2: no filter in the module, no such argument of extractall."""
    extract = tarfile.TarFile.extractall
    every: dict[str, Any] = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}

    def extractall(self: tarfile.TarFile, path: Any = ".", members: Any = None, *, numeric_owner: bool = False) -> None:
        extract(self, path, members, numeric_owner=numeric_owner, **every)

    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)


def test_recorded_logs(tmp_path: pathlib.Path) -> None:
    assert [path.suffix for path in unpack_log("codec-lz4-java", tmp_path).glob("*.log")] == [".log"]


@pytest.mark.slow
def test_the_partition_of_the_demo(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    from demo.__main__ import Demo, recorded

    recorded(Demo(tmp_path))
    assert "exit status 3" in capsys.readouterr().out
