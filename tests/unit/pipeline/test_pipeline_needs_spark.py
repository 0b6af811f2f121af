"""Without Spark every subcommand of kt pipeline ends at once and says what to install."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from support.kt import run_kt

from kafkatools.commands.pipeline import SUBCOMMANDS
from kafkatools.core.install_command import install_command
from kafkatools.exit_status import ExitStatus

ROOT = pathlib.Path(__file__).parents[3]
EXTRA = ("pyspark", "py4j", "pyarrow", "pandas")
HINT = f"The Python package pyspark is not installed: {install_command('spark')}"
WORDS = {
    "run": ["--from", "topic:t", "--to", "parquet:out"],
    "sql": ["SELECT * FROM t"],
    "verify": ["manifest.json"],
    "prepare": [],
    "export": ["topic:t", "--to", "out"],
    "count": ["topic:t"],
    "top-keys": ["topic:t"],
    "diff": ["topic:t", "topic:u"],
    "check": ["logs"],
    "replay": ["topic:t", "--to", "topic:u"],
    "retention-forecast": ["logs"],
    "compact-forecast": ["logs"],
    "profile": ["topic:t", "--out", "page.html"],
}


@pytest.fixture(scope="module")
def without_spark(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A directory with all packages of this Python but those of the extra."""
    packages = tmp_path_factory.mktemp("packages")
    for place in filter(os.path.isdir, sys.path):
        if not place.endswith("site-packages"):
            continue
        for entry in pathlib.Path(place).iterdir():
            if not entry.name.startswith(EXTRA) and not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
    return packages


def kt(packages: pathlib.Path, directory: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`kt` in a process of its own that has only these packages."""
    program = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(packages)!r}]; from kafkatools.__main__ import main; main()"
    )
    environ = {"PATH": os.environ["PATH"], "KT_HOME": str(directory / "home")}
    return subprocess.run(
        [sys.executable, "-S", "-c", program, *words],
        cwd=directory, env=environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", [command.name for command in SUBCOMMANDS if command.name != "package"])
def test_without_the_extra_nothing_is_done(without_spark: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    ran = kt(without_spark, tmp_path, "pipeline", name, *WORDS[name])
    assert (ran.returncode, ran.stdout, ran.stderr.splitlines()[0]) == (2, "", HINT)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_a_run_is_refused_likewise(without_spark: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "daily.toml").write_text('from = "topic:t"\nto = "parquet:out"\n')
    ran = kt(without_spark, tmp_path, "pipeline", "run", "daily.toml")
    assert (ran.returncode, ran.stderr.splitlines()[0]) == (2, HINT)
    assert [path.name for path in tmp_path.iterdir()] == ["daily.toml"]


@pytest.mark.parametrize("name", [command.name for command in SUBCOMMANDS if command.name != "package"])
def test_without_java_nothing_is_done(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    environ = {"KT_SANDBOX": "on", "KT_HOME": str(tmp_path / "home")}
    ran = run_kt("pipeline", name, *WORDS[name], environ=environ, cwd=tmp_path)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert ran.err.startswith("Java is not on the PATH, and JAVA_HOME is not set: Spark needs Java 17 or later;")
    assert list(tmp_path.iterdir()) == []


def test_spark_connect_needs_no_java(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for words in (["--master", "sc://127.0.0.1:1"], ["--conf", "spark.master=sc://127.0.0.1:1"]):
        ran = run_kt("pipeline", "check", "absent", *words, cwd=tmp_path)
        assert "Java" not in ran.err and "absent" in ran.err
