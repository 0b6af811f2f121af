"""The Spark session of a pipeline: found, set up, and its errors put into words.

Rules: importing this imports neither PySpark nor pyarrow. What is missing (Java, PySpark, pyarrow) is said in one line
before anything is started. Spark's JVM says nothing on this process's streams: what it prints, and what its Python
workers print, goes to a file that nobody sees, read only when it does not start; `is_verbose` leaves it on stderr.
A session that this process has already is shared: every pipeline gets one of its own within it (own views, own
settings), and the context stays.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from kafkatools.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

JAVA_NEEDED = 17
DEFAULT_MASTER = "local[*]"
_GUESSED_CORES = 8
EXTRA = "pip install 'kafkatools[spark]'"

_LOGGING = os.path.join(os.path.dirname(__file__), "log4j2.properties")
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}
"""What a session has unless `conf` says otherwise."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(environ: Mapping[str, str]) -> str:
    """The path of Java 17 or later, where Spark looks for it: JAVA_HOME, then PATH. PipelineError in one line."""
    home = environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java", path=environ.get("PATH"))
    advice = f"Spark needs Java {JAVA_NEEDED} or later; install it (Debian: apt-get install openjdk-17-jre-headless; "
    advice += "macOS: brew install openjdk@17) or set JAVA_HOME to its directory"
    if path is None:
        raise PipelineError(f"Java is not on the PATH, and JAVA_HOME is not set: {advice}")
    if not os.access(path, os.X_OK):
        raise PipelineError(f"JAVA_HOME is {home}, but there is no bin/java in it: {advice}")
    version = _java_version(path)
    if version is None:
        raise PipelineError(f"{path} -version does not say a version: {advice}")
    if version < JAVA_NEEDED:
        raise PipelineError(f"{path} is Java {version}: {advice}")
    return path


