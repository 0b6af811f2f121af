"""Read text files of the package, also when its modules are in a zip file, as on a Spark executor."""

from __future__ import annotations

import os
import sys


def package_text(module: str, file: str) -> str:
    """Return the text of a UTF-8 file in the directory of an imported module. Raises OSError when the file is
    missing."""
    owner = sys.modules[module]
    assert owner.__file__ is not None and owner.__spec__ is not None
    path = os.path.join(os.path.dirname(owner.__file__), file)
    data: bytes = getattr(owner.__spec__.loader, "get_data")(path)  # noqa: B009 - of every loader that reads files
    return data.decode()
