"""The Spark session of a pipeline: start or share it, register the data sources, turn Spark's errors into one line.

Rules: importing this module imports neither PySpark nor pyarrow. A missing Java, PySpark or pyarrow is reported in one
line before anything starts. Output of Spark's JVM and its Python workers is written to a temporary file, which is read
only if the JVM fails to start; with `is_verbose` it goes to stderr. If the process already has a SparkContext, each
pipeline gets its own session in it, with its own views and settings, and the context is left running.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

from kafkatools.core.install_command import install_command
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run import class_archive
from kafkatools.pipeline.run.executors import is_local, is_local_master, worker_failure
from kafkatools.pipeline.run.masters import ensure_reachable
from kafkatools.pipeline.run.waiting import tell_of_waiting
from kafkatools.pipeline.run.worker_python import worker_python
from kafkatools.pipeline.storage import CREDENTIALS

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

JAVA_NEEDED = 17
DEFAULT_MASTER = "local[*]"
_GUESSED_CORES = 8
EXTRA = install_command("spark")

_LOGGING = os.path.join(os.path.dirname(__file__), "log4j2.properties")
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}
"""Settings of each session unless `conf` overrides them."""

_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(environ: Mapping[str, str]) -> str:
    """Return the path of a Java 17 or later executable: from JAVA_HOME if set, else from PATH, as Spark does. Runs
    `java -version`. Raises PipelineError if there is none, it is too old or prints no version."""
    home = environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java", path=environ.get("PATH"))
    advice = (
        f"Spark needs Java {JAVA_NEEDED} or later; install it (Debian: apt-get install openjdk-17-jre-headless; "
        "macOS: brew install openjdk@17) or set JAVA_HOME to its directory"
    )
    if path is None:
        raise PipelineError(f"Java is not on the PATH, and JAVA_HOME is not set: {advice}")
    if not os.access(path, os.X_OK):
        raise PipelineError(f"JAVA_HOME is {home}, but there is no bin/java in it: {advice}")
    version = _java_version(path)
    if version is None:
        raise PipelineError(f"{path} -version does not print a version: {advice}")
    if version < JAVA_NEEDED:
        raise PipelineError(f"{path} is Java {version}: {advice}")
    return path


def is_running() -> bool:
    """Return whether this process already has a SparkContext. Does not import PySpark."""
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def is_submitted() -> bool:
    """Return whether spark-submit runs this process: then there is a JVM already, with a master and settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ  # noqa: TID251 - where PySpark finds that JVM


@functools.lru_cache
def _java_version(path: str) -> int | None:
    """Return the major version of a Java executable; None if its output has none. Cached, since several callers ask."""
    reply = subprocess.run([path, "-version"], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    match = _VERSION.search((reply.stderr + reply.stdout).decode(errors="replace"))
    return None if match is None else int(match[1])


def ensure_installed() -> None:
    """Raise PipelineError unless PySpark 4.0 or later and pyarrow are installed."""
    from importlib.util import find_spec

    for module in ("pyspark", "pyarrow"):
        if find_spec(module) is None:
            raise PipelineError(f"The Python package {module} is not installed: {EXTRA}")
    version = _pyspark_version()
    if int(version.partition(".")[0]) < 4:
        raise PipelineError(f"PySpark {version} is too old; version 4.0 or later is needed: {EXTRA}")


def _pyspark_version() -> str:
    """Read PySpark's version from the package metadata, which is faster than an import. A PySpark from SPARK_HOME has
    no metadata and is imported."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pyspark")
    except PackageNotFoundError:
        from pyspark import __version__

        return __version__


def ensure_can_start(master: str | None) -> None:
    """Raise PipelineError if a Python package is missing or too old, or if this process would have to start a JVM and
    Java 17 is missing. A `master` sc://HOST (Spark Connect) and an existing SparkContext start none."""
    ensure_installed()
    if (master or "").startswith("sc://"):
        return
    if not is_running() and not is_submitted():
        find_java(os.environ)  # noqa: TID251 - as open_session does


def open_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    is_verbose: bool = False,
    tell: Callable[[str], object] | None = None,
) -> SparkSession:
    """Open a Spark session with the data sources `kafka-log` and `kt` registered (see `register`). `master` is a Spark
    master URL, or sc://HOST for Spark Connect; None: `spark.master` of `conf`, else that of spark-submit, else
    local[*].

    `conf` overrides the settings of spark-submit, which override the defaults. If the process has a SparkContext, that
    one is used: `master` and settings that cannot change at run time are ignored. Spark Connect takes only
    `spark.sql.*`. `is_verbose` shows Spark's log on stderr. `tell` is called with a line while jobs wait for executors,
    on another thread, and if executors have another patch level of Python. Raises PipelineError if the session cannot
    be opened, within seconds if the master does not answer.
    """
    ensure_installed()
    if not is_verbose:
        _quiet_python()
    settings = _DEFAULTS | _submitted_settings() | dict(conf or {})
    master = master or settings.get("spark.master") or DEFAULT_MASTER
    if master.startswith("sc://"):
        ensure_reachable(master)
        session = _connect(app_name, master, settings)
    else:
        session = _classic(app_name, master, settings, is_verbose)
        interrupt_always()
        if tell is not None and not is_local(session.sparkContext):
            tell_of_waiting(session.sparkContext, tell)
    register(session, tell)
    return session


