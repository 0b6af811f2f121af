"""Fixtures of the log's tests: recorded directories of Apache Kafka 4.3.1, unpacked."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[3] / "golden" / "log"


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str], Path]:
    """Unpack a recorded case; gives its directory, with `log` and maybe `before` in it."""

    def unpack(name: str) -> Path:
        target = tmp_path / "golden" / name
        target.mkdir(parents=True)
        with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
            archive.extractall(target, filter="data")
        return target

    return unpack
