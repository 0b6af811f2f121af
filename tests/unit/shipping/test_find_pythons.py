"""`.ci/find-pythons` prints the oldest and the newest Python of this machine that kafkatools runs on."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

SCRIPT = pathlib.Path(__file__).parents[3] / ".ci" / "find-pythons"
FAKE = """#!/bin/sh
exec {python} -I -S -c '
import collections, importlib.util, sys
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.version_info = Version({version})
if not {has_ensurepip}:
    importlib.util.find_spec = lambda name: None
exec(sys.argv[1])
' "$4"
"""


def test_oldest_and_newest_are_releases_that_can_make_an_environment(tmp_path: pathlib.Path) -> None:
    for name, version, has_ensurepip in (
        ("too-old", '3, 10, 99, "final", 0', True),
        ("oldest", '3, 11, 0, "final", 0', True),
        ("newest", '3, 99, 1, "final", 0', True),
        ("older", '3, 99, 0, "final", 0', True),
        ("next", '3, 100, 0, "candidate", 1', True),
        ("without-ensurepip", '3, 101, 0, "final", 0', False),
    ):
        path = tmp_path / "versions" / name / "bin" / "python3"
        path.parent.mkdir(parents=True)
        path.write_text(FAKE.format(python=sys.executable, version=version, has_ensurepip=has_ensurepip))
        path.chmod(0o755)
    environ = {**os.environ, "PYENV_ROOT": str(tmp_path)}
    found = {
        which: subprocess.run(["sh", SCRIPT, which], env=environ, capture_output=True, text=True, check=True).stdout
        for which in ("oldest", "newest", "both")
    }
    oldest, newest = (f"{tmp_path}/versions/{name}/bin/python3\n" for name in ("oldest", "newest"))
    assert found == {"oldest": oldest, "newest": newest, "both": oldest + newest}
