"""kt pipeline prepare: the archive of Spark's classes, and sessions that use it."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest
from support import spark_classes
from support.apache_kafka import Unavailable, java_executable
from support.kt import run_kt
from support.requirements import require

from kafkatools.exit_status import ExitStatus
from kafkatools.pipeline.run import class_archive

pytestmark = pytest.mark.slow
MAPPED = """
import sys
from kafkatools.pipeline.run.session import open_session
spark = open_session("mapped", "local[1]", {"spark.driver.extraJavaOptions": sys.argv[1]})
java = spark._jvm.java.lang.ProcessHandle.current().pid()
print(*{line.split()[-1] for line in open(f"/proc/{java}/maps") if line.endswith(".jsa\\n")}, sep="\\n")
spark.stop()
"""


@pytest.fixture(scope="module")
def recorded() -> pathlib.Path:
    """The archive that the tests share; class_archive.record has made it."""
    pytest.importorskip("pyspark")
    try:
        java = java_executable()
    except Unavailable as missing:
        require(str(missing))
    spark_classes.quick_options()
    archive = pathlib.Path(class_archive.archive_path(spark_classes.HOME, java))
    assert archive.stat().st_size > 10 << 20
    return archive


@pytest.fixture
def home(recorded: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A home of kt, where `kt pipeline prepare` gets that archive instead of recording another one for half a
    minute."""

    def record(archive: str, environ: object, options: object) -> None:
        pathlib.Path(archive).symlink_to(recorded)

    monkeypatch.setattr(class_archive, "record", record)
    return tmp_path / "a home"


def environ_of(home: pathlib.Path, **more: str) -> dict[str, str]:
    return {**os.environ, "KT_HOME": str(home), "SPARK_SUBMIT_OPTS": spark_classes.QUICK, **more}


def mapped(environ: dict[str, str], java_options: str) -> set[str]:
    """The archives that the JVM of a session maps."""
    words = [sys.executable, "-c", MAPPED, java_options]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_sessions_use_the_archive_until_it_is_removed(home: pathlib.Path, recorded: pathlib.Path) -> None:
    ran = run_kt("pipeline", "prepare", "--json", environ=environ_of(home))
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    told = json.loads(ran.out)
    archive = pathlib.Path(told["file"])
    assert archive.parent == home / "spark-classes" and told["bytes"] == recorded.stat().st_size
    assert str(recorded) in mapped(environ_of(home), "")
    assert str(recorded) not in mapped(environ_of(home), "-Xshare:auto")
    again = run_kt("pipeline", "prepare", environ=environ_of(home))
    assert again.status is ExitStatus.OK and again.out.startswith(f"{archive}: ")
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]
    gone = run_kt("pipeline", "prepare", "--remove", environ=environ_of(home))
    assert (gone.status, gone.out) == (ExitStatus.OK, f"{archive}: removed\n")
    assert json.loads(run_kt("pipeline", "prepare", "--remove", "--json", environ=environ_of(home)).out) == {
        "removed": []
    }
    assert class_archive.java_options(environ_of(home), java_executable(), "") == []


def test_an_archive_that_does_not_fit_is_ignored(home: pathlib.Path) -> None:
    archive = pathlib.Path(class_archive.archive_path(environ_of(home), java_executable()))
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"no archive")
    assert str(archive) not in mapped(environ_of(home), "")


def test_a_session_that_fails_leaves_nothing(tmp_path: pathlib.Path) -> None:
    environ = environ_of(tmp_path, SPARK_SUBMIT_OPTS="-agentlib:absent")
    ran = run_kt("pipeline", "prepare", environ=environ)
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert "Spark's session failed: Error occurred during CDS dumping: " in ran.err
    assert list((tmp_path / "spark-classes").iterdir()) == []


def test_a_home_that_is_a_file(home: pathlib.Path) -> None:
    home.write_text("")
    ran = run_kt("pipeline", "prepare", environ=environ_of(home))
    assert ran.status is ExitStatus.FAILED
    assert ran.err.splitlines()[-1] == f"Cannot write {home / 'spark-classes'}: Not a directory"


def test_options_of_the_session_take_precedence(home: pathlib.Path) -> None:
    environ, java = environ_of(home), java_executable()
    archive = pathlib.Path(class_archive.archive_path(environ, java))
    archive.parent.mkdir(parents=True)
    archive.touch()
    used = class_archive.java_options(environ, java, "-Xmx1g")
    assert used[-1] == f"-XX:SharedArchiveFile={archive}" and shlex.split(shlex.join(used)) == used
    for given in ("-XX:SharedArchiveFile=/other", "-XX:ArchiveClassesAtExit=/other", "-Xshare:off"):
        assert class_archive.java_options(environ, java, given) == []
        assert class_archive.java_options({**environ, "SPARK_SUBMIT_OPTS": given}, java, "") == []


def test_another_java_or_spark_has_an_archive_of_its_own(tmp_path: pathlib.Path) -> None:
    java = tmp_path / "java"
    java.write_text("")
    environ = environ_of(tmp_path)
    first = class_archive.archive_path(environ, str(java))
    assert first == class_archive.archive_path(environ, str(java))
    os.utime(java, (1, 1))
    updated = class_archive.archive_path(environ, str(java))
    other = class_archive.archive_path({**environ, "SPARK_HOME": str(tmp_path / "spark")}, str(java))
    assert len({first, updated, other}) == 3
