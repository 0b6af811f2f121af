"""docs/safety.md says of every command that changes something what its options are, as the commands' tables do."""

from __future__ import annotations

import pathlib
import re

import pytest

from kafkatools.commands import COMMANDS, load

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "safety.md"
ROWS = re.findall(r"^\| `([a-z- A-Z]+)` \| (yes)? ?\| ([^|]*?) ?\| ", PAGE.read_text(encoding="utf-8"), re.M)


def _options(words: str) -> set[str]:
    """The long options of the command or subcommand of a row."""
    name, _, action = words.partition(" ")
    command = load(name)
    part = None if action.startswith("--") or not action else command.subcommand(action)
    assert part is not None or not action or action in {option.name for option in command.options}, words
    return {option.name for option in (part or command).options}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_options_are_what_the_page_says(row: tuple[str, str, str]) -> None:
    words, dry_run, undo_file = row
    options = _options(words)
    assert ("--dry-run" in options) == bool(dry_run)
    if undo_file:
        assert "--undo-file" in options
    notes_unasked = "--no-undo-file" in options and words.endswith((" run", "--reset-offsets"))
    assert notes_unasked == undo_file.startswith("always")


def test_every_command_that_destroys_is_on_the_page() -> None:
    missing = []
    rows = {words for words, _, _ in ROWS}
    for name in COMMANDS:
        for action in load(name).destructive:
            option = "reset-offsets" if action == "execute" and name.endswith("groups") else action
            wanted = {name, f"{name} --{option}", f"{name} {option}"} if action else {name}
            if not rows & wanted:
                missing.append((name, action))
    assert missing == []
