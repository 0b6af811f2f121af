"""The Python that a local session's workers run: this one, through a script that starts it with `worker_start.py`.

Spark takes the path of an executable and no arguments, so the arguments are in a shell script of a temporary directory.
Without a POSIX shell, or where the directory forbids executables, the workers run this Python directly. So they do if
PySpark is not in a directory of modules, or if Spark's JVM belongs to another installation of Spark (SPARK_HOME), whose
PySpark may differ. A program of spark-submit has PySpark from archives in SPARK_HOME; if pip installed it, the same
modules are in directories beside.
"""

from __future__ import annotations

import functools
import os
import shlex
import sys
import tempfile
from types import ModuleType

from kafkatools.pipeline.run import worker_start

_SHELL = "/bin/sh"
_SCRIPT = """#!{interpreter}
case "$1" in
-m) exec {python} {start} {places} "$@" ;;
*) exec {python} "$@" ;;
esac
"""


@functools.lru_cache
def worker_python(spark_home: str | None) -> str:
    """Return the path of the executable for workers. `spark_home` is that of the environment, None if it is unset."""
    places = _places(spark_home)
    if not places or not os.access(_SHELL, os.X_OK) or not _is_own(spark_home):
        return sys.executable
    return _script(places) or sys.executable


def _places(spark_home: str | None) -> list[str]:
    """Return the directories with the PySpark and the py4j of this process; none if one is only in an archive."""
    import py4j
    import pyspark

    places = [_directory(module, spark_home) for module in (pyspark, py4j)]
    if not all(map(os.path.isdir, places)) or any(os.pathsep in place for place in places):
        return []
    return list(dict.fromkeys(places))


def _directory(module: ModuleType, spark_home: str | None) -> str:
    """Return the directory from which a module can be imported, that beside SPARK_HOME for one from an archive; empty
    if there is none."""
    place = os.path.dirname(os.path.dirname(os.path.abspath(str(module.__file__))))
    if os.path.isdir(place) or spark_home is None:
        return place
    beside = os.path.dirname(os.path.realpath(spark_home))
    return beside if os.path.isfile(os.path.join(beside, module.__name__, "__init__.py")) else ""


def _is_own(spark_home: str | None) -> bool:
    """Return whether this process has the PySpark of SPARK_HOME: the package itself, which pip installs with Spark, or
    the one in `python`, a directory or the archive in its `lib`. The version of another one below SPARK_HOME may
    differ."""
    import pyspark

    if spark_home is None:
        return True
    own = os.path.realpath(os.path.dirname(os.path.abspath(str(pyspark.__file__))))
    home = os.path.realpath(spark_home)
    modules = os.path.join(home, "python")
    return own == home or os.path.dirname(own) in (modules, os.path.join(modules, "lib", "pyspark.zip"))


def _script(places: list[str]) -> str:
    """Write the script and return its path; empty if it cannot be executed there."""
    import atexit
    import shutil

    directory = tempfile.mkdtemp(prefix="kafkatools-python-")
    creator = os.getpid()

    def remove() -> None:
        if os.getpid() == creator:  # not in a forked process that ends
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    path = os.path.join(directory, os.path.basename(sys.executable))
    quoted = {
        "python": shlex.quote(sys.executable),
        "start": shlex.quote(os.path.abspath(worker_start.__file__)),
        "places": shlex.quote(os.pathsep.join(places)),
    }
    with open(path, "w", encoding="utf-8") as script:
        script.write(_SCRIPT.format(interpreter=_SHELL, **quoted))
    os.chmod(path, 0o700)
    return path if os.access(path, os.X_OK) else ""
