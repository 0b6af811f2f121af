"""The file of views: what CREATE VIEW and DROP VIEW change in it, and files that were written by hand."""

from __future__ import annotations

import os
import pathlib
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

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


def test_shells_that_create_views_at_the_same_time_keep_all_of_them(tmp_path: pathlib.Path) -> None:
    path, shells, views = str(tmp_path / "views.sql"), 4, 10
    start = Barrier(shells)

    def create(shell: int) -> None:
        start.wait()
        for number in range(views):
            ViewFile(path).put(f"v{shell}_{number}", f"CREATE VIEW v{shell}_{number} AS SELECT 1")

    with ThreadPoolExecutor(shells) as pool:
        list(pool.map(create, range(shells)))
    assert set(names(ViewFile(path))) == {f"v{shell}_{number}" for shell in range(shells) for number in range(views)}
    assert os.listdir(tmp_path) == ["views.sql"]


def test_a_view_that_another_shell_has_created_is_not_replaced(tmp_path: pathlib.Path) -> None:
    file = ViewFile(str(tmp_path / "views.sql"))
    file.put("a", "CREATE VIEW a AS SELECT 1")
    with pytest.raises(PipelineError, match="The view A exists in .*; CREATE OR REPLACE VIEW replaces it"):
        file.put("A", "CREATE VIEW A AS SELECT 2")
    assert names(file) == ["a"]


def test_a_comment_at_the_end_of_the_file_stays(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "views.sql"
    path.write_text("CREATE VIEW a AS SELECT 1;\n-- CREATE VIEW later AS SELECT 2;\n")
    file = ViewFile(str(path))
    file.put("b", "CREATE VIEW b AS SELECT 2")
    file.remove("a")
    assert path.read_text() == "CREATE VIEW b AS SELECT 2;\n\n-- CREATE VIEW later AS SELECT 2;\n"


def test_a_quote_that_is_not_closed_takes_no_view_that_is_created_behind_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "views.sql"
    path.write_text("CREATE VIEW a AS SELECT 1;\nCREATE VIEW b AS SELECT 'open;\n")
    before = path.read_text()
    file = ViewFile(str(path))
    with pytest.raises(PipelineError, match=r"views\.sql: the last statement has a quote that is not closed"):
        file.put("c", "CREATE VIEW c AS SELECT 3")
    assert path.read_text() == before
    file.remove("b")
    assert names(file) == ["a"]


def test_permissions_and_links_stay(tmp_path: pathlib.Path) -> None:
    path, link = tmp_path / "team.sql", tmp_path / "views.sql"
    link.symlink_to(path)
    file = ViewFile(str(link))
    file.put("a", "CREATE VIEW a AS SELECT 1")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o664)
    file.put("b", "CREATE VIEW b AS SELECT 2")
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o664
    assert names(ViewFile(str(path))) == ["a", "b"]


def test_a_pipe_is_not_replaced(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PipelineError, match="pipe cannot be written: it is not a regular file"):
        ViewFile(str(tmp_path / "pipe")).put("a", "CREATE VIEW a AS SELECT 1")
    assert (tmp_path / "pipe").is_fifo()


def test_without_a_path_views_last_as_long_as_the_object() -> None:
    file = ViewFile(None)
    file.put("a", "CREATE VIEW a AS SELECT 1")
    assert names(file) == ["a"] and names(ViewFile(None)) == []
