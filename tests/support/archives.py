"""Unpacking of the recorded directories."""

from __future__ import annotations

import pathlib
import tarfile


def unpack(archive: pathlib.Path, target: pathlib.Path) -> None:
    """Unpack a tar archive of tests/golden below `target`.

    Python 3.11.0 to 3.11.3 have no extraction filters; the archives are the project's own, so none is needed there.
    """
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):
            packed.extraction_filter = tarfile.data_filter
        packed.extractall(target)
