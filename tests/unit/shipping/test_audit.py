""".ci/audit: only a database of vulnerabilities that cannot be reached is left out; every other failure is an error."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PROGRAM = ROOT / ".ci" / "audit"
HASH = "0" * 64


def _module() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("audit", str(PROGRAM))
    spec = importlib.util.spec_from_loader("audit", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


AUDIT = _module()


def _audit(lock: pathlib.Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs the program with a proxy that refuses connections and an empty cache."""
    proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9") | {"NO_PROXY": ""}
    environment = {**os.environ, **proxies, "no_proxy": "", "KT_AUDIT": "", "HOME": str(lock.parent), **environ}
    environment |= {"XDG_CACHE_HOME": str(lock.parent), "PIP_CACHE_DIR": str(lock.parent)}
    return subprocess.run([sys.executable, PROGRAM, lock], env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_a_database_that_cannot_be_reached_is_left_out_unless_it_is_required(tmp_path: pathlib.Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(f"colorama==0.4.6 \\\n    --hash=sha256:{HASH}\n")
    for required, status in (("", 0), ("required", 1)):
        ran = _audit(lock, KT_AUDIT=required)
        assert (ran.returncode, ran.stderr) == (status, "")
        assert "cannot be reached: requests.exceptions.ProxyError: " in ran.stdout and "; left out" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("===bad\n", "contains invalid specifier at line 1"),
        ("colorama==0.4.6\n", "does not contain a hash"),
        (None, "invalid requirements input"),
        ("", "names no package"),
    ],
    ids=("syntax", "hash", "missing", "empty"),
)
def test_a_bad_lock_file_is_an_error_with_the_reason(tmp_path: pathlib.Path, text: str | None, reason: str) -> None:
    lock = tmp_path / "lock.txt"
    if text is not None:
        lock.write_text(text)
    ran = _audit(lock)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert reason in ran.stderr


@pytest.mark.parametrize(
    ("last_line", "status"),
    [
        ("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='pypi.org', port=443)", 0),
        ("requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://pypi.org/", 0),
        ("ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed", 0),
        ("requests.exceptions.HTTPError: 400 Client Error: Bad Request for url: https://pypi.org/", 1),
        ("requests.exceptions.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", 1),
        ("KeyError: 'vulnerabilities of requests.exceptions.ConnectionError'", 1),
        ("", 1),
    ],
)
def test_a_crash_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, last_line: str, status: int
) -> None:
    monkeypatch.delenv("KT_AUDIT", raising=False)
    assert AUDIT.failed(f"Traceback (most recent call last):\n  File x\n{last_line}\n", 1) == status
    printed = capsys.readouterr()
    assert last_line in (printed.err if status else printed.out)


KNOWN: dict[str, Any] = {"name": "good", "version": "1", "vulns": []}
STRANGER = {"name": "stranger", "skip_reason": "Dependency not found on PyPI"}
HURT = {"name": "hurt", "version": "1", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2"]}]}


@pytest.mark.parametrize(
    ("packages", "status", "line"),
    [
        ([KNOWN], 0, "pip-audit: 1 of 1 packages audited, 0 vulnerabilities"),
        ([KNOWN, HURT], 1, "hurt 1: PYSEC-1, mended in ['2']"),
        ([KNOWN, STRANGER], 1, "stranger: Dependency not found on PyPI"),
        ([STRANGER], 0, "pip-audit: the database of vulnerabilities knows none of the 1 packages; left out"),
    ],
    ids=("good", "vulnerable", "stranger", "none"),
)
def test_packages_are_judged(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    packages: list[dict[str, Any]],
    status: int,
    line: str,
) -> None:
    monkeypatch.delenv("KT_AUDIT", raising=False)
    assert AUDIT.judge(packages) == status
    assert line in capsys.readouterr().out.splitlines()
