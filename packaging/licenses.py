"""Print the licence of each package of a bill of materials: `licenses.py sbom.cdx.json`. Exit status 1 for a package
without one, or with one that ALLOWED does not name."""

from __future__ import annotations

import json
import pathlib
import re
import sys

ALLOWED = ("Apache", "BSD", "MIT", "ISC", "PSF", "Python Software Foundation", "LGPL", "MPL")
"""Words of licences under which a package may be used by, and delivered with, a program under the Apache licence."""


def main(path: pathlib.Path) -> int:
    """The exit status."""
    bill = json.loads(path.read_text(encoding="utf-8"))
    refused = 0
    for component in sorted(bill["components"], key=lambda component: component["name"].lower()):
        licences = " / ".join(sorted({_name(entry) for entry in component.get("licenses", [])}))
        is_allowed = any(re.search(rf"\b{word}", licences) for word in ALLOWED)
        refused += not is_allowed
        verdict = "" if is_allowed else "  NOT ALLOWED"
        print(f"{component['name']} {component['version']}: {licences or 'unknown'}{verdict}")
    return 1 if refused else 0


def _name(entry: dict[str, object]) -> str:
    """The licence of one entry: an expression, or a licence with an id or a name."""
    if "expression" in entry:
        return str(entry["expression"])
    licence = entry["license"]
    assert isinstance(licence, dict)
    return str(licence.get("id") or licence.get("name"))


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
