"""Print the licence of each package of a bill of materials: `licenses.py sbom.cdx.json`. Without a file, print that of
each package of this Python environment. Exit status 1 if a licence is not in ALLOWED, or is unknown.

Rules: each licence that a package declares must be allowed, and each part of an AND; of an OR one is enough. An
exception (WITH) grants further rights, so the licence before it decides. Classifiers and texts are looked up in SPDX.
One that is neither there nor an SPDX expression is unknown, which is an error too.
"""

from __future__ import annotations

import enum
import importlib.metadata
import json
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from license_expression import AND, OR, ExpressionError, LicenseWithExceptionSymbol, Licensing

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

ALLOWED = frozenset(
    ("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0")
    + ("LGPL-2.0-or-later", "LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later")
    + ("Python-2.0", "Unlicense", "Zlib")
)
"""SPDX identifiers of licences under which a package may be used by, and delivered with, a program under the Apache
licence."""

SPDX = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license version 2.0, january 2004": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "bsd license": "BSD-3-Clause",
    "dfsg approved": "",
    "dual license": "",
    "gnu lesser general public license v2 or later (lgplv2+)": "LGPL-2.0-or-later",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "osi approved": "",
    "psfl": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
}
"""Classifiers and texts in lower case -> SPDX identifier; empty for one that names no licence. "BSD" has two or three
clauses, both of which are allowed."""

REVIEWED = {"pip_api": "Apache-2.0", "polars": "MIT"}
"""Packages whose metadata hold the text of a licence instead of its name -> that licence."""

_CLASSIFIER = "License ::"


class Verdict(enum.IntEnum):
    """May the package be used? From worst to best: of an AND the worst part counts, of an OR the best."""

    REFUSED = 0
    UNKNOWN = 1
    ALLOWED = 2


_ENDINGS = {Verdict.REFUSED: "  NOT ALLOWED", Verdict.UNKNOWN: "  UNKNOWN", Verdict.ALLOWED: ""}


class Package(NamedTuple):
    """A package and the licences that it declares: expressions, classifiers and texts."""

    name: str
    version: str
    licences: Sequence[str]


def main(arguments: Sequence[str]) -> int:
    """Print a line for each package and return the exit status."""
    packages = bill_packages(pathlib.Path(arguments[0])) if arguments else installed_packages()
    refused = 0
    for package in sorted(packages, key=lambda package: package.name.lower()):
        result = verdict(package.licences)
        refused += result is not Verdict.ALLOWED
        text = " / ".join(package.licences) or "no licence declared"
        print(f"{package.name} {package.version}: {text}{_ENDINGS[result]}")
    return 1 if refused else 0


def bill_packages(path: pathlib.Path) -> Iterator[Package]:
    """Yield the packages of a CycloneDX bill of materials."""
    for component in json.loads(path.read_text(encoding="utf-8"))["components"]:
        licences = sorted({_named(entry) for entry in component.get("licenses", ())} - {""})
        yield _package(component["name"], component["version"], licences)


def installed_packages() -> Iterator[Package]:
    """Yield the packages of this Python environment."""
    for distribution in importlib.metadata.distributions():
        metadata = distribution.metadata
        classifiers = [line for line in metadata.get_all("Classifier") or () if line.startswith(_CLASSIFIER)]
        expression = metadata.get("License-Expression")  # replaces the older fields (PEP 639)
        licences = [expression] if expression else [_short(metadata.get("License") or ""), *classifiers]
        yield _package(distribution.name, distribution.version, [text for text in licences if text])


def _package(name: str, version: str, licences: Sequence[str]) -> Package:
    return Package(name, version, [REVIEWED[name]] if name in REVIEWED else licences)


def _named(entry: dict[str, Any]) -> str:
    """Return the licence of one entry of a bill: an expression, or a licence with an id, a text or a name."""
    if "expression" in entry:
        return str(entry["expression"])
    licence = entry["license"]
    return _short(str(licence.get("id") or licence.get("text", {}).get("content") or licence.get("name") or ""))


def _short(text: str) -> str:
    """Return the first paragraph of the text of a licence on one line: its title. A shorter text stays as it is."""
    return " ".join(re.split(r"\n\s*\n", text.strip())[0].split())


def verdict(licences: Sequence[str]) -> Verdict:
    """Judge what one package declares: the worst verdict of its licences, UNKNOWN without any."""
    verdicts = [_verdict_of_text(_without_prefix(text)) for text in licences if _without_prefix(text)]
    return min(verdicts, default=Verdict.UNKNOWN)


def _without_prefix(text: str) -> str:
    """Return the name in a classifier, another text unchanged; empty for one that names no licence."""
    name = text.rpartition(" :: ")[2] if text.startswith(_CLASSIFIER) else text
    return SPDX.get(name.lower(), name)


def _verdict_of_text(text: str) -> Verdict:
    """Judge an expression or a text. A separator other than AND and OR does not say that there is a choice, so all
    parts must be allowed."""
    parts = [part.strip() for part in re.split(r"[/,;&|]", text)]
    if len(parts) > 1:
        return min(_verdict_of_text(_without_prefix(part)) for part in parts if part)
    try:
        expression = Licensing().parse(text)
    except ExpressionError:
        return Verdict.UNKNOWN
    return Verdict.UNKNOWN if expression is None else _verdict_of(expression)


def _verdict_of(expression: Any) -> Verdict:
    if isinstance(expression, OR):
        return max(map(_verdict_of, expression.args))
    if isinstance(expression, AND):
        return min(map(_verdict_of, expression.args))
    if isinstance(expression, LicenseWithExceptionSymbol):
        expression = expression.license_symbol
    try:
        identifier = canonicalize_license_expression(SPDX.get(expression.key.lower(), expression.key))
    except InvalidLicenseExpression:
        return Verdict.UNKNOWN
    return Verdict.ALLOWED if identifier in ALLOWED else Verdict.REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
