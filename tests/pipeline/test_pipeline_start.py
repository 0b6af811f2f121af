"""The start of Spark: announced before it takes its time, and a Ctrl-C during it leaves no process behind."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.recorded_logs import unpack_log
from support.spark_cluster import SparkCluster
from support.waiting import eventually

from kafkatools.commands.pipeline import SUBCOMMANDS
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.executors import use_own_python
from kafkatools.pipeline.run.masters import ensure_reachable
from kafkatools.pipeline.run.session import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="PySpark is not installed")

KT = str(pathlib.Path(sys.executable).parent / "kt")
ANNOUNCED_S = 2
WITHOUT_SESSION = ("package", "prepare")
"""Subcommands that open no session of their own; prepare announces the one that it starts in its own words."""
JAVA = """#!/bin/sh
case "$*" in
*-version*) echo 'openjdk version "17.0.15" 2025-04-15' >&2 ;;
*) exit 1 ;;
esac
"""


def _command(tmp_path: pathlib.Path) -> list[str]:
    return [KT, "pipeline", "count", f"log:{unpack_log('codec-lz4-java', tmp_path)}", "--master", "local[1]"]


def _processes_of(mark: str) -> list[str]:
    """The command lines of the processes that have the mark in their environment."""
    found = []
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"KT_TEST_MARK={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "words",
    [("count", "log:{}"), ("diff", "log:{0},{0}", "log:{0}"),
     ("run", "--from", "log:{}", "--to", "console:"), ("export", "log:{}", "--to", "json:out")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_log_that_does_not_exist_is_an_error_before_spark_starts(
    words: tuple[str, ...], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkatools.commands.pipeline.spark.open_session", _start_no_spark)
    monkeypatch.setattr("kafkatools.commands.pipeline.spark.is_running", lambda: False)
    absent = tmp_path / "absent"
    ran = run_kt("pipeline", *(word.format(absent) for word in words), cwd=tmp_path)
    assert (ran.status, ran.out, ran.err) == (1, "", f"{absent} does not exist\n")


@pytest.mark.parametrize(
    ("lines", "words", "master"),
    [
        ("", ["--master", "yarn"], "yarn"),
        ("", ["--conf", "spark.master=yarn"], "yarn"),
        ('master = "yarn"', ["--conf", "spark.master=local"], "yarn"),
        ('conf = {"spark.master" = "yarn"}', [], "yarn"),
        ('conf = {"spark.master" = "local"}', ["--conf", "spark.master=yarn"], "yarn"),
        ('conf = {"spark.master" = "yarn"}', ["--master", "local[1]"], None),
        ('conf = {"spark.master" = "local[2]"}', [], None),
    ],
)
def test_a_log_on_the_nodes_of_a_cluster_is_not_looked_for_on_this_machine(
    lines: str, words: list[str], master: str | None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkatools.commands.pipeline.spark.open_session", _start_no_cluster)
    monkeypatch.setattr("kafkatools.commands.pipeline.spark.is_running", lambda: False)
    (tmp_path / "job.toml").write_text(f'from = "log:{tmp_path}/absent"\nto = "console:"\n{lines}\n')
    ran = run_kt("pipeline", "run", "job.toml", *words, cwd=tmp_path)
    problem = f"{tmp_path}/absent does not exist" if master is None else f"Cluster of {master}"
    assert (ran.status, ran.err.splitlines()[-1]) == (1, problem)


def test_a_log_for_a_running_spark_context_is_not_looked_for_on_this_machine(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkatools.commands.pipeline.spark.open_session", _start_no_cluster)
    monkeypatch.setattr("kafkatools.commands.pipeline.spark.is_running", lambda: True)
    ran = run_kt("pipeline", "count", f"log:{tmp_path}/absent", cwd=tmp_path)
    assert (ran.status, ran.err) == (1, "Cluster of None\n")


def _start_no_cluster(_name: str, master: str | None, *_args: object, **_options: object) -> None:
    raise PipelineError(f"Cluster of {master}")


def test_an_input_without_a_statement_is_an_error_before_spark_starts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkatools.commands.pipeline.spark.open_session", _start_no_spark)
    with embedded_broker(tmp_path / "data") as bootstrap:
        ran = run_kt("pipeline", "sql", "--bootstrap-server", bootstrap, stdin=b"-- nothing\n")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("stdin contains no SQL statement\n")


def _start_no_spark(*_args: object, **_options: object) -> None:
    raise AssertionError("Spark was started")


def test_the_start_of_spark_is_announced(tmp_path: pathlib.Path, java_home: pathlib.Path) -> None:
    """With --json it is not; the announcement comes before Java, so the run without it needs none."""
    done = subprocess.run(_command(tmp_path), capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[0] == "Starting Spark (local[1]) ..."
    assert "Starting" not in done.stdout
    environ = {**os.environ, "JAVA_HOME": str(java_home)}
    words = [*_command(tmp_path / "json"), "--json"]
    quiet = subprocess.run(words, capture_output=True, text=True, env=environ, check=False)
    (line,) = quiet.stderr.splitlines()
    assert json.loads(line)["error"]["message"].startswith("Spark does not start (master local[1]")


def test_a_job_that_waits_for_executors_tells_why_and_ctrl_c_leaves_no_process(tmp_path: pathlib.Path) -> None:
    """On a cluster without a worker."""
    mark = uuid.uuid4().hex
    with SparkCluster(tmp_path, workers=0) as cluster:
        command = [*_command(tmp_path / "log")[:-1], cluster.master, "--exact", "--conf", "spark.executor.memory=3g"]
        environ = {**os.environ, "KT_TEST_MARK": mark}
        with subprocess.Popen(
            command, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as run:
            assert run.stderr is not None
            assert run.stderr.readline() == f"Starting Spark ({cluster.master}) ...\n"
            told = run.stderr.readline()
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == 130
    assert "none has registered; no worker of the cluster may have 3g of memory" in told
    eventually(lambda: not _processes_of(mark), 30)


@pytest.fixture
def java_home(tmp_path: pathlib.Path) -> pathlib.Path:
    """A Java that has a version and starts nothing."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(JAVA)
    program.chmod(0o755)
    return tmp_path / "jdk"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topics t and u."""
    with embedded_broker(tmp_path_factory.mktemp("start")) as address:
        for topic in ("t", "u"):
            assert run_kt("topics", "--bootstrap-server", address, "--create", "--topic", topic).status == 0
        yield address


def _operands(name: str, directory: pathlib.Path) -> list[str]:
    """Arguments with which a subcommand has something to do."""
    log = unpack_log("codec-lz4-java", directory)
    content = {
        "manifest": 1,
        "pipeline": {
            "sources": [{"name": "input", "uri": f"log:{log}", "options": {}}],
            "sql": None,
            "transform": None,
            "sink": {"uri": "console:", "options": {}, "partition_by": []},
        },
        "sources": [{"name": "input", "uri": f"log:{log}"}],
        "sink": {"uri": "console:", "files": None},
    }
    manifest = directory / "manifest.json"
    manifest.write_text(json.dumps(content))
    return {
        "run": ["--from", "topic:t", "--to", "console:"],
        "sql": ["SELECT * FROM t"],
        "verify": [str(manifest)],
        "export": ["topic:t", "--to", f"parquet:{directory / 'out'}"],
        "count": [f"log:{log}"],
        "top-keys": ["topic:t"],
        "diff": ["topic:t", "topic:u"],
        "check": [str(log)],
        "replay": ["topic:t", "--to", "topic:u"],
        "retention-forecast": [str(log)],
        "compact-forecast": [str(log)],
        "profile": ["topic:t", "--out", str(directory / "page.html")],
    }[name]


def _processor_seconds(pid: int) -> float:
    """The processor time of a process and of its children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("name", [command.name for command in SUBCOMMANDS if command.name not in WITHOUT_SESSION])