def interrupt_always() -> None:
    """Let Ctrl-C raise KeyboardInterrupt also if PySpark cannot cancel the jobs: a call to the JVM that waits keeps the
    connection, and PySpark 4.0's handler of the signal then raises another exception."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():  # which alone may set a handler
        return
    if not callable(handler) or not str(getattr(handler, "__module__", "")).startswith("pyspark."):
        return
    cancel_jobs = handler

    def interrupt(number: int, frame: FrameType | None) -> None:
        try:
            cancel_jobs(number, frame)
        except Exception as error:  # noqa: BLE001 - whatever py4j raises about its connection
            raise KeyboardInterrupt from error

    signal.signal(signal.SIGINT, interrupt)


def register(spark: SparkSession, tell: Callable[[str], object] | None = None) -> None:
    """Register the data sources `kafka-log` and `kt` for `spark.read.format` on any Spark session. Repeated calls are
    harmless.

    Afterwards `df.write.format("kt").save()` appends without a mode, as with Spark's Kafka sink.

    Executors of a cluster get this package, and those of its dependencies that they lack, if they have the same Python
    and platform. `tell` (default: a warning in the log) is called with a line if their Python has another patch level.
    Workers of a local session run the Python of this process, unless PYSPARK_PYTHON names another. Raises PipelineError
    if an executor lacks what cannot be sent, and if Spark refuses.
    """
    from kafkatools.pipeline.run.executors import ship_package, use_own_python
    from kafkatools.pipeline.sinks.save_mode import append_by_default
    from kafkatools.pipeline.sources.live.source import KtDataSource
    from kafkatools.pipeline.sources.log.source import KafkaLogDataSource

    if not is_connected(spark):
        use_own_python(spark.sparkContext)
        ship_package(spark.sparkContext, *([] if tell is None else [tell]))
    for source in (KafkaLogDataSource, KtDataSource):
        try:
            spark.dataSource.register(source)
        except Exception as error:
            if "already exists" not in plain_error(error):
                raise PipelineError(plain_error(error)) from error
    append_by_default(spark)


def is_connected(spark: object) -> bool:
    """Return whether a session, or a query of it, is one of Spark Connect, which has no JVM in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def default_parallelism(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at once; 8 for Spark Connect, which does not report the number."""
    return _GUESSED_CORES if is_connected(spark) else int(spark.sparkContext.defaultParallelism)


def activate(spark: SparkSession) -> None:
    """Make this session the JVM's active session on this thread, where Spark looks up data sources by name."""
    jvm: JVMView = spark._jvm
    type(spark)._get_j_spark_session_class(jvm).setActiveSession(spark._jsparkSession)


# -- Starting --


def _submitted_settings() -> dict[str, str]:
    """Return the settings of spark-submit, with its files; empty in a process of its own or with a SparkContext."""
    if not is_submitted() or is_running():
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


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
    if not is_submitted():
        ensure_reachable(master, settings)
    java = "spark-submit" if is_submitted() else find_java(os.environ)  # noqa: TID251 - where Spark's scripts look
    os.environ.setdefault("PYSPARK_PYTHON", settings.get("spark.pyspark.python", sys.executable))  # noqa: TID251
    spark_conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(app_name)
    for name, value in settings.items():
        spark_conf.set(name, value)
    given = settings.get("spark.driver.extraJavaOptions", "")
    default = settings.get("spark.driver.defaultJavaOptions", "")
    java_options = [] if is_verbose or "log4j" in given else [f"-Dlog4j2.configurationFile={_LOGGING}"]
    if not is_submitted():
        java_options += class_archive.java_options(os.environ, java, f"{default} {given}")  # noqa: TID251 - as find_java
    with tempfile.TemporaryFile() as output:
        try:
            with _no_orphan(), _java_options(java_options):
                _launch(spark_conf, None if is_verbose else output)
                return SparkSession.builder.config(conf=spark_conf).getOrCreate()
        except Exception as error:
            reason = _last_words(output) or plain_error(error)
            raise PipelineError(f"Spark does not start (master {master}, {java}): {reason}") from error


def _launch(conf: SparkConf, output: IO[bytes] | None) -> None:
    """Start Spark's JVM unless it runs. Its output goes to the file `output`, or to stderr if None; never to stdout."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        streams: dict[str, int | IO[bytes]] = {"stdout": 2} if output is None else {"stdout": output, "stderr": output}
        with own_python(conf.get("spark.master", "")):
            gateway = launch_gateway(_without_secrets(conf), streams)  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


@contextmanager
def _java_options(options: Sequence[str]) -> Iterator[None]:
    """Give these options to a JVM that is launched within the block, before those of SPARK_SUBMIT_OPTS and of the
    session, which thus take precedence. As a setting of the session they would replace that of spark-defaults.conf."""
    environ = os.environ  # noqa: TID251 - the JVM inherits it
    name = "SPARK_SUBMIT_OPTS"
    before = environ.get(name)
    environ[name] = f"{shlex.join(options)} {before or ''}".strip()
    try:
        yield
    finally:
        if before is None:
            del environ[name]
        else:
            environ[name] = before


@contextmanager
def own_python(master: str) -> Iterator[None]:
    """Let the JVM of a local session, launched within the block, look for data sources with the Python of the
    workers."""
    environ = os.environ  # noqa: TID251 - the JVM inherits it
    before = environ.get("PYSPARK_PYTHON")
    if before == sys.executable and is_local_master(master):
        environ["PYSPARK_PYTHON"] = worker_python(environ.get("SPARK_HOME"))
    try:
        yield
    finally:
        if before is not None:
            environ["PYSPARK_PYTHON"] = before


def _without_secrets(conf: SparkConf) -> SparkConf:
    """Copy the settings without those that may be secret, for the JVM's command line, which other users see in `ps`.
    The secret ones are sent later, through the gateway."""
    from pyspark import SparkConf

    from kafkatools.core.secrets import is_secret_name

    public_conf = SparkConf(loadDefaults=False)
    for name, value in conf.getAll():
        if not is_secret_name(name):
            public_conf.set(name, value)
    return public_conf


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with its process group and reap it. A process that has just been forked may not have its own group
    yet."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.wait()


@contextmanager
def _no_orphan() -> Iterator[None]:
    """Kill the JVM that was started within the block if the block raises an exception, Ctrl-C included.

    When PySpark is interrupted while it waits for the JVM to report its port, PySpark deletes the directory of that
    report. The JVM then fails to write there, its server thread keeps it alive, and no code knows its process id.
    """
    from pyspark import SparkContext, java_gateway

    module: Any = java_gateway
    processes: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen[bytes]):
        """The process of spark-submit, in a process group of its own, which its JVM shares."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            processes.append(self)  # first: the signal may arrive while super() waits for the process to start
            super().__init__(*arguments, process_group=0, **options)

    original = module.Popen
    module.Popen = Popen
    try:
        yield
    except BaseException:
        for process in processes:
            if getattr(process, "pid", None) is not None:  # otherwise there was no process yet
                kill_group(process)
        if processes:
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        raise
    finally:
        module.Popen = original


def _quiet_python() -> None:
    """Silence PySpark's logging of errors that it also raises, and its warning about a pandas version that is not used
    here."""
    import logging
    import warnings

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)


