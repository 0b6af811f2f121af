"""What executors lack: named where it cannot be sent, and the archive for the rest."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run import executors

WORKER = executors.Worker("host-1", "/usr/bin/python3", "cpython-311 linux-x86_64 glibc 2.36", "1.0", (), "3.11.7")


def test_executors_without_what_spark_needs_are_named() -> None:
    executors.ensure_environment([WORKER])
    with pytest.raises(
        PipelineError, match=r"^The Python of the executor on host-1 \(/usr/bin/python3\) has no pyarrow"
    ):
        executors.ensure_environment([WORKER, WORKER._replace(missing=("kafkatools", "pyarrow"))])


LOST = "Task 0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.2 executor 1): "


def test_another_version_of_python_is_told() -> None:
    text = (
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
        "version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions."
    )
    line = executors.worker_failure(text)
    assert line is not None
    assert line.startswith("The Python of the executors is 3.12 and this process has Python 3.11")
    assert "PYSPARK_PYTHON" in line
    told = executors.worker_failure(LOST + text)
    assert told is not None and told.startswith("The Python of the executor on 10.0.0.2 is 3.12 and")
    assert executors.worker_failure("java.io.IOException: no space") is None


def test_an_executor_with_an_older_kafkatools_does_not_lack_it() -> None:
    line = executors.worker_failure(LOST + "ModuleNotFoundError: No module named 'kafkatools.pipeline.python_check'")
    assert line is not None and "has another version of kafkatools, without the module kafkatools.pipeline" in line
    assert executors.worker_failure("ModuleNotFoundError: No module named 'numpy.rec'") is None


@pytest.mark.parametrize(
    ("module", "remedy"),
    [
        ("kafkatools", "install it there, or start the session anew, which sends it to executors that lack it"),
        ("pyarrow", "install it there (pip install pyarrow), or set PYSPARK_PYTHON to a Python that has it"),
    ],
)
def test_a_module_that_an_executor_lacks_is_told_with_its_host(module: str, remedy: str) -> None:
    told = executors.worker_failure(f"{LOST}Traceback ...\nModuleNotFoundError: No module named '{module}'")
    assert told == f"The Python of the executor on 10.0.0.2 has no {module}: {remedy}"


def test_patch_levels_that_differ_are_told() -> None:
    assert executors.patch_levels([WORKER], WORKER) is None
    told = executors.patch_levels([WORKER, WORKER._replace(host="host-2", python_version="3.11.2")], WORKER)
    assert told is not None
    assert told.startswith(
        "Python on executors has another patch level than here (3.11.7): host-2 (/usr/bin/python3, 3.11.2)."
    )


def names_of(archive: str) -> set[str]:
    return set(zipfile.ZipFile(archive).namelist())


@pytest.mark.slow
def test_the_archive_has_package_and_dependencies(tmp_path: pathlib.Path) -> None:
    archive, left_out = executors.write_archive(str(tmp_path), ["lz4", "snappy"], with_compiled=True)
    names = names_of(archive)
    assert left_out == []
    assert {"kafkatools/__init__.py", "kafkatools/core/protocol/kafka_messages.txt", "snappy/__init__.py"} <= names
    assert any(name.startswith("lz4/") and ".so" in name for name in names)
    assert not [name for name in names if name.endswith((".pyc", ".c")) or os.path.isabs(name) or ".." in name]


@pytest.mark.slow
def test_the_archive_for_another_platform_has_no_compiled_modules(tmp_path: pathlib.Path) -> None:
    archive, left_out = executors.write_archive(str(tmp_path), ["lz4", "snappy"], with_compiled=False)
    assert left_out == ["lz4"]
    names = names_of(archive)
    assert "snappy/__init__.py" in names
    assert not [name for name in names if name.endswith((".so", ".pyd"))]


@pytest.mark.slow
def test_the_loader_imports_the_package_from_the_archive(tmp_path: pathlib.Path) -> None:
    archive, _ = executors.write_archive(str(tmp_path), sorted(executors.DEPENDENCIES), with_compiled=True)
    name = pathlib.Path(archive).stem
    zipfile.ZipFile(archive).extractall(tmp_path / name)
    (tmp_path / "kafkatools.py").write_text(executors.loader(name))
    program = (
        "import kafkatools; from kafkatools.core import config; from kafkatools.core.protocol import definitions;"
        "config.Config(config.CONSUMER, {}); definitions.definition_of('FetchRequest');"
        "import lz4; print(kafkatools.__file__); print(lz4.__file__)"
    )
    # -S: without the packages that are installed here
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(tmp_path / name)) for line in done.stdout.splitlines())


def test_the_loader_without_the_archive_imports_what_is_installed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kafkatools.py").write_text(executors.loader("kafkatools-absent"))
    done = subprocess.run(
        [sys.executable, "-c", "import kafkatools; print(kafkatools.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert pathlib.Path(done.stdout.strip()).name == "__init__.py"
