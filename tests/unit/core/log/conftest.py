"""Fixtures of the log's tests: recorded directories of Apache Kafka 4.3.1, unpacked."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support import archives

GOLDEN = Path(__file__).parents[3] / "golden" / "log"


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str], Path]:
    """Unpack a recorded case; gives its directory, with `log` and maybe `before` in it."""

    def unpack(name: str) -> Path:
        target = tmp_path / "golden" / name
        target.mkdir(parents=True)
        archives.unpack(GOLDEN / f"{name}.tar.gz", target)
        return target

    return unpack
