"""packaging/licenses.py: which licences a package that kafkatools uses may have."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
from types import ModuleType

import pytest
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[3]


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licenses", ROOT / "packaging" / "licenses.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LICENSES = _module()


@pytest.mark.parametrize(
    ("licences", "verdict"),
    [
        (["MIT"], "ALLOWED"),
        (["mit"], "ALLOWED"),
        (["Apache-2.0 OR GPL-3.0-only"], "ALLOWED"),
        (["Apache-2.0 AND (GPL-2.0-only OR ISC)"], "ALLOWED"),
        (["Apache-2.0 WITH LLVM-exception"], "ALLOWED"),
        (["MIT/Apache 2.0"], "ALLOWED"),
        (["Dual License", "License :: OSI Approved :: BSD License"], "ALLOWED"),
        (["Apache License\nVersion 2.0, January 2004"], "ALLOWED"),
        (["GPL-3.0-only AND MIT"], "REFUSED"),
        (["MIT", "GPL-3.0-only"], "REFUSED"),
        (["MIT / GPL-3.0-only"], "REFUSED"),
        (["MIT, GPL-3.0-only"], "REFUSED"),
        (["(MIT OR ISC) AND GPL-3.0-only"], "REFUSED"),
        (["MIT AND (GPL-2.0-only OR AGPL-3.0-only)"], "REFUSED"),
        (["GPL-2.0-only WITH Classpath-exception-2.0"], "REFUSED"),
        (["GPL-2.0-only WITH Classpath-exception-2.0 AND MIT"], "REFUSED"),
        (["MIT", "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"], "UNKNOWN"),
        (["License :: Other/Proprietary License", "MIT"], "UNKNOWN"),
        (["Not the MIT License"], "UNKNOWN"),
        (["MIT AND (ISC"], "UNKNOWN"),
        (["License :: OSI Approved"], "UNKNOWN"),
        (["Dual License"], "UNKNOWN"),
        ([], "UNKNOWN"),
    ],
    ids=str,
)
def test_every_part_of_a_licence_counts(licences: list[str], verdict: str) -> None:
    assert LICENSES.verdict([LICENSES._short(licence) for licence in licences]).name == verdict


def test_a_bill_with_a_licence_that_is_not_allowed_or_unknown_fails(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    licences: dict[str, list[dict[str, object]]] = {
        "good": [{"license": {"id": "MIT"}}, {"license": {"name": "License :: OSI Approved :: BSD License"}}],
        "joined": [{"expression": "GPL-3.0-only AND MIT"}],
        "silent": [],
        "text": [{"license": {"name": "declared license of 'text'", "text": {"content": "Do what you like."}}}],
        "two": [{"license": {"id": "MIT"}}, {"license": {"id": "GPL-3.0-only"}}],
    }
    bill = tmp_path / "sbom.cdx.json"
    for names in (["good"], list(licences)):
        components = [{"name": name, "version": "1", "licenses": licences[name]} for name in names]
        bill.write_text(json.dumps({"components": components}))
        assert LICENSES.main([str(bill)]) == (0 if names == ["good"] else 1)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "good 1: License :: OSI Approved :: BSD License / MIT",
        "joined 1: GPL-3.0-only AND MIT  NOT ALLOWED",
        "silent 1: no licence declared  UNKNOWN",
        "text 1: Do what you like.  UNKNOWN",
        "two 1: GPL-3.0-only / MIT  NOT ALLOWED",
    ]


def test_the_installed_packages_of_all_extras_have_an_allowed_licence() -> None:
    lock = (ROOT / ".ci" / "lock" / "all.txt").read_text()
    pinned = {canonicalize_name(name) for name in re.findall(r"^(\S+?)==", lock, re.MULTILINE)}
    packages = [package for package in LICENSES.installed_packages() if canonicalize_name(package.name) in pinned]
    assert len(packages) > 20
    verdicts = {package.name: (LICENSES.verdict(package.licences), package.licences) for package in packages}
    assert {name: found for name, found in verdicts.items() if found[0] is not LICENSES.Verdict.ALLOWED} == {}
