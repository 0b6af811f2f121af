"""kt pipeline prepare: the archive of Spark's classes, and sessions that use it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys

import pytest
from support import spark_classes
from support.apache_kafka import Unavailable, java_executable
from support.kt import run_kt
from support.requirements import require
from support.waiting import eventually

from kafkatools.exit_status import ExitStatus
from kafkatools.pipeline.errors import PipelineError
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
    archive = spark_classes.shared_archive(java)
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
    announced, error = ran.err.splitlines()
    assert announced.startswith("Starting Spark, to archive the classes of a session")
    assert error.startswith("Spark's session failed: Error occurred during CDS dumping: ")
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
    class_archive.seal(str(archive))
    used = class_archive.java_options(environ, java, "-Xmx1g")
    assert used[-1] == f"-XX:SharedArchiveFile={archive}" and shlex.split(shlex.join(used)) == used
    for given in ("-XX:SharedArchiveFile=/other", "-XX:ArchiveClassesAtExit=/other", "-Xshare:off"):
        assert class_archive.java_options(environ, java, given) == []
        for name in ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"):
            assert class_archive.java_options({**environ, name: given}, java, "") == []


def test_a_damaged_archive_is_not_used(home: pathlib.Path) -> None:
    """A JVM that reads a truncated archive ends with SIGBUS."""
    environ, java = environ_of(home), java_executable()
    archive = pathlib.Path(class_archive.archive_path(environ, java))
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"classes" * 1000)
    archive.chmod(0o444)
    class_archive.seal(str(archive))
    sound = archive.read_bytes()
    assert class_archive.java_options(environ, java, "") and archive.stat().st_mode & 0o777 == 0o444
    archive.chmod(0o644)
    flipped = bytearray(sound)
    flipped[len(sound) // 2] ^= 1
    for damaged in (sound[:-1], sound[: len(sound) // 2], bytes(flipped), sound + b"\0", b"classes", b""):
        archive.write_bytes(damaged)
        assert class_archive.java_options(environ, java, "") == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_ctrl_c_leaves_no_java_and_no_file(recorded: pathlib.Path, tmp_path: pathlib.Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    home = tmp_path / "home"
    words = [sys.executable, "-m", "kafkatools", "pipeline", "prepare"]
    process = subprocess.Popen(words, env=environ_of(home, TMPDIR=str(scratch)), start_new_session=True)
    try:
        eventually(lambda: any(scratch.glob("*/out")), 300)  # its queries run
        assert any(command.endswith("java") for command in commands_of(home))
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == ExitStatus.INTERRUPTED
    finally:
        process.kill()
    assert commands_of(home) == []
    assert list((home / "spark-classes").iterdir()) == list(scratch.iterdir()) == []


def commands_of(home: pathlib.Path) -> list[str]:
    """The programs that run with the path of an archive of this home among their arguments."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            program, *rest = path.read_text(errors="replace").split("\0")
            if any(f"ArchiveClassesAtExit={home}" in word for word in rest):
                found.append(program)
    return found


def test_a_session_that_does_not_end(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_LONGEST_S", 0)
    with pytest.raises(PipelineError, match="^Spark's session did not end within 0 s$"):
        class_archive.record(str(tmp_path / "classes"), environ_of(tmp_path), ())
    assert list(tmp_path.iterdir()) == []


def test_two_at_a_time(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[str] = []

    def record(archive: str, environ: object, options: object) -> None:
        for words in ((), ("--remove",)):
            ran = run_kt("pipeline", "prepare", *words, "--json", environ=environ_of(home))
            assert ran.status is ExitStatus.FAILED
            others.append(json.loads(ran.err)["error"]["message"])
        pathlib.Path(archive).touch()

    monkeypatch.setattr(class_archive, "record", record)
    assert run_kt("pipeline", "prepare", environ=environ_of(home)).status is ExitStatus.OK
    assert others == [f"Another kt pipeline prepare runs, which writes to {home / 'spark-classes'}; wait for it"] * 2


@pytest.mark.parametrize("words", [(), ("--remove",)])
def test_what_a_killed_run_left_is_removed(home: pathlib.Path, words: tuple[str, ...]) -> None:
    left = home / "spark-classes" / ".new-killed"
    left.mkdir(parents=True)
    (left / "classes").write_text("")
    assert run_kt("pipeline", "prepare", *words, environ=environ_of(home)).status is ExitStatus.OK
    assert not left.exists()


def test_a_class_path_that_java_cannot_archive(home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    settings = tmp_path / "conf"
    settings.mkdir()
    assert run_kt("pipeline", "prepare", environ=environ_of(home, SPARK_CONF_DIR=str(settings))).status is ExitStatus.OK
    (settings / "spark-defaults.conf").write_text("")
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        ran = run_kt("pipeline", "prepare", environ=environ_of(home, **{name: str(settings)}))
        assert ran.status is ExitStatus.USAGE and f"a directory with files, {settings} ({name})" in ran.err
    ran = run_kt("pipeline", "prepare", environ=environ_of(tmp_path / "a:b"))
    assert ran.status is ExitStatus.USAGE and "set KT_HOME to a path without a colon" in ran.err


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
