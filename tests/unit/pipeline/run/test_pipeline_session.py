"""What is missing for Spark is said in one line; what Spark says becomes one."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import signal
from types import FrameType

import pytest
from support.kt import run_kt

from kafkatools.commands.pipeline.spark import failures
from kafkatools.core.install_command import install_command
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run import session
from kafkatools.pipeline.run.batch import plain_errors


def java(directory: pathlib.Path, says: str) -> pathlib.Path:
    """A home with a java that says a version."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return directory


@pytest.mark.parametrize(
    "says", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19 LTS', 'openjdk version "25-ea"']
)
def test_java_is_found_by_its_home_and_on_the_path(tmp_path: pathlib.Path, says: str) -> None:
    home = java(tmp_path / "jdk", says)
    assert session.find_java({"JAVA_HOME": str(home), "PATH": "/nowhere"}) == str(home / "bin" / "java")
    assert session.find_java({"PATH": str(home / "bin")}) == str(home / "bin" / "java")


def test_java_that_is_missing_or_too_old_is_one_line(tmp_path: pathlib.Path) -> None:
    old = java(tmp_path / "old", 'openjdk version "1.8.0_402"')
    eleven = java(tmp_path / "eleven", 'openjdk version "11.0.22" 2024-01-16')
    (tmp_path / "empty").mkdir()
    for environ, message in (
        ({"PATH": str(tmp_path)}, "Java is not on the PATH, and JAVA_HOME is not set: Spark needs Java 17 or later;"),
        ({"JAVA_HOME": str(old)}, f"{old}/bin/java is Java 8: Spark needs Java 17 or later;"),
        ({"PATH": f"{eleven}/bin"}, f"{eleven}/bin/java is Java 11: Spark needs Java 17 or later;"),
        ({"JAVA_HOME": str(tmp_path / "empty")}, f"JAVA_HOME is {tmp_path}/empty, but there is no bin/java in it:"),
    ):
        with pytest.raises(PipelineError) as refused:
            session.find_java(environ)
        assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


def test_the_innermost_cause_of_a_failed_start_is_told() -> None:
    output = io.BytesIO(
        b"Exception in thread main\norg.apache.spark.SparkException: Exception thrown in awaitResult:\n\tat org.X\n"
        b"Caused by: java.io.IOException: Failed to connect\nCaused by: java.net.ConnectException: Connection refused\n"
    )
    assert session._last_words(output) == "Connection refused"
    assert session._last_words(io.BytesIO(b"some line\nError: no main class\n")) == "Error: no main class"


def test_without_pyspark_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else real(name))
    pytest.importorskip("pyspark")
    ran = run_kt("pipeline", "run", "--from", "json:rows", "--to", "console:")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines()[0] == f"The Python package pyarrow is not installed: {install_command('spark')}"


WORKER = """An error occurred while calling o123.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
{raised}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:2)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amout` cannot be resolved. Did you mean one of "
            "the following? [`amount`]. SQLSTATE: 42703; line 2 pos 7;\n'Project ['amout]\n+- SubqueryAlias input\n",
            "A column with name `amout` cannot be resolved. Did you mean one of the following? [`amount`]. "
            "(line 2, position 8)",
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL ==\nS",
            "Syntax error at or near 'SELEC'. (line 1, position 1)",
        ),
        (WORKER.format(raised="KeyError: 'x'"), "KeyError: 'x'"),
        (
            WORKER.format(raised="kafkatools.pipeline.errors.PipelineError: a.log at byte 7: bad (3 bytes lost)"),
            "a.log at byte 7: bad (3 bytes lost)",
        ),
        (
            "An error occurred while calling o1.load.\n: org.apache.spark.SparkClassNotFoundException: "
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. SQLSTATE: 42K02\n\tat a.b.C.d(C.java:1)\n"
            "Caused by: java.lang.ClassNotFoundException: delta.DefaultSource\n\t... 17 more\n",
            "Failed to find the data source: delta.",
        ),
        (
            "[STREAM_FAILED] Query [id = 60bae8c2-33ef, runId = 72b9276a-9758] terminated with exception: [NO_ROOM] "
            "There is no room. SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 60bae8c2-33ef]\nCurrent "
            "Committed Offsets: {}",
            "There is no room.",
        ),
        ("", "RuntimeError"),
    ],
)
def test_what_spark_says_in_one_line(text: str, line: str) -> None:
    assert session.plain_error(RuntimeError(text)) == line


def test_an_interrupted_call_that_fails_otherwise_is_an_interrupt() -> None:
    for guard in (plain_errors, failures):
        with pytest.raises(KeyboardInterrupt), guard():
            try:
                raise KeyboardInterrupt
            finally:
                raise RuntimeError("Gateway must be connected to send cancel cmd.")
    with pytest.raises(PipelineError, match="out of space"), plain_errors():
        raise RuntimeError("out of space")


def test_settings_that_may_be_secret_are_not_on_the_command_line_of_the_jvm() -> None:
    pyspark = pytest.importorskip("pyspark")
    conf = pyspark.SparkConf(loadDefaults=False).setMaster("local[1]")
    conf.set("spark.hadoop.fs.s3a.secret.key", "canary").set("spark.executor.memory", "1g")
    shown = dict(session._without_secrets(conf).getAll())
    assert shown == {"spark.master": "local[1]", "spark.executor.memory": "1g"}
    assert conf.get("spark.hadoop.fs.s3a.secret.key") == "canary"


def test_a_signal_in_the_middle_of_the_start_of_the_jvm_leaves_no_process(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_gateway = pytest.importorskip("pyspark.java_gateway", reason="PySpark is not installed")
    for name in ("_gateway", "_jvm", "_active_spark_context"):  # those of a session of other tests in this process
        monkeypatch.setattr(f"pyspark.SparkContext.{name}", None)
    started = tmp_path / "pid"
    parent = os.getpid()

    def interrupt_the_parent() -> None:
        """Run in the child in place of the program: the parent waits within Popen for the program to begin."""
        started.write_text(str(os.getpid()))
        while os.getppid() == parent:
            os.kill(parent, signal.SIGUSR1)
            os.sched_yield()

    def raise_interrupt(_: int, frame: FrameType | None) -> None:
        """Only there: Python swallows what is raised in its own callbacks at a fork."""
        if frame is None or frame.f_code.co_name != "_execute_child" or frame.f_locals["self"].pid is None:
            return
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, raise_interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), session._no_orphan():
            java_gateway.Popen(["sleep", "600"], preexec_fn=interrupt_the_parent)
        with pytest.raises(ProcessLookupError):
            os.kill(int(started.read_text()), 0)
    finally:
        end(int(started.read_text()))
        signal.signal(signal.SIGUSR1, before)


def end(child: int) -> None:
    """Kill and reap a child unless that is done already."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_ctrl_c_raises_keyboard_interrupt_also_if_pyspark_cannot_cancel_jobs() -> None:
    def of_pyspark(number: int, frame: FrameType | None) -> None:
        raise RuntimeError("reentrant call inside <_io.BufferedReader>")

    before = signal.getsignal(signal.SIGINT)
    try:
        session.interrupt_always()
        assert signal.getsignal(signal.SIGINT) is before, "only PySpark's handler is wrapped"
        of_pyspark.__module__ = "pyspark.core.context"
        signal.signal(signal.SIGINT, of_pyspark)
        session.interrupt_always()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
