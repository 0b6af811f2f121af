"""A virtual environment with a package of examples/, which pip installs without a network."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping

from support.waiting import PATIENCE_S

ROOT = pathlib.Path(__file__).parents[2]


class PluginEnvironment:
    """A fresh environment below `directory` that sees the packages of this one, and this kafkatools."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        place = directory / "venv"
        venv.create(place, symlinks=True)
        self._python = place / "bin" / "python"
        packages = place / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        (packages / "others.pth").write_text("".join(f"{path}\n" for path in (sysconfig.get_path("purelib"), ROOT)))

    def install(self, source: pathlib.Path) -> None:
        """Installs a copy of a source tree, since a build leaves files there."""
        copy = shutil.copytree(source, self._directory / source.name)
        pip = [sys.executable, "-m", "pip", "--python", str(self._python), "install", "--quiet"]
        offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
        subprocess.run([*pip, *offline, str(copy)], check=True, timeout=PATIENCE_S)

    def kt(self, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Runs `kt` in this environment."""
        environment = {**os.environ, "KT_SANDBOX": "off", "PYTHONPATH": str(ROOT), **(environ or {})}
        program = [str(self._python), "-m", "kafkatools", *arguments]
        return subprocess.run(
            program, cwd=self._directory, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
