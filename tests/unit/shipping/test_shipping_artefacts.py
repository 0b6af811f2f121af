"""What `make`, the workflows and the images build from a checkout: checksums, the version of a tag, the number of
kernels, pinned actions, the formula and the bill of materials."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import types
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES

import pytest

from kafkatools.core.kernels import KERNELS

ROOT = pathlib.Path(__file__).parents[3]


def _run(*command: str, directory: pathlib.Path) -> str:
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


def _script(name: str) -> types.ModuleType:
    path = ROOT / "packaging" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"packaging_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").iterdir()), ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(workflow: pathlib.Path) -> None:
    actions = re.findall(r"\buses: *(.*)", workflow.read_text())
    assert actions
    assert [text for text in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", text)] == []


def test_a_package_without_wheels_is_refused(tmp_path: pathlib.Path) -> None:
    command = ("make", "pyz", f"DIST={tmp_path}", f"TREE={tmp_path}/tree")
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode != 0 and "build the wheels first: make wheels" in ran.stderr


@pytest.mark.parametrize(("engine", "is_told"), [("podman", True), ("buildah", True), ("docker", False)])
def test_images_keep_their_health_check(engine: str, *, is_told: bool) -> None:
    command = _run("make", "-n", "image", f"ENGINE=/usr/bin/{engine}", directory=ROOT)
    assert ("--format docker" in command) == is_told


@pytest.mark.parametrize(("version", "is_named"), [("1.2.0", False), ("0.1.dev7", True), ("1.2.0rc1", True)])
def test_formula_names_only_a_version_that_homebrew_does_not_read(
    tmp_path: pathlib.Path, version: str, *, is_named: bool
) -> None:
    archive = tmp_path / f"kafkatools-{version}.tar.gz"
    archive.write_bytes(b"one")
    script = str(ROOT / "packaging" / "homebrew" / "make_formula.py")
    formula = _run(sys.executable, script, str(archive), f"https://a.test/releases/{archive.name}", directory=tmp_path)
    assert (f'  version "{version}"\n' in formula) == is_named
    assert hashlib.sha256(b"one").hexdigest() in formula and "@" not in formula.replace("python@", "")


def test_bill_of_materials_is_compared_with_the_packages_of_the_pyz(tmp_path: pathlib.Path) -> None:
    bill, pyz = tmp_path / "sbom.cdx.json", tmp_path / "kt.pyz"
    with zipfile.ZipFile(tmp_path / "site.zip", "w") as site:
        for name, version in (("python_snappy", "0.7.3"), ("kafkatools", "1.0")):
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            site.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
    with zipfile.ZipFile(pyz, "w") as outer:
        outer.write(tmp_path / "site.zip", "site.zip")
    check = _script("release_check")._check_bill
    bill.write_text(json.dumps({"components": [{"name": "python-snappy", "version": "0.7.3"}]}))
    assert check(bill, pyz) == "names the 2 packages of kt.pyz"
    bill.write_text(json.dumps({"components": [{"name": "python-snappy", "version": "0.7.2"}]}))
    with pytest.raises(AssertionError, match=r"the bill lacks \[\('python-snappy', '0.7.3'\)\]"):
        check(bill, pyz)


def _pyz(directory: pathlib.Path, suffix: str) -> pathlib.Path:
    """A kt.pyz whose packages are a `kt` that prints what it runs with."""
    core = directory / "tree" / "site" / "kafkatools" / "core"
    core.mkdir(parents=True)
    (core / f"_cyutility{suffix}").touch()
    program = "import os, sys\n\ndef main():\n    print(sys.executable, os.path.exists(sys.executable))\n"
    (core.parent / "__init__.py").touch()
    (core.parent / "__main__.py").write_text(program)
    (directory / "tree" / "pythons").write_text("3.11\n3.12\n")
    _script("build_pyz").main(directory / "tree", directory / "kt.pyz")
    return directory / "kt.pyz"


def test_a_relative_cache_of_a_pyz_is_found_from_other_directories(tmp_path: pathlib.Path) -> None:
    pyz = _pyz(tmp_path, EXTENSION_SUFFIXES[0])
    for environ in ({"KT_PYZ_CACHE": "cache"}, {"XDG_CACHE_HOME": "."}):
        ran = subprocess.run([sys.executable, pyz], env=environ, cwd=tmp_path, capture_output=True, text=True)
        executable, exists = ran.stdout.split()
        assert exists == "True" and executable.startswith(f"{tmp_path}/"), ran.stderr


def test_a_pyz_refuses_a_python_whose_modules_have_other_names(tmp_path: pathlib.Path) -> None:
    pyz = _pyz(tmp_path, ".cpython-313-darwin.so")
    environ = {"KT_PYZ_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run([sys.executable, pyz], env=environ, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("kt.pyz: made for Python 3.11, 3.12 on ")
    assert ran.stderr.endswith(f", with modules named *{EXTENSION_SUFFIXES[0]}; install kafkatools with pip instead\n")
    assert not (tmp_path / "cache").exists()


def test_a_pyz_names_its_modules_in_order(tmp_path: pathlib.Path) -> None:
    """The same tree gives the same bytes."""
    core = tmp_path / "tree" / "site" / "kafkatools" / "core"
    _pyz(tmp_path, ".cpython-313.so")
    for version in (312, 314, 311):
        (core / f"_cyutility.cpython-{version}.so").touch()
    _script("build_pyz").main(tmp_path / "tree", tmp_path / "kt.pyz")
    with zipfile.ZipFile(tmp_path / "kt.pyz") as archive:
        suffixes = archive.read("build").decode().splitlines()[2].split()[1:]
    assert suffixes == [f".cpython-{version}.so" for version in (311, 312, 313, 314)]
