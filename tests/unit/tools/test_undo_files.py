"""Files of changes: written whole or not at all, never over another file, read line by line."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from kafkatools.exit_status import CommandError
from kafkatools.tools.undo_files import read_changes, write_undo_file, write_unnamed_undo_file


def test_a_file_that_comes_up_meanwhile_is_left_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "u.jsonl"

    def lines() -> Iterator[str]:
        path.write_text("another's")
        yield "mine\n"

    with pytest.raises(CommandError, match=r"cannot be written, so nothing was changed: File exists$"):
        write_undo_file(str(path), lines())
    assert path.read_text() == "another's"
    assert os.listdir(tmp_path) == ["u.jsonl"]


def test_a_default_name_that_another_process_takes_meanwhile_gets_a_number(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = pathlib.Path("g-19700101T000000Z.undo.csv")

    class Lines(list[str]):
        def __iter__(self) -> Iterator[str]:
            taken.write_text("another's")
            return super().__iter__()

    path = write_unnamed_undo_file("g", 0, ".csv", Lines(["mine\n"]))
    assert path == "g-19700101T000000Z-2.undo.csv"
    assert (taken.read_text(), pathlib.Path(path).read_text()) == ("another's", "mine\n")
    assert len(os.listdir()) == 2


def test_nothing_is_left_of_a_file_that_could_not_be_finished(tmp_path: pathlib.Path) -> None:
    def lines() -> Iterator[str]:
        yield "one\n"
        raise OSError(28, "No space left on device")

    with pytest.raises(CommandError, match="No space left on device"):
        write_undo_file(str(tmp_path / "u.jsonl"), lines())
    assert os.listdir(tmp_path) == []


def test_lines_end_with_a_newline_only(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "u.jsonl"
    write_undo_file(str(path), ['"a\u2028b"\n', "\n", '"c"\n'])
    assert read_changes(str(path), str) == ["a\u2028b", "c"]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b'"a"\n\n{"b":}\n', "line 3, column 6: Expecting value"),
        (b"{\n", "line 1, column 2: Expecting property name enclosed in double quotes"),
        (b'"a"\n"b"', "line 2: it is b"),
        (b'"a"\n\xff\n', " is not UTF-8 text"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: pathlib.Path, data: bytes, complaint: str) -> None:
    path = tmp_path / "u.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + data)

    def read(given: Any) -> None:
        if given == "b":
            raise ValueError("it is b")

    with pytest.raises(CommandError) as caught:
        read_changes(str(path), read)
    assert str(caught.value).endswith(complaint)
