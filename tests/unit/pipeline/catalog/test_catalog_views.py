"""The file of views: what CREATE VIEW and DROP VIEW change in it, and files that were written by hand."""

from __future__ import annotations

import os
import pathlib

import pytest

from kafkatools.pipeline.catalog.views import ViewFile
from kafkatools.pipeline.errors import PipelineError


def names(file: ViewFile) -> list[str]:
    return list(file.views())


def test_views_are_kept_and_replaced_and_dropped(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "home" / "views.sql"
    file = ViewFile(str(path))
    assert names(file) == [] and not path.exists()
    file.put("a", "CREATE VIEW a AS SELECT 1 -- one")
    file.put("b", "CREATE VIEW b AS SELECT ';'")
    file.put("A", "CREATE OR REPLACE VIEW A AS SELECT 2")
    assert names(ViewFile(str(path))) == ["A", "b"]
    found = ViewFile(str(path)).find("a")
    assert found is not None and found.command.definition == " AS SELECT 2"
    file.remove("a")
    assert names(ViewFile(str(path))) == ["b"] and file.find("a") is None
    assert os.listdir(path.parent) == ["views.sql"]


def test_a_comment_at_the_end_does_not_hide_the_semicolon(tmp_path: pathlib.Path) -> None:
    file = ViewFile(str(tmp_path / "views.sql"))
    file.put("a", "CREATE VIEW a AS SELECT 1 -- one")
    file.put("b", "CREATE VIEW b AS SELECT 2")
    assert names(file) == ["a", "b"]


def test_what_others_wrote_stays(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "views.sql"
    path.write_text("-- by hand\ncreate view a as\n  select 1;\nSELECT 3;\nCREATE VIEW x.y AS SELECT 1")
    file = ViewFile(str(path))
    assert names(file) == ["a"]
    first, second = file.problems()
    assert first == f"{path}, line 4: The statement is not CREATE VIEW"
    assert second.startswith(f"{path}, line 5: The name of a view cannot have a schema")
    file.put("b", "CREATE VIEW b AS SELECT 2")
    text = path.read_text()
    assert text.startswith("-- by hand\ncreate view a as\n  select 1;\n\nSELECT 3;\n") and "x.y" in text
    assert names(file) == ["a", "b"]


def test_a_file_that_cannot_be_read_is_named_and_not_replaced(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "views.sql"
    path.write_bytes(b"CREATE VIEW a AS SELECT '\xff'")
    file = ViewFile(str(path))
    assert file.find("a") is None
    assert file.problems() == [f"{path} is not UTF-8 text: byte 25"]
    with pytest.raises(PipelineError, match="is not UTF-8"):
        file.put("b", "CREATE VIEW b AS SELECT 2")
    assert path.read_bytes().endswith(b"\xff'")
    (tmp_path / "directory").mkdir()
    (problem,) = ViewFile(str(tmp_path / "directory")).problems()
    assert problem == f"{tmp_path / 'directory'}: Is a directory"


def test_without_a_path_views_last_as_long_as_the_object() -> None:
    file = ViewFile(None)
    file.put("a", "CREATE VIEW a AS SELECT 1")
    assert names(file) == ["a"] and names(ViewFile(None)) == []
