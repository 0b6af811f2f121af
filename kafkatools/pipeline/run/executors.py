"""Python on Spark's executors: finding the missing modules of this package and its dependencies, and sending them.

Rules: an executor gets what it lacks before the data sources are registered, because Spark notes the files of a data
source when it is registered. The package travels with its dependencies as an archive, which Spark unpacks beside each
executor. A module of its name on the path of the Python workers imports it from there. With the Python and platform of
this process, the archive has compiled kernels and dependencies. Otherwise it has plain Python only, and an error names
the executors that lack a compiled dependency.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pathlib
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.python_check import DEPENDENCIES
from kafkatools.pipeline.run.worker_python import worker_python
from kafkatools.version import __version__

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

PACKAGE = "kafkatools"
DECODERS = {"fastavro": "fastavro"}
"""Modules that decoding may import, sent if they are installed here."""
ENVIRONMENT = ("pyarrow", "pandas", "numpy")
"""What Spark itself needs of an executor's Python; too large to be sent."""
_SOURCES = (".py", ".txt", ".properties", ".css", ".js", ".html", ".typed")
_COMPILED = (".so", ".pyd")
_LOADER = """# Imports kafkatools from the archive that Spark unpacked beside this file.
import importlib, os, sys

_here = os.path.dirname(os.path.abspath(__file__))
_unpacked = os.path.join(_here, {name!r})
if os.path.isdir(_unpacked):
    sys.path.insert(0, _unpacked)
else:
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != _here]
del sys.modules["kafkatools"]
importlib.invalidate_caches()
sys.modules["kafkatools"] = importlib.import_module("kafkatools")
"""
_MISMATCH = re.compile(r"PYTHON_VERSION_MISMATCH\D*(?P<worker>3\.\d+)\D+(?P<driver>3\.\d+)")

