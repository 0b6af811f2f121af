"""Install each artefact of a release on its own and run the first minute of README.md with it.

Rules: an installation sees a PATH with a few programs of the system, so neither a compiler nor Java, and an empty home.
What cannot be checked on this machine is named, and is no failure. Artefacts: a wheel and kt.pyz for each Python that
kt.pyz serves, the wheel of plain Python with the newest of them, the source distribution with the oldest, the bill of
materials against the packages in kt.pyz, and the Debian package in a new Debian, which needs root and mmdebstrap.

    release_check.py DIST
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence

ROOT = pathlib.Path(__file__).parents[1]
PROGRAMS = ("sh", "seq", "tail", "cat", "echo", "env", "rm", "uname", "ls", "mkdir", "dirname", "basename")
KEPT = ("PIP_", "SSL_", "REQUESTS_", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
DEBIAN = ("bookworm", "trixie")
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def main(dist: pathlib.Path) -> int:
    """Check all artefacts; the exit status."""
    pythons = _pythons()
    failures = []
    checks = [
        *(("wheel", lambda python=python: _check_wheel(dist, python)) for python in pythons),
        ("pure wheel", lambda: _check_pip(pythons[-1], _only(dist, "*-py3-none-any.whl"), is_compiled=False)),
        ("source distribution", lambda: _check_pip(pythons[0], _only(dist, "*.tar.gz"), is_compiled=False)),
        *(("kt.pyz", lambda python=python: _check_pyz(dist / "kt.pyz", python)) for python in pythons),
        ("bill of materials", lambda: _check_bill(dist / "sbom.cdx.json", dist / "kt.pyz")),
        *(("Debian package", lambda release=release: _check_deb(dist, release)) for release in _debian_releases()),
    ]
    for name, check in checks:
        started = time.monotonic()
        try:
            outcome = check()
        except (AssertionError, OSError, subprocess.CalledProcessError) as error:
            failures.append(name)
            outcome = f"FAILED: {error} {getattr(error, 'stderr', None) or ''}"
        print(f"{name}: {outcome} ({time.monotonic() - started:.0f} s)", flush=True)
    print("Homebrew formula, container image: not checked, they are not made by make dist")
    return 1 if failures else 0


def _pythons() -> list[str]:
    """The newest Python of each minor version on this machine, the oldest version first."""
    command = ["sh", str(ROOT / ".ci" / "find-pythons"), "all"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def _only(dist: pathlib.Path, pattern: str) -> pathlib.Path:
    found = sorted(dist.glob(pattern))
    assert len(found) == 1, f"{dist} has {len(found)} files {pattern}, expected one"
    return found[0]


def _tag(python: str) -> str:
    report = "import sys; print('cp%d%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", report], capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def _clean_home(*, programs: str = "") -> Iterator[tuple[pathlib.Path, dict[str, str]]]:
    """An empty home with an environment whose PATH has neither a compiler nor Java. `programs` comes before it."""
    with tempfile.TemporaryDirectory(prefix="kt-release-") as directory:
        home = pathlib.Path(directory)
        tools = home / "tools"
        tools.mkdir()
        for program in PROGRAMS:
            found = shutil.which(program)
            assert found is not None, f"{program} is missing"
            (tools / program).symlink_to(found)
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        environment = {**kept, "HOME": directory, "LANG": "C.UTF-8", "PATH": f"{programs}{tools}"}
        for program in ("cc", "gcc", "clang", "java"):
            assert shutil.which(program, path=environment["PATH"]) is None, f"{program} is in PATH"
        yield home, environment


def _check_wheel(dist: pathlib.Path, python: str) -> str:
    tag = _tag(python)
    return _check_pip(python, _only(dist, f"*-{tag}-{tag}-*.whl"), is_compiled=True)


def _check_pip(python: str, artefact: pathlib.Path, *, is_compiled: bool) -> str:
    with _clean_home() as (home, environment):
        venv = home / "venv"
        subprocess.run([python, "-m", "venv", str(venv)], check=True)
        started = time.monotonic()
        pip = [str(venv / "bin" / "pip"), "install", "-q", "--no-cache-dir", str(artefact.resolve())]
        subprocess.run(pip, env=environment, check=True, capture_output=True, text=True)
        seconds = time.monotonic() - started
        environment["PATH"] = f"{venv / 'bin'}:{environment['PATH']}"
        run = _runner(environment, home)
        checked = run([str(venv / "bin" / "python"), str(ROOT / "packaging" / "check_wheel.py"), *_pure(is_compiled)])
        _run_readme(run)
        run([str(venv / "bin" / "python"), "-c", _readme_block("python")])
        return f"{_tag(python)}, pip install {seconds:.1f} s; {checked.stdout.strip()}; README runs"


def _pure(is_compiled: bool) -> list[str]:
    return [] if is_compiled else ["--pure"]


def _check_pyz(pyz: pathlib.Path, python: str) -> str:
    with _clean_home() as (home, environment):
        programs = home / "bin"
        programs.mkdir()
        (programs / "python3").symlink_to(python)
        shutil.copy2(pyz, programs / "kt")
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        run = _runner(environment, home)
        version = run(["kt", "version"]).stdout.strip()
        assert version.endswith("kernels: compiled)"), version
        _run_readme(run)
        started = time.monotonic()
        run(["kt", "topics", "--help"])
        return f"{_tag(python)}, {version}; README runs; topics --help {time.monotonic() - started:.2f} s"


def _check_bill(bill: pathlib.Path, pyz: pathlib.Path) -> str:
    """Compare the packages that the bill of materials names with those in kt.pyz."""
    components = json.loads(bill.read_text(encoding="utf-8"))["components"]
    named = {(_normalized(component["name"]), component["version"]) for component in components}
    with zipfile.ZipFile(pyz) as outer, zipfile.ZipFile(io.BytesIO(outer.read("site.zip"))) as site:
        files = [name for name in site.namelist() if name.endswith(".dist-info/METADATA")]
        headers = [importlib.metadata.PathDistribution(zipfile.Path(site, name).parent).metadata for name in files]
    shipped = {(_normalized(header["Name"]), header["Version"]) for header in headers}
    assert shipped, f"{pyz} has no packages"
    missing = sorted(shipped - named - {package for package in shipped if package[0] == "kafkatools"})
    assert not missing, f"the bill lacks {missing}"
    return f"names the {len(shipped)} packages of kt.pyz"


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _runner(environment: dict[str, str], directory: pathlib.Path) -> Run:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, check=True)

    return run


def _readme_block(language: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    part = text[text.index("## First minute") :]
    block = re.search(rf"^```{language}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    assert block is not None, f"README.md has no block {language} in its first minute"
    return block[1]


def _run_readme(run: Run) -> None:
    """Run the commands of the first minute and compare what they print, apart from notes of kt itself. Lines of the two
    streams may come in any order."""
    commands: list[tuple[str, list[str]]] = []
    for line in _readme_block("console").splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    try:
        for command, expected in commands:
            printed = run(["sh", "-c", f"{{ {command}; }} 2>&1"]).stdout.splitlines()
            shown = [line for line in printed if not line.startswith("kt: ")]
            assert sorted(shown) == sorted(expected), f"$ {command}: printed {shown}, README.md shows {expected}"
    finally:
        run(["kt", "sandbox", "stop"])


def _debian_releases() -> Sequence[str]:
    """The Debian releases in which the package can be tried on this machine."""
    if os.getuid() == 0 and shutil.which("mmdebstrap") and shutil.which("chroot"):
        return DEBIAN
    print("Debian package: not checked, this needs root and mmdebstrap")
    return ()


def _check_deb(dist: pathlib.Path, release: str) -> str:
    if not any(dist.glob("*.deb")):
        return "not built (make deb), not checked"
    package = _only(dist, "*.deb")
    with tempfile.TemporaryDirectory(prefix="kt-debian-") as directory:
        root = pathlib.Path(directory) / "root"
        make = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,adduser", release, str(root)]
        subprocess.run(make, check=True, capture_output=True, text=True)
        shutil.copy2(package, root / "kafkatools.deb")
        subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
        try:
            return _try_deb(root, release)
        finally:
            subprocess.run(["umount", str(root / "proc")], check=True)


def _try_deb(root: pathlib.Path, release: str) -> str:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        chroot = ["chroot", str(root), *command]
        return subprocess.run(chroot, env=environment, capture_output=True, text=True, check=True)

    before = _files(root)
    run(["dpkg", "-i", "/kafkatools.deb"])
    version = run(["kt", "version"]).stdout.strip()
    assert version.endswith("kernels: compiled)"), version
    _run_readme(run)
    run(["/usr/lib/kafkatools/bin/python3", "-c", _readme_block("python")])
    run(["install", "-d", "-o", "kafkatools", "-m", "700", "/var/lib/kafkatools"])  # as StateDirectory= does
    run(["/usr/lib/kafkatools/format"])
    assert (root / "var/lib/kafkatools/data/meta.properties").exists(), "the service formats no data directory"
    run(["dpkg", "--purge", "kafkatools"])
    left = {path for path in _files(root) - before if path.startswith(("usr/", "etc/", "var/lib/kafkatools"))}
    assert not left, f"the purged package leaves {sorted(left)[:5]}"
    return f"{release}: {version}; README runs; purged without a trace"


def _files(root: pathlib.Path) -> set[str]:
    ignored = (
        "usr/lib/python3",
        "etc/passwd-",
        "etc/group-",
        "etc/shadow-",
        "etc/gshadow-",
        "etc/.pwd.lock",
        "etc/sub",
    )
    found = {str(path.relative_to(root)) for part in ("usr", "etc", "var") for path in (root / part).rglob("*")}
    return {path for path in found if not path.startswith(ignored)}


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
