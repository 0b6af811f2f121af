"""The recorded segments of tests/golden/segments, unpacked once per run, with what Kafka's tool made of them."""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import tempfile
from typing import NamedTuple

from support.archives import unpack

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "segments"


class RecordedCase(NamedTuple):
    """One run of Kafka's tool in `directory`/log."""

    directory: pathlib.Path
    args: list[str]
    stdout: bytes
    stderr: str
    exit: int

    @property
    def log(self) -> pathlib.Path:
        return self.directory / "log"


def names() -> list[tuple[str, str, str]]:
    """(archive, directory, case) of every recording."""
    table = json.loads((GOLDEN / "cases.json").read_text())
    return [
        (archive, directory, case)
        for archive, directories in table.items()
        for directory, cases in directories.items()
        for case in cases
    ]


@functools.cache
def _root() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="recorded-segments-")


@functools.cache
def unpacked(archive: str) -> pathlib.Path:
    """The directory an archive was unpacked into, whole from the start: copies of a process have the root in common."""
    root = pathlib.Path(_root().name)
    target = root / archive
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=root) as made:
            unpack(GOLDEN / f"{archive}.tar.xz", pathlib.Path(made) / archive)
            with contextlib.suppress(OSError):  # another process was faster
                (pathlib.Path(made) / archive).rename(target)
    return target


def log_directory(name: str) -> pathlib.Path:
    """The `log` directory of a recording by its name; not to be written to."""
    table = json.loads((GOLDEN / "cases.json").read_text())
    archive = next(archive for archive, directories in table.items() if name in directories)
    return unpacked(archive) / name / "log"


def case(archive: str, directory: str, name: str) -> RecordedCase:
    """One recording."""
    place = unpacked(archive) / directory
    expect = place / "expect"
    return RecordedCase(
        directory=place,
        args=(expect / f"{name}.args").read_text().split(),
        stdout=(expect / f"{name}.stdout").read_bytes(),
        stderr=(expect / f"{name}.stderr").read_text(encoding="utf-8").replace("<LOGDIR>", str(place / "log")),
        exit=int((expect / f"{name}.exit").read_text()),
    )