def test_every_subcommand_announces_the_start_of_spark_within_two_seconds(
    tmp_path: pathlib.Path, bootstrap: str, java_home: pathlib.Path, name: str
) -> None:
    """In processor time, so that a busy machine is no failure. A topic without records is counted without Spark."""
    operands = _operands(name, tmp_path)
    brokers = ["--bootstrap-server", bootstrap] if name == "sql" or "topic:t" in operands else []
    words = [KT, "pipeline", name, *brokers, *operands]
    environ = {**os.environ, "JAVA_HOME": str(java_home), "KT_HOME": str(tmp_path / "home")}
    with subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        assert run.stderr is not None
        assert run.stderr.readline() == "Starting Spark (local[*]) ...\n"
        seconds = _processor_seconds(run.pid)
        rest = run.stderr.read()
    assert seconds < ANNOUNCED_S
    assert rest.startswith("Spark does not start (master local[*]") and len(rest.splitlines()) == 1, rest
    assert run.returncode == 1


def test_a_job_that_falls_back_to_the_sandbox_names_it(
    tmp_path: pathlib.Path, java_home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home))
    environ = {"KT_HOME": str(tmp_path / "home"), "KT_SANDBOX": "on"}
    try:
        started = run_kt("sandbox", "start", "--port", "0", "--json", environ=environ)
        address = json.loads(started.out)["bootstrap"]
        ran = run_kt("pipeline", "count", "topic:absent", environ=environ)
    finally:
        run_kt("sandbox", "stop", environ=environ)
    assert ran.err.splitlines()[0] == f"kt: no --bootstrap-server, using the sandbox on {address}"


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_start_leaves_no_jvm_behind(tmp_path: pathlib.Path, signal_number: int) -> None:
    mark = uuid.uuid4().hex
    environ = {**os.environ, "KT_TEST_MARK": mark}
    with subprocess.Popen(_command(tmp_path), env=environ, stderr=subprocess.PIPE, text=True) as run:
        # the JVM is there, and has not yet reported its port: PySpark waits for that report
        eventually(lambda: any("spark-submit" in line or "SparkSubmit" in line for line in _processes_of(mark)), 60)
        run.send_signal(signal_number)
        _, said = run.communicate(timeout=120)
    assert run.returncode == 130
    assert "Traceback" not in said
    eventually(lambda: not _processes_of(mark), 30)
    assert _processes_of(mark) == []


