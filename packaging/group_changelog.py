"""Move the entries of CHANGELOG.md under *Unreleased* to the group that their beginning names.

"Fixed: ..." and "**Changed:** ..." go to *Fixed* and *Changed* without that word, "Broker, fixed: ..." as
"Broker: ...", and an entry before the first group goes to *Added*. Entries keep their order, and of equal ones the
first stays; without such entries the file stays as it is.
"""

from __future__ import annotations

import pathlib
import re

PATH = pathlib.Path(__file__).parents[1] / "CHANGELOG.md"
GROUPS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
WORD = re.compile(rf"^- (?:\*\*)?({'|'.join(GROUPS)}):(?:\*\*)? *(.)", re.DOTALL)
SUBJECT = re.compile(rf"^(- [^\n:]*?), ({'|'.join(group.lower() for group in GROUPS)})(?=: )")


def grouped(part: str) -> str:
    """The entries of one version, below their groups."""
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    here = "Added"
    for piece in re.split(r"\n(?=- |### )", "\n" + part.strip()):
        heading = re.match(r"### (\w+)\n*", piece)
        if heading is not None:
            here = heading[1]
            continue
        named, subject = WORD.match(piece), SUBJECT.match(piece)
        if named is not None:
            groups[named[1]].append(f"- {named[2].upper()}{piece[named.end() :]}".rstrip())
        elif subject is not None:
            groups[subject[2].capitalize()].append(f"{subject[1]}{piece[subject.end() :]}".rstrip())
        elif piece.strip():
            groups[here].append(piece.rstrip())
    return "\n\n".join(
        f"### {group}\n\n" + "\n".join(dict.fromkeys(entries)) for group, entries in groups.items() if entries
    )


def main() -> None:
    """Rewrite the file."""
    text = PATH.read_text(encoding="utf-8")
    head, rest = text.split("## Unreleased\n", 1)
    part, *later = re.split(r"^(?=## )", rest, flags=re.MULTILINE)
    released = "".join(later)
    PATH.write_text(
        f"{head}## Unreleased\n\n{grouped(part)}\n" + (f"\n{released}" if released else ""), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
