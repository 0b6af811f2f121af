"""Text files of the package, wherever its modules come from: a directory, or a zip file on a Spark executor."""

from __future__ import annotations

import os
import sys


def package_text(module: str, file: str) -> str:
    """The text of a file beside a module. Raises OSError when it is not there."""
    found = sys.modules[module]
    assert found.__file__ is not None and found.__spec__ is not None
    path = os.path.join(os.path.dirname(found.__file__), file)
    data: bytes = getattr(found.__spec__.loader, "get_data")(path)  # noqa: B009 - of every loader that reads files
    return data.decode()