SIGNALS_IN_CALLBACKS = """
import os, signal, sys
from kafkatools.__main__ import main

moment, number = sys.argv.pop(1), int(sys.argv.pop(1))
done = []

def interrupt():
    if not done:
        done.append(True)
        os.kill(os.getpid(), number)

class Finalized:
    def __del__(self):
        interrupt()

def on_event(event, arguments):
    if event == moment.partition(" ")[0] and moment.partition(" ")[2] in str(arguments[0]):
        Finalized()

if moment == "fork":
    os.register_at_fork(before=interrupt)
else:
    sys.addaudithook(on_event)
main()
"""
STALLING_JAVA = """#!/bin/sh
case "$*" in
*-version*) echo 'openjdk version "17.0.15" 2025-04-15' >&2 ;;
*) sleep 20; exit 1 ;;
esac
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "moment",
    ["import kafkatools.cli", "import kafkatools.pipeline", "import pyspark", "subprocess.Popen spark-submit", "fork"],
)
def test_a_signal_in_a_callback_at_the_start_ends_the_run(
    tmp_path: pathlib.Path, java_home: pathlib.Path, moment: str, number: int
) -> None:
    """Python drops exceptions of callbacks at a fork and of finalizers, so nothing would end the run. The program
    sends itself the signal there; its Java is another program, which would end the run with status 1."""
    (java_home / "bin" / "java").write_text(STALLING_JAVA)
    log = unpack_log("codec-lz4-java", tmp_path / "log")
    words = ["pipeline", "run", "--from", f"log:{log}", "--to", "console:", "--master", "local[1]"]
    mark = uuid.uuid4().hex
    environ = {**os.environ, "JAVA_HOME": str(java_home), "KT_TEST_MARK": mark}
    done = subprocess.run(
        [sys.executable, "-c", SIGNALS_IN_CALLBACKS, moment, str(int(number)), *words],
        capture_output=True, text=True, env=environ, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr in ("", "Starting Spark (local[1]) ...\n")
    eventually(lambda: not _processes_of(mark), 30)


@pytest.mark.xdist_group("spark")
def test_the_port_of_a_driver_is_not_that_of_a_master(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    driver = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
    with pytest.raises(PipelineError, match=f"{driver}: a Spark worker or driver listens there, not a master"):
        ensure_reachable(f"spark://{driver}")


SUBMITTED = """
from kafkatools.pipeline.run.session import open_session

def modules(_):
    import py4j, pyspark
    return pyspark.__file__, py4j.__file__

spark = open_session("submitted")
print(*modules(0), *spark.sparkContext.parallelize([0], 1).map(modules).collect()[0])
"""


def test_local_workers_of_spark_submit_import_pyspark_from_a_directory(tmp_path: pathlib.Path) -> None:
    """The program itself imports it from the archives of Spark, whose modules are not compiled."""
    import py4j
    import pyspark

    (tmp_path / "job.py").write_text(SUBMITTED)
    submit = pathlib.Path(pyspark.__file__).parent / "bin" / "spark-submit"
    path = os.pathsep.join(filter(None, sys.path))
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    words = [str(submit), "--master", "local[1]", str(tmp_path / "job.py")]
    done = subprocess.run(words, capture_output=True, text=True, env=environ, check=True)
    *program, spark_of_workers, py4j_of_workers = done.stdout.split()
    assert all(".zip/" in file for file in program)
    assert (spark_of_workers, py4j_of_workers) == (pyspark.__file__, py4j.__file__)


@pytest.mark.xdist_group("spark")
def test_local_workers_run_the_python_of_the_program(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    def python_and_pyspark(_: int) -> tuple[str, str | None]:
        import sys

        import pyspark

        return sys.executable, pyspark.__file__

    context = spark.sparkContext
    before = context.pythonExec
    monkeypatch.setattr(context, "pythonExec", "python3")
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    use_own_python(context)
    assert context.pythonExec == "python3", "PYSPARK_PYTHON has named another"
    monkeypatch.delenv("PYSPARK_PYTHON")
    register(spark)
    assert context.parallelize([0], 1).map(python_and_pyspark).collect() == [(sys.executable, pyspark.__file__)]
    monkeypatch.setattr(context, "pythonExec", before)


def test_java_options_of_spark_defaults_are_kept(tmp_path: pathlib.Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Dkt.defaults=kept\n")
    program = (
        "from kafkatools.pipeline.run.session import open_session\n"
        "spark = open_session('defaults', 'local[1]')\n"
        "java = spark._jvm.java.lang.System\n"
        "print(java.getProperty('kt.defaults'), java.getProperty('log4j2.configurationFile'))\n"
        "spark.stop()\n"
    )
    environ = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "KT_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    kept, logging = done.stdout.split()
    assert kept == "kept" and logging.endswith("log4j2.properties"), done.stderr