def _last_words(output: IO[bytes]) -> str:
    """Return the innermost cause in the output of a JVM that failed to start, else its first error line; empty if there
    is none."""
    output.seek(0)
    lines = output.read().decode(errors="replace").splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if causes:
        return _JAVA_CLASS.sub("", causes[-1]).strip() or causes[-1]
    errors = (line for line in lines if re.match(r"(Error|Exception|Invalid|Unrecognized|.*Exception:)", line))
    return next(errors, "").strip()


def _connect(app_name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.builder.remote(master).appName(app_name).getOrCreate()
        for name, value in settings.items():
            if name.startswith("spark.sql.") and session.conf.isModifiable(name):
                session.conf.set(name, value)
    except ImportError as error:
        package = f"Spark Connect needs the Python package {error.name}: pip install 'pyspark[connect]'"
        raise PipelineError(package) from None
    except Exception as error:
        raise PipelineError(f"Cannot connect to {master}: {plain_error(error)}") from error
    return session


# -- Errors in words --

_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STREAM = re.compile(r"^(?:\[STREAM_FAILED\]\s*)?Query \[id = \S+, runId = \S+\] terminated with exception:\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+")
_POSITION = re.compile(r"[;(]\s*line (\d+),? pos(ition)? (\d+)\)?;?")
"""A place in the SQL: Spark counts its "pos" from 0, its "position" from 1."""
_IN_VIEW = re.compile(r"^== SQL of VIEW (\S+)", re.MULTILINE)
_WORKER_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:Error|Exception)): ?(?P<text>.*)$", re.MULTILINE)
_JAVA_ERROR = re.compile(r"^(?:: |Caused by: )?(?:[a-z]\w*\.)+(?P<type>\w+(?:Error|Exception)): ?(?P<text>.*)$", re.M)
_SDK_CLASS = re.compile(r"\bsoftware\.amazon\.(?:\w+\.)+(?:[A-Z]\w*): (?:null )?")
_S3_REFUSAL = re.compile(r"\(Service: S3, Status Code: 40[013]\b|\bNo AWS Credentials\b|\bNoAuthWithAWSException\b")
_PIPELINE_ERROR = re.compile(r"PipelineError: (?P<text>.*)")