def is_running() -> bool:
    """Whether this process already has a Spark context. Does not import PySpark."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


@functools.lru_cache
def _java_version(path: str) -> int | None:
    """The major version of a Java executable. Cached: it is checked before a command's work and when Spark starts."""
    reply = subprocess.run([path, "-version"], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    found = _VERSION.search((reply.stderr + reply.stdout).decode(errors="replace"))
    return None if found is None else int(found[1])


def ensure_installed() -> None:
    """PipelineError unless PySpark 4.0 or later and pyarrow can be imported."""
    from importlib.util import find_spec

    for module in ("pyspark", "pyarrow"):
        if find_spec(module) is None:
            raise PipelineError(f"The Python package {module} is not installed: {EXTRA}")
    version = _pyspark_version()
    if int(version.partition(".")[0]) < 4:
        raise PipelineError(f"PySpark {version} is too old, 4.0 or later is needed: {EXTRA}")


def _pyspark_version() -> str:
    """The version from the package metadata, faster than an import; a PySpark of SPARK_HOME has no metadata."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pyspark")
    except PackageNotFoundError:
        from pyspark import __version__

        return __version__


def ensure_can_start(master: str | None) -> None:
    """Raise PipelineError when a package is missing, or Java when this process has to start a JVM.

    No JVM is started for Spark Connect, or when this process already has a SparkContext.
    """
    ensure_installed()
    if (master or "").startswith("sc://"):
        return
    if not is_running():
        find_java(os.environ)  # noqa: TID251 - as open_session does


def open_session(
    app_name: str, master: str | None = None, conf: Mapping[str, str] | None = None, *, is_verbose: bool = False
) -> SparkSession:
    """A session with the sources `kafka-log` and `kt`; `master` as Spark knows it (sc://HOST is Spark Connect).

    `conf` are Spark's settings, over the defaults here. PipelineError in one line when it cannot be had.
    """
    ensure_installed()
    if not is_verbose:
        _quiet_python()
    settings = _DEFAULTS | dict(conf or {})
    master = master or settings.get("spark.master") or DEFAULT_MASTER
    if master.startswith("sc://"):
        session = _connect(app_name, master, settings)
    else:
        session = _classic(app_name, master, settings, is_verbose)
    register(session)
    if not master.startswith("local"):
        ship_package(session)
    return session


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("kafka-log")` and `.format("kt")` known to a session of anybody's; once is enough."""
    from kafkatools.pipeline.sources.live.source import KtDataSource
    from kafkatools.pipeline.sources.log.source import KafkaLogDataSource

    for source in (KafkaLogDataSource, KtDataSource):
        try:
            spark.dataSource.register(source)
        except Exception as error:
            if "already exists" not in plain_error(error):
                raise PipelineError(plain_error(error)) from error


def is_connected(spark: SparkSession) -> bool:
    """Does the session speak to a server (Spark Connect), with no JVM of its own?"""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks run at once; a guess over Spark Connect, which does not tell."""
    return _GUESSED_CORES if is_connected(spark) else int(spark.sparkContext.defaultParallelism)


def activate(spark: SparkSession) -> None:
    """Makes a session of several the one in which Spark looks for sources by name, on this thread."""
    jvm: JVMView = spark._jvm
    type(spark)._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)


# -- Starting --


def _classic(app_name: str, master: str, settings: Mapping[str, str], is_verbose: bool) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    if is_running():
        shared = SparkSession.builder.getOrCreate().newSession()
        activate(shared)
        for name, value in settings.items():
            if shared.conf.isModifiable(name):
                shared.conf.set(name, value)
        return shared
    java = find_java(os.environ)  # noqa: TID251 - Spark's scripts read the environment of this process, nothing else
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))  # noqa: TID251
    spark_conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(app_name)
    for name, value in settings.items():
        spark_conf.set(name, value)
    if not is_verbose:
        options = settings.get("spark.driver.extraJavaOptions", "")
        if "log4j" not in options:
            spark_conf.set("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING} {options}".strip())
    with tempfile.TemporaryFile() as said:
        try:
            with _no_orphan():
                _launch(spark_conf, None if is_verbose else said)
                return SparkSession.builder.config(conf=spark_conf).getOrCreate()
        except Exception as error:
            reason = _last_words(said) or plain_error(error)
            raise PipelineError(f"Spark does not start (master {master}, {java}): {reason}") from error


def _launch(conf: SparkConf, said: IO[bytes] | None) -> None:
    """Start Spark's JVM. Its output goes to a file, or to stderr, never to stdout."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        streams: dict[str, int | IO[bytes]] = {"stdout": 2} if said is None else {"stdout": said, "stderr": said}
        gateway = launch_gateway(_without_secrets(conf), streams)  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _without_secrets(conf: SparkConf) -> SparkConf:
    """The settings for the JVM's command line, which other users see in `ps`. Settings that may be secret are sent
    later, through the gateway."""
    from pyspark import SparkConf

    from kafkatools.core.secrets import is_secret_name

    shown = SparkConf(loadDefaults=False)
    for name, value in conf.getAll():
        if not is_secret_name(name):
            shown.set(name, value)
    return shown


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with its group, and reap it. A process that has only begun has no group of its own yet."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.wait()


@contextmanager
def _no_orphan() -> Iterator[None]:
    """Kill the JVM that was started within the block when the block ends with an exception, Ctrl-C included.

    PySpark removes the directory that the JVM reports its port to when it is interrupted while it waits for that
    report. The JVM then fails to write there, its server thread keeps it alive, and no code knows its process id.
    """
    from pyspark import SparkContext, java_gateway

    module: Any = java_gateway
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen[bytes]):
        """The process of spark-submit, in a process group of its own, which its JVM shares."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            started.append(self)  # first: the signal may come while super() waits for the process to begin
            super().__init__(*arguments, process_group=0, **options)

    original = module.Popen
    module.Popen = Popen
    try:
        yield
    except BaseException:
        for process in started:
            if getattr(process, "pid", None) is not None:  # otherwise the exception came before the process
                _kill_group(process)
        if started:
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        raise
    finally:
        module.Popen = original


def _quiet_python() -> None:
    """PySpark logs an error that it raises with all of its trace, and warns of a pandas that is not used here."""
    import logging
    import warnings

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)


def _last_words(said: IO[bytes]) -> str:
    """What the JVM complained of when it ended at once."""
    said.seek(0)
    lines = said.read().decode(errors="replace").splitlines()
    complaints = [line for line in lines if re.match(r"(Error|Exception|Invalid|Unrecognized|.*Exception:)", line)]
    return complaints[0].strip() if complaints else ""


def _connect(app_name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.builder.remote(master).appName(app_name).getOrCreate()
        for name, value in settings.items():
            if name.startswith("spark.sql.") and session.conf.isModifiable(name):
                session.conf.set(name, value)
    except ImportError as error:
        raise PipelineError(
            f"Spark Connect needs more packages ({error.name}): pip install 'pyspark[connect]'"
        ) from None
    except Exception as error:
        raise PipelineError(f"{master} does not answer: {plain_error(error)}") from error
    return session


# -- The package on the executors --


_shipped: list[tempfile.TemporaryDirectory[str]] = []  # executors that come later fetch it, too: kept until the end


def ship_package(spark: SparkSession) -> None:
    """Sends this package to executors whose Python has none: as a zip, without its compiled kernels.

    An installed one is left alone: its kernels are compiled. The packages that kafkatools needs have to be there in any
    case (docs/pipeline.md says how).
    """
    if is_connected(spark):
        return
    from importlib.util import find_spec

    context = spark.sparkContext
    tries = max(2, context.defaultParallelism)
    if not all(context.parallelize(["kafkatools"] * tries, tries).map(find_spec).map(bool).collect()):
        directory = tempfile.TemporaryDirectory(prefix="kafkatools-")
        _shipped.append(directory)
        context.addPyFile(zip_package(directory.name))


def zip_package(directory: str) -> str:
    """The package's Python files and tables of text as kafkatools.zip in the directory; its path."""
    import zipfile

    root = str(pathlib.Path(__file__).parents[2])
    path = os.path.join(directory, "kafkatools.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder, _, names in os.walk(root):
            for name in names:
                if name.endswith((".py", ".txt", ".properties")):
                    file = os.path.join(folder, name)
                    archive.write(file, os.path.join("kafkatools", os.path.relpath(file, root)))
    return path


# -- Errors in words --

_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STREAM = re.compile(r"^(?:\[STREAM_FAILED\]\s*)?Query \[id = \S+, runId = \S+\] terminated with exception:\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_POSITION = re.compile(r"[;(]\s*line (\d+),? pos(?:ition)? (\d+)\)?;?")
_WORKER_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception)): ?(?P<text>.*)$", re.MULTILINE)
_JAVA_ERROR = re.compile(r"^(?:: |Caused by: )?(?:[a-z]\w*\.)+(?P<type>\w+(?:Error|Exception)): ?(?P<text>.*)$", re.M)
_OURS = re.compile(r"PipelineError: (?P<text>.*)")


def plain_error(exception: BaseException) -> str:
    """An exception of Spark's in one line for people: no trace, no error class, the place in the SQL behind it.

    What this package said in a worker (`PipelineError`) stands for itself.
    """
    if isinstance(exception, PipelineError):
        return str(exception)
    text = _message(exception)
    ours = _OURS.findall(text)
    if ours:
        return _one_line(_SQLSTATE.sub("", ours[-1]))
    if "Traceback (most recent call last)" in text:
        raised = [found for found in _WORKER_ERROR.finditer(text) if not found["type"].startswith(("org.", "java."))]
        if raised:
            return _one_line(f"{raised[-1]['type'].rpartition('.')[2]}: {raised[-1]['text']}")
    if text.startswith("An error occurred while calling") or "\n\tat " in text:
        java = [found[1] or found[0] for found in _JAVA_ERROR.findall(text)]
        worded = [one for one in java if _CONDITION.match(one)]
        if java:
            return _cleaned((worded or java)[-1])
    return _cleaned(text) or type(exception).__name__


def is_ours(exception: BaseException) -> bool:
    """Did this package say it, here or in a worker?"""
    return isinstance(exception, PipelineError) or _OURS.search(_message(exception)) is not None


def was_interrupted(exception: BaseException) -> bool:
    """Is it what became of a Ctrl-C? py4j, interrupted in a call, may fail at closing its connection, and says that."""
    found: BaseException | None = exception
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__cause__ or found.__context__
    return found is not None


def _message(exception: BaseException) -> str:
    """All that an exception says; Spark's own keep their message beside what str() makes of it."""
    described = getattr(exception, "_desc", None)
    text = described if isinstance(described, str) and described else str(exception)
    cause = getattr(exception, "_cause", None)
    return text if not isinstance(cause, BaseException) or "Traceback" in text else f"{text}\n{_message(cause)}"


def _cleaned(text: str) -> str:
    """The first paragraph without Spark's decoration."""
    text = text.strip()
    place = _POSITION.search(text) or re.search(r"\(line (\d+), pos (\d+)\)", text)
    head = re.split(r"\n\s*\n|\n=+ |;\n|\n\s*['+:]|\n\tat |\nJVM stacktrace", text, maxsplit=1)[0]
    head = _POSITION.sub("", _SQLSTATE.sub("", _CONDITION.sub("", _STREAM.sub("", head))))
    head = re.sub(r"\s*\(line \d+, pos \d+\)", "", head)
    line = _one_line(head).rstrip(";").rstrip()
    return f"{line} (line {place[1]}, position {int(place[2]) + 1})" if place else line


def _one_line(text: str) -> str:
    return " ".join(text.split())
