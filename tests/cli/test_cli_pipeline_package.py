"""kt pipeline package: a zip of the package for the nodes of a cluster."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import zipfile

import pytest
from support.kt import run_kt

from kafkatools.exit_status import ExitStatus


@pytest.mark.slow
def test_the_package_runs_from_the_unpacked_zip(tmp_path: pathlib.Path) -> None:
    ran = run_kt("pipeline", "package", "--out", "env.zip", "--json", cwd=tmp_path)
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    told = json.loads(ran.out)
    assert told["file"] == "env.zip" and told["bytes"] == (tmp_path / "env.zip").stat().st_size
    assert told["left_out"] == [] and sys.implementation.cache_tag in told["build"]
    zipfile.ZipFile(tmp_path / "env.zip").extractall(tmp_path / "env")
    program = "import kafkatools, lz4, zstandard, crc32c, snappy; print(kafkatools.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=tmp_path / "env", capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(str(tmp_path / "env")), done.stderr


@pytest.mark.slow
def test_plain_python_runs_from_the_zip_itself(tmp_path: pathlib.Path) -> None:
    ran = run_kt("pipeline", "package", "--out", "kt.zip", "--python-only", cwd=tmp_path)
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    assert ran.out.startswith("kt.zip: ") and "any platform; left out, since they are compiled: " in ran.out
    program = (
        "import sys; sys.path.insert(0, 'kt.zip'); from kafkatools.core.protocol import definitions;"
        "definitions.definition_of('FetchRequest'); print(definitions.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "kt.zip" in done.stdout, done.stderr


def test_a_directory_that_does_not_exist(tmp_path: pathlib.Path) -> None:
    ran = run_kt("pipeline", "package", "--out", "absent/kt.zip", cwd=tmp_path)
    assert ran.status is ExitStatus.FAILED
    assert ran.err == "Cannot write absent/kt.zip: No such file or directory\n"