def plain_error(exception: BaseException) -> str:
    """Return a Spark exception as one line without stack trace and error class; a position in the SQL is put at the
    end. For a PipelineError, raised here or in a worker, return its own message. Errors of object stores get advice."""
    return _with_advice(_line_of(exception))


def _with_advice(line: str) -> str:
    """Add to an error of Hadoop's S3A what to do: about credentials, or the package that is not loaded."""
    line = _SDK_CLASS.sub("", line)
    if _S3_REFUSAL.search(line) and CREDENTIALS not in line:
        return f"{line.rstrip('.')}; {CREDENTIALS}"
    if "S3AFileSystem not found" in line:
        package = "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION"
        return f"{line}; add --conf {package}, the version of Spark's Hadoop"
    if 'No FileSystem for scheme "s3"' in line:
        return f"{line}; Spark's name for it is s3a://BUCKET/PATH"
    return line


def _line_of(exception: BaseException) -> str:
    if isinstance(exception, PipelineError):
        return str(exception)
    text = _message(exception)
    if (failure := worker_failure(text)) is not None:
        return failure
    pipeline_errors = _PIPELINE_ERROR.findall(text)
    if pipeline_errors:
        return _one_line(_SQLSTATE.sub("", pipeline_errors[-1]))
    if "Traceback (most recent call last)" in text:
        worker_errors = [
            match for match in _WORKER_ERROR.finditer(text) if not match["type"].startswith(("org.", "java."))
        ]
        if worker_errors:
            return _one_line(f"{worker_errors[-1]['type'].rpartition('.')[2]}: {worker_errors[-1]['text']}")
    if text.startswith("An error occurred while calling") or "\n\tat " in text:
        messages = [message or exception_type for exception_type, message in _JAVA_ERROR.findall(text)]
        conditions = [message for message in messages if _CONDITION.match(message)]
        if messages:
            return _clean((conditions or messages)[-1])
    return _clean(text) or type(exception).__name__


def is_ours(exception: BaseException) -> bool:
    """Return whether the exception is a PipelineError of this package, raised in this process or in a worker."""
    return isinstance(exception, PipelineError) or _PIPELINE_ERROR.search(_message(exception)) is not None


def was_interrupted(exception: BaseException) -> bool:
    """Return whether the exception, or one in its chain of causes and contexts, is a KeyboardInterrupt. When py4j is
    interrupted in a call, it may raise an error of its own about closing the connection."""
    cause: BaseException | None = exception
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:  # a chain of explicit causes may be a cycle
        if isinstance(cause, KeyboardInterrupt):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def _message(exception: BaseException) -> str:
    """Return the exception's full message: Spark keeps it in `_desc` and `_cause`, apart from str(). The cause is added
    on a new line unless the message already has a Python traceback."""
    description = getattr(exception, "_desc", None)
    text = description if isinstance(description, str) and description else str(exception)
    cause = getattr(exception, "_cause", None)
    return text if not isinstance(cause, BaseException) or "Traceback" in text else f"{text}\n{_message(cause)}"


def _clean(text: str) -> str:
    """Return the first paragraph of an error text as one line, without Spark's error class, SQLSTATE and stack trace. A
    line and position in the SQL are moved to the end, with the position counted from 1."""
    text = text.strip()
    place = _POSITION.search(text)
    head = re.split(r"\n\s*\n|\n=+ |;\n|\n\s*['+:]|\n\tat |\nJVM stacktrace", text, maxsplit=1)[0]
    head = _POSITION.sub("", _SQLSTATE.sub("", _CONDITION.sub("", _STREAM.sub("", head))))
    head = re.sub(r"\s*\(line \d+, pos \d+\)", "", head)
    line = _one_line(head).rstrip(";").rstrip()
    if (view := _IN_VIEW.search(text)) is not None:  # the place is one in the view's text
        return f"{line} (in the view {view[1].strip('`')})"
    return f"{line} (line {place[1]}, position {int(place[3]) + (place[2] is None)})" if place else line


def _one_line(text: str) -> str:
    return " ".join(text.split())
