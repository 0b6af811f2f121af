"""Print the part of CHANGELOG.md about one version: `release_notes.py 1.2.0`. Exit status 1 without such a part.

GitHub refuses a release whose text has more than 125,000 characters; a longer part ends before, after a whole entry.
"""

from __future__ import annotations

import pathlib
import re
import sys

MAX_CHARACTERS = 125_000
REST = "\n\nThe other changes are in CHANGELOG.md."


def main(version: str) -> int:
    """The exit status."""
    text = (pathlib.Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    part = re.search(rf"^## \[?{re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if part is None:
        print(f"CHANGELOG.md has no part about {version}", file=sys.stderr)
        return 1
    text = part[1].strip()
    if len(text) > MAX_CHARACTERS:
        text = text[: text.rindex("\n- ", 0, MAX_CHARACTERS - len(REST))].rstrip() + REST
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
