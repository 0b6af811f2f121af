"""CHANGELOG.md has the form of Keep a Changelog, which packaging/release_notes.py reads."""

from __future__ import annotations

import pathlib
import re
import runpy
import shutil
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).parents[3]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
GROUPS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_a_version_has_each_group_once_and_in_order() -> None:
    first, *versions = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    assert first.startswith("# Changelog\n")
    assert versions[0].startswith("Unreleased\n")
    for version in versions:
        groups = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert groups == [group for group in GROUPS if group in groups]


def test_notes_of_a_release_are_its_part_of_the_changelog(capsys: pytest.CaptureFixture[str]) -> None:
    notes = runpy.run_path(str(ROOT / "packaging" / "release_notes.py"))["main"]
    assert notes("Unreleased") == 0
    assert capsys.readouterr().out.startswith("### Added\n")
    assert notes("0.0.99") == 1


def test_notes_that_are_too_long_for_a_release_end_after_an_entry(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "packaging").mkdir()
    script = shutil.copy(ROOT / "packaging" / "release_notes.py", tmp_path / "packaging")
    notes = runpy.run_path(script)["main"]
    entry = f"- {'x' * 997}\n"
    for count, is_cut in ((124, False), (126, True)):
        (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## 1.2.0\n\n{entry * count}", encoding="utf-8")
        assert notes("1.2.0") == 0
        *entries, last = capsys.readouterr().out.strip().splitlines()
        assert last == ("The other changes are in CHANGELOG.md." if is_cut else entry.strip())
        assert {*entries} - {""} == {entry.strip()}
        assert len("\n".join([*entries, last])) <= 125_000


def test_entries_go_to_the_group_that_their_first_word_names() -> None:
    grouped = _grouped()
    part = "- New.\n  More.\n\n### Added\n\n- **Changed:** one.\n- Fixed: two.\n  Rest.\n\n### Fixed\n\n- Three.\n"
    assert (
        grouped(part)
        == "### Added\n\n- New.\n  More.\n\n### Changed\n\n- One.\n\n### Fixed\n\n- Two.\n  Rest.\n- Three."
    )


def test_entries_go_to_the_group_behind_their_subject_without_its_word() -> None:
    part = "### Added\n\n- `kt a`, fixed: one.\n  More.\n- `kt b`: two, fixed: three.\n\n### Fixed\n\n- Four.\n"
    assert (
        _grouped()(part) == "### Added\n\n- `kt b`: two, fixed: three.\n\n### Fixed\n\n- `kt a`: one.\n  More.\n- Four."
    )


def test_entries_are_in_their_groups_and_each_stands_once() -> None:
    part = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1].removeprefix("Unreleased\n").strip()
    assert _grouped()(part) == part


def test_of_equal_entries_the_first_stays() -> None:
    part = "### Added\n\n- A.\n  More.\n- B.\n- A.\n  More.\n- A.\n"
    assert _grouped()(part) == "### Added\n\n- A.\n  More.\n- B.\n- A."


def _grouped() -> Callable[[str], str]:
    grouped: Callable[[str], str] = runpy.run_path(str(ROOT / "packaging" / "group_changelog.py"))["grouped"]
    return grouped
