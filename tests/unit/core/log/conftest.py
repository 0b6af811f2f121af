"""What the tests of the log share: recorded directories of Apache Kafka 4.3.1 and batches read from them."""

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkatools.core.log.batch_headers import BatchHeader, read_header

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


def split_log(directory: Path) -> Iterator[tuple[BatchHeader, bytearray]]:
    """All batches of a recorded log in order."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            header = read_header(data, position)
            yield header, bytearray(data[position : position + header.size_bytes])
            position += header.size_bytes


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a directory by name."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