_MISSING = re.compile(r"No module named '(?P<module>kafkatools(?P<inner>\.[\w.]+)?|pyarrow|pandas|numpy)'")
_LOST_TASK = re.compile(r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \((?P<host>\S+) executor")

Fields = tuple[str, str, str, str, tuple[str, ...], str]


class Worker(NamedTuple):
    """The Python of an executor. `build`: version, platform and C library, which compiled modules depend on."""

    host: str
    python: str
    build: str
    package_version: str
    missing: tuple[str, ...]
    python_version: str


_applications: set[str] = set()
"""The applications of this process whose executors have all modules."""


def is_local(context: SparkContext) -> bool:
    """Return whether the tasks of an application run in the JVM of this process."""
    return is_local_master(str(context.master))


def is_local_master(master: str) -> bool:
    """Return whether the tasks of a master URL run in the driver's JVM."""
    return master == "local" or master.startswith("local[")


def ship_package(context: SparkContext, tell: Callable[[str], object] = _log.warning) -> None:
    """Send this package and those dependencies that an executor lacks to all executors, once for each application; do
    nothing if none lacks any. `tell` is called with a line for executors whose Python has another patch level. Raises
    PipelineError, which names hosts, paths of Python and modules, for what cannot be sent."""
    application = str(context.applicationId)
    if is_local(context) or application in _applications:
        return
    _send_what_is_missing(context, tell)
    _applications.add(application)


def _send_what_is_missing(context: SparkContext, tell: Callable[[str], object]) -> None:
    here = _this_worker()
    modules = (PACKAGE, *DEPENDENCIES, *_installed(DECODERS), *ENVIRONMENT)
    workers = _workers(context, modules)
    ensure_environment(workers)
    if line := patch_levels(workers, here):
        tell(line)
    lacking = [worker for worker in workers if worker.missing or worker.package_version != here.package_version]
    if not lacking:
        return
    is_same_build = all(worker.build == here.build for worker in lacking)
    missing = {module for worker in lacking for module in worker.missing}
    directory = tempfile.mkdtemp(prefix="kafkatools-")
    _remove_at_exit(directory)
    archive, left_out = write_archive(directory, sorted(missing - {PACKAGE}), is_same_build)
    if left_out:
        raise PipelineError(_lack(lacking, left_out, here))
    name = pathlib.Path(archive).stem
    module = os.path.join(directory, f"{PACKAGE}.py")
    pathlib.Path(module).write_text(loader(name))
    context.addArchive(f"{archive}#{name}")
    context.addPyFile(module)


def ensure_environment(workers: Iterable[Worker]) -> None:
    """Raise PipelineError if an executor lacks what Spark needs of its Python."""
    for worker in workers:
        modules = [module for module in ENVIRONMENT if module in worker.missing]
        if modules:
            raise PipelineError(
                f"The Python of the executor on {worker.host} ({worker.python}) has no {', '.join(modules)}: install "
                f"it there (pip install {' '.join(modules)}), or set PYSPARK_PYTHON to a Python that has it"
            )


def write_archive(directory: str, modules: Sequence[str], with_compiled: bool) -> tuple[str, list[str]]:
    """Write the package and the distributions of `modules` to a zip in `directory`. Return its path, whose name depends
    on the contents, and the modules that were left out: not installed here, or compiled without `with_compiled`."""
    files = dict(_package_files(with_compiled))
    left_out = []
    for module in modules:
        found = dict(_distribution_files((DEPENDENCIES | DECODERS)[module]))
        is_compiled = any(name.endswith(_COMPILED) or ".so." in name for name in found)
        if not found or (is_compiled and not with_compiled):
            left_out.append(module)
        else:
            files |= found
    digest = hashlib.sha256()
    temporary = os.path.join(directory, "archive.zip")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, path in sorted(files.items()):
            data = path.read_bytes()
            digest.update(name.encode() + data)
            archive.writestr(name, data)
    final = os.path.join(directory, f"{PACKAGE}-{digest.hexdigest()[:16]}.zip")
    os.rename(temporary, final)
    return final, left_out


def loader(name: str) -> str:
    """The module of the package's name that imports it from the directory `name` beside it, or, without that
    directory, the one that is installed."""
    return _LOADER.format(name=name)


def installed_modules() -> list[str]:
    """The modules that `write_archive` takes and that are installed here."""
    return sorted(_installed(DEPENDENCIES | DECODERS))


def this_build() -> str:
    """The Python, platform and C library of this process."""
    return _this_worker().build


def patch_levels(workers: Iterable[Worker], here: Worker) -> str | None:
    """Return the line that names executors whose Python has another patch level than this process; None without any.
    Spark allows that."""
    others = [worker for worker in workers if worker.python_version != here.python_version]
    if not others:
        return None
    places = ", ".join(f"{worker.host} ({worker.python}, {worker.python_version})" for worker in others)
    return (
        f"Python on executors has another patch level than here ({here.python_version}): {places}. Spark allows that; "
        "functions of a --transform may behave differently there"
    )


def worker_failure(text: str) -> str | None:
    """Return the line for an error of Spark about the Python of an executor: another minor version, or no module that
    each worker needs. None for any other error."""
    lost = _LOST_TASK.search(text)
    place = f"The Python of the executor on {lost['host']}" if lost else "The Python of the executors"
    mismatch = _MISMATCH.search(text)
    if mismatch is not None:
        return (
            f"{place} is {mismatch['worker']} and this process has Python {mismatch['driver']}, but Spark needs the "
            f"same minor version: set PYSPARK_PYTHON to the path of a Python {mismatch['driver']} on the executors"
        )
    missing = _MISSING.search(text)
    if missing is None:
        return None
    if missing["inner"]:
        return (
            f"{place} has another version of kafkatools, without the module {missing['module']}: install "
            f"{__version__} there"
        )
    remedy = f"install it there (pip install {missing['module']}), or set PYSPARK_PYTHON to a Python that has it"
    if missing["module"] == PACKAGE:
        remedy = "install it there, or start the session anew, which sends it to executors that lack it"
    return f"{place} has no {missing['module']}: {remedy}"


def use_own_python(context: SparkContext) -> None:
    """Let the Python workers of a local session run the Python of this process, unless PYSPARK_PYTHON or
    spark.pyspark.python names another one. PySpark would start the `python3` of the PATH."""
    if not is_local(context) or context.getConf().get("spark.pyspark.python") not in (None, sys.executable):
        return
    environ = os.environ  # noqa: TID251 - where PySpark reads it
    if environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable:
        context.pythonExec = worker_python(environ.get("SPARK_HOME"))


# -- The probe --


def _this_worker() -> Worker:
    return Worker(*_probe()((PACKAGE,)))


def _probe() -> Callable[[tuple[str, ...]], Fields]:
    """Return the function that runs on executors. It is local to another one, so that it is pickled by value: an
    executor without the package could not import it."""

    def describe(modules: tuple[str, ...]) -> Fields:
        import platform
        import socket
        import sys
        import sysconfig
        from importlib import import_module
        from importlib.util import find_spec

        missing = tuple(name for name in modules if find_spec(name) is None)
        build = f"{sys.implementation.cache_tag} {sysconfig.get_platform()} {' '.join(platform.libc_ver())}"
        try:
            version = str(import_module(f"{modules[0]}.version").__version__)
        except ImportError:
            version = ""
        return socket.gethostname(), sys.executable, build, version, missing, platform.python_version()

    return describe


def _workers(context: SparkContext, modules: tuple[str, ...]) -> list[Worker]:
    """The different Pythons of the executors. Raises PipelineError for another minor version of Python."""
    tasks = max(2, 2 * int(context.defaultParallelism))
    describe = _probe()
    try:
        found = context.parallelize(range(tasks), tasks).map(lambda _: describe(modules)).collect()
    except Exception as error:
        line = worker_failure(str(error))
        if line is None:
            raise
        raise PipelineError(line) from None
    return [Worker(*fields) for fields in sorted(set(found))]


def _lack(workers: Sequence[Worker], modules: Sequence[str], here: Worker) -> str:
    names = sorted((DEPENDENCIES | DECODERS)[module] for module in modules)
    places = ", ".join(f"{worker.host} ({worker.python})" for worker in workers if {*worker.missing} & {*modules})
    return (
        f"Python on executors lacks {', '.join(names)}: {places}. They cannot be sent from here ({here.build}), since "
        f"they are compiled for another Python or system: pip install {' '.join(names)} there, or set PYSPARK_PYTHON "
        "to a Python that has them"
    )


# -- The files --


def _installed(modules: dict[str, str]) -> list[str]:
    return [module for module, name in modules.items() if any(True for _ in _distribution_files(name))]


def _package_files(with_compiled: bool) -> Iterator[tuple[str, pathlib.Path]]:
    """The files of this package by their names in the archive, without metadata."""
    root = pathlib.Path(__file__).parents[2]
    endings = (*_SOURCES, *_COMPILED) if with_compiled else _SOURCES
    for path in root.rglob("*"):
        if path.name.endswith(endings) and "__pycache__" not in path.parts:
            yield f"{PACKAGE}/{path.relative_to(root).as_posix()}", path


def _distribution_files(name: str) -> Iterator[tuple[str, pathlib.Path]]:
    """The files of an installed distribution by their names in the archive; none if it is not installed."""
    try:
        files = distribution(name).files or ()
    except PackageNotFoundError:
        return
    for file in files:
        path = pathlib.Path(str(file.locate()))
        is_inside = ".." not in file.parts and not file.is_absolute()
        if is_inside and file.suffix != ".pyc" and path.is_file():
            yield file.as_posix(), path


def _remove_at_exit(directory: str) -> None:
    """Remove the directory when this process ends: executors that join later fetch the archive."""
    import atexit
    import shutil

    atexit.register(shutil.rmtree, directory, ignore_errors=True)
