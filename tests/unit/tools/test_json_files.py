"""JSON files of the command line that cannot be parsed: the tool's message, and where and why as hint."""

from __future__ import annotations

import pathlib

import pytest

from kafkatools.exit_status import CommandError
from kafkatools.tools.json_files import read_json


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[" * 100_000, ": it is nested too deeply"),
        ("[" + "9" * 5_000 + "]", ": a number has more than 4300 digits"),
        ("[1,\n2,}", ", line 2, column 3: "),
    ],
    ids=["nested", "digits", "brace"],
)
def test_a_file_that_cannot_be_parsed_is_no_json(tmp_path: pathlib.Path, text: str, hint: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(CommandError, match="^not JSON$") as raised:
        read_json(str(path), "not JSON")
    assert raised.value.hint.startswith(f"{path}{hint}")
