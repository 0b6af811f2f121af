"""A check of each Python worker against the driver: once for each process, before the worker runs a task.

`PythonCheck` is the first attribute of each reader and writer, and is unpickled before the others. An executor that
joins the application later than the session's start, from another image or another directory of packages, thereby
fails with a line that names host, Python and remedy, and not in the middle of a task. Spark itself compares the minor
versions of Python.
"""

from __future__ import annotations

import functools
import platform
import socket
import sys
from importlib.util import find_spec

from kafkatools.pipeline.errors import PipelineError
from kafkatools.version import __version__

DEPENDENCIES = {
    "crc32c": "crc32c", "lz4": "lz4", "zstandard": "zstandard", "snappy": "python-snappy", "cramjam": "cramjam",
}  # fmt: skip
"""The modules that reading and writing records may import, and their distributions."""


class PythonCheck:
    """Compares the process that unpickles it with the one that pickled it. Raises PipelineError there, if the package's
    version differs or a module of a codec is missing."""

    def __reduce__(self) -> tuple[object, ...]:
        return _checked, (__version__, _modules(), platform.python_version())


@functools.cache
def _checked(version: str, modules: tuple[str, ...], driver_python: str) -> PythonCheck:
    place = f"The Python of the executor on {socket.gethostname()} ({sys.executable}, {platform.python_version()})"
    driver = f"the driver's (Python {driver_python})"
    if version != __version__:
        raise PipelineError(
            f"{place} has kafkatools {__version__}, and {driver} has {version}: install the same version there (pip "
            "install), or start the session anew, which sends it"
        )
    missing = [DEPENDENCIES[name] for name in modules if find_spec(name) is None]
    if missing:
        raise PipelineError(
            f"{place} lacks {', '.join(missing)}, which {driver} has: pip install {' '.join(missing)} there, or start "
            "the session anew, which sends them"
        )
    return PythonCheck()


@functools.cache
def _modules() -> tuple[str, ...]:
    return tuple(name for name in DEPENDENCIES if find_spec(name) is not None)
