"""What `make` and the images build from a checkout: checksums, the version of a tag, and the number of kernels."""

from __future__ import annotations

import hashlib
import pathlib
import re
import subprocess
import sys

import pytest

from kafkatools.core.kernels import KERNELS

ROOT = pathlib.Path(__file__).parents[3]


def _run(*command: str, directory: pathlib.Path) -> str:
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("target", ["deb", "formula"])
def test_checksums_are_made_anew_for_the_files_of_package_managers(target: str) -> None:
    commands = _run("make", "-n", "-o", "build/tree/pythons", target, "DIST=dist", directory=ROOT)
    assert commands.index("sha256sum") > commands.index("packaging/")


def test_checksums_name_every_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kt.pyz").write_bytes(b"one")
    (tmp_path / "kafkatools_1.0_amd64.deb").write_bytes(b"two")
    for _ in range(2):
        _run("make", "checksums", f"DIST={tmp_path}", directory=ROOT)
    sums = dict(line.split("  ")[::-1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        "kt.pyz": hashlib.sha256(b"one").hexdigest(),
        "kafkatools_1.0_amd64.deb": hashlib.sha256(b"two").hexdigest(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["container", "kubernetes"])
def test_image_of_a_tag_has_its_version(tmp_path: pathlib.Path, name: str) -> None:
    ignored = (ROOT / ".containerignore").read_text().split()
    text = (ROOT / "packaging" / name / "Containerfile").read_text()
    git = re.search(r"^COPY \. \.\n(?:#.*\n)*RUN (if .*)$", text, re.MULTILINE)
    assert git is not None and "tests" in ignored

    (tmp_path / "pyproject.toml").write_text('[tool.setuptools_scm]\nlocal_scheme = "no-local-version"\n')
    (tmp_path / "kept.txt").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("")
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@localhost commit -qm One", "tag v1.2.3"):
        _run("git", *command.split(), directory=tmp_path)
    (tmp_path / "tests" / "test_one.py").unlink()
    _run("sh", "-c", git[1], directory=tmp_path)
    assert _run(sys.executable, "-m", "setuptools_scm", directory=tmp_path).strip() == "1.2.3"

    (tmp_path / "kept.txt").unlink()
    _run("sh", "-c", git[1], directory=tmp_path)
    assert _run(sys.executable, "-m", "setuptools_scm", directory=tmp_path).startswith("1.2.4.dev")
    (tmp_path / "archive").mkdir()  # without the directory .git, as an unpacked source archive
    _run("sh", "-ec", git[1], directory=tmp_path / "archive")


def test_figures_are_of_all_kernels() -> None:
    text = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| compiled kernels, (\w+) modules \|", text, re.MULTILINE) == [str(len(KERNELS))]
