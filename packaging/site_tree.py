"""Install kafkatools and what it needs into one directory that serves several versions of Python.

Rules: each Python installs its own wheels, in the versions and with the hashes of the lock file. Compiled modules have
the version in their names, so the trees of all versions fit into one directory; everything else has to be the same in
all of them.

    site_tree.py DIST TARGET PYTHON...
"""

from __future__ import annotations

import filecmp
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

LOCK = pathlib.Path(__file__).parent / "lock" / "package.txt"


def main(dist: pathlib.Path, target: pathlib.Path, pythons: list[str]) -> None:
    """Fill TARGET/site with packages and TARGET/share with the manual pages; TARGET/pythons names the versions."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    versions = []
    for python in pythons:
        with tempfile.TemporaryDirectory() as directory:
            layer = pathlib.Path(directory)
            versions.append(_install(dist, layer, python))
            _merge(layer, target)
    (target / "pythons").write_text("".join(f"{version}\n" for version in versions))


def _install(dist: pathlib.Path, layer: pathlib.Path, python: str) -> str:
    """Install the wheel for one Python, and return its version such as 3.11."""
    report = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], 'cp%d%d' % sys.version_info[:2])"
    version, tag = subprocess.run([python, "-c", report], capture_output=True, text=True, check=True).stdout.split()
    wheels = sorted(dist.glob(f"kafkatools-*-{tag}-{tag}-*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{dist} has {len(wheels)} wheels for {tag}, expected one; build them with make dist")
    requirements = layer / "requirements.txt"
    digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    requirements.write_text(f"{LOCK.read_text()}{wheels[0].resolve()} --hash=sha256:{digest}\n")
    pip = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-compile",
        "--no-warn-conflicts",
        "--only-binary",
        ":all:",
        "--root-user-action=ignore",
    ]
    subprocess.run([*pip, "--require-hashes", "--target", str(layer / "site"), "-r", str(requirements)], check=True)
    requirements.unlink()
    _strip(layer)
    shutil.rmtree(layer / "site" / "bin")
    shutil.move(layer / "site" / "share", layer / "share")
    return version


def _strip(layer: pathlib.Path) -> None:
    """Remove debug information, which some wheels have: two thirds of their size."""
    strip = shutil.which("strip")
    modules = [str(path) for path in layer.rglob("*.so")]
    if strip and sys.platform == "linux":
        subprocess.run([strip, "--strip-unneeded", *modules], check=True)


def _merge(layer: pathlib.Path, target: pathlib.Path) -> None:
    for source in sorted(path for path in layer.rglob("*") if path.is_file()):
        name = source.relative_to(layer)
        copy = target / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
        elif not (filecmp.cmp(source, copy, shallow=False) or _describes_a_wheel(name)):
            raise SystemExit(f"{name} differs between the versions of Python, so they cannot share a directory")


def _describes_a_wheel(name: pathlib.Path) -> bool:
    """Whether a file is about the wheel that was installed: its tags, its files, what it was built from."""
    return any(part.endswith(".dist-info") for part in name.parts)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:])
