"""The script that starts a local session's Python workers, and the modules that they import."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from kafkatools.pipeline.run import worker_python, worker_start

_REPORT = """
import json, sys
import imported
frozen = __import__("gc").get_freeze_count()
print(json.dumps([sys.executable, imported.__file__, sys.argv[1:], __name__, frozen > 0, sys.path[0]]))
"""


@pytest.fixture
def script(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    modules = tmp_path / "the modules"
    modules.mkdir()
    (modules / "imported.py").write_text("")
    path = worker_python._script([str(modules)])
    assert path
    return path


def test_a_module_is_imported_from_a_directory_instead_of_the_zip(script: str, tmp_path: pathlib.Path) -> None:
    archive = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("imported.py", "")
        writer.writestr("report.py", "raise ImportError('from the zip')")
    place = tmp_path / "program"
    place.mkdir()
    (place / "report.py").write_text(_REPORT)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (archive, place)))}
    ran = subprocess.run([script, "-m", "report", "x y"], env=environ, cwd=place, capture_output=True, text=True)
    assert ran.stderr == ""
    expected = [sys.executable, str(tmp_path / "the modules" / "imported.py"), ["x y"], "__main__", True, str(place)]
    assert json.loads(ran.stdout) == expected


def test_other_arguments_are_those_of_python(script: str) -> None:
    ran = subprocess.run([script, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    assert ran.stdout.strip() == sys.executable


def test_archives_of_the_program_remain_on_the_path() -> None:
    path = ["", "/s/pyspark.zip", "/s/py4j-0.10.9.9-src.zip", "/s/spark-core_2.13-4.0.0.jar", "/job/own.zip", "/lib"]
    assert worker_start.worker_path(path, ["/lib", "/site"]) == ["", "/site", "/job/own.zip", "/lib"]


def test_another_installation_of_spark_runs_python_directly(tmp_path: pathlib.Path) -> None:
    assert worker_python.worker_python(str(tmp_path)) == sys.executable


@pytest.mark.parametrize(
    ("place", "is_own"),
    [
        ("pyspark", False),
        ("spark/python/pyspark", True),
        ("spark/python/lib/pyspark.zip/pyspark", True),
        ("spark", True),
        ("spark/venv/lib/python3.13/site-packages/pyspark", False),
        ("spark/python/venv/pyspark", False),
        ("spark-other/python/pyspark", False),
    ],
)
def test_the_pyspark_of_another_environment_below_spark_home_is_not_the_one_of_spark(
    place: str, is_own: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.__file__", str(tmp_path / place / "__init__.py"))
    (tmp_path / "link").symlink_to(tmp_path / "spark")
    for home in ("spark", "link"):
        assert worker_python._is_own(str(tmp_path / home)) == is_own
    assert worker_python._is_own(None)


def test_a_program_of_spark_submit_has_workers_with_the_modules_beside_the_archives(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip installs them; in another installation of Spark there are only the archives."""
    modules = {name: tmp_path / "site" / name / "__init__.py" for name in ("pyspark", "py4j")}
    for name, file in modules.items():
        archive = tmp_path / "site" / "pyspark" / "python" / "lib" / f"{name}.zip"
        monkeypatch.setattr(f"{name}.__file__", str(archive / name / "__init__.py"))
        file.parent.mkdir(parents=True, exist_ok=True)
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.touch()
    home = str(tmp_path / "site" / "pyspark")
    find = worker_python.worker_python.__wrapped__
    assert find(home) == sys.executable, "neither is in a directory"
    for file in modules.values():
        assert find(home) == sys.executable
        file.touch()
    assert str(tmp_path / "site") in pathlib.Path(find(home)).read_text()
    assert find(None) == find(str(tmp_path / "other")) == sys.executable


def test_a_directory_that_forbids_executables_runs_python_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    is_allowed = os.access
    monkeypatch.setattr(
        worker_python.os, "access", lambda path, mode: "kafkatools-python-" not in str(path) and is_allowed(path, mode)
    )
    assert worker_python._script(["/lib"]) == ""
