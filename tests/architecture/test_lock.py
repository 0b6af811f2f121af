"""The lock files of CI and of releases pin everything that pyproject.toml requires, with hashes."""

from __future__ import annotations

import pathlib
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[2]
PINNED = re.compile(r"^(\S+?)==(\S+)(?: ;.*)? \\$", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = {
    name.lower(): extras.split(",")
    for name, extras in re.findall(r"^(ALL|KERNEL)_EXTRAS := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
}
REQUIRED = {
    name: [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(line for extra in extras for line in PROJECT["project"]["optional-dependencies"][extra]),
    ]
    for name, extras in EXTRAS.items()
} | {"release": [*PROJECT["dependency-groups"]["release"], *PROJECT["build-system"]["requires"]]}
FILES = {name: ROOT / ".ci" / "lock" / f"{name}.txt" for name in REQUIRED}
REQUIRED |= {"package": PROJECT["project"]["dependencies"], "build": PROJECT["build-system"]["requires"]}
FILES |= {name: ROOT / "packaging" / "lock" / f"{name}.txt" for name in ("package", "build")}


def _is_pinned(requirement: Requirement, pinned: dict[str, list[str]]) -> bool:
    versions = pinned.get(canonicalize_name(requirement.name), [])
    return any(requirement.specifier.contains(version) for version in versions)


@pytest.mark.parametrize("lock", REQUIRED)
def test_a_lock_file_pins_what_is_required(lock: str) -> None:
    text = FILES[lock].read_text()
    pinned: dict[str, list[str]] = {}
    for name, version in PINNED.findall(text):
        pinned.setdefault(canonicalize_name(name), []).append(version)
    missing = [line for line in REQUIRED[lock] if not _is_pinned(Requirement(line), pinned)]
    assert missing == [], "run make lock"
    assert all("--hash=sha256:" in part for part in re.split(r"^(?=\S)", text, flags=re.MULTILINE) if part)
