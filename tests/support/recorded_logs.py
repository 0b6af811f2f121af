"""The recorded log directories of tests/golden/log, unpacked."""

from __future__ import annotations

import pathlib

from support.archives import unpack

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "log"


def unpack_log(name: str, target: pathlib.Path) -> pathlib.Path:
    """Unpacks a recorded case below `target`; gives the directory with the files of its log, free to be changed."""
    unpack(GOLDEN / f"{name}.tar.gz", target / name)
    return target / name / "log"
