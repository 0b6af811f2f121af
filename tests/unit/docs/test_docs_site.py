"""The site of mkdocs.yml: what `mkdocs build` would refuse or show otherwise than a repository browser, without it."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
DOCS = ROOT / "docs"
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in BESIDE)]
FOLDERS_WITH_AN_INDEX = ("json", "formats")


def test_the_navigation_names_every_page() -> None:
    named = re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    indexed = {name for name in pages if name.startswith(FOLDERS_WITH_AN_INDEX) and not name.endswith("README.md")}
    assert sorted(named) == sorted((pages - indexed) | set(BESIDE))


def _outside(page: pathlib.Path) -> list[str]:
    """The links of a page that lead out of docs/."""
    links = re.findall(r"\]\(([^)\s:#]+)", page.read_text(encoding="utf-8"))
    return [link for link in links if not (page.parent / link).resolve().is_relative_to(DOCS)]


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_stay_within_the_site(page: pathlib.Path) -> None:
    outside = {link for link in _outside(page) if not link.startswith("../examples/")}  # the hook turns them into text
    assert outside <= {f"../{name}" for name in BESIDE}


def _lines(page: pathlib.Path) -> list[str]:
    """The lines of a page without blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL).split("\n")


def _is_item(line: str) -> bool:
    return re.match(r"(?:[-*]|\d+\.) ", line) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_and_tables_are_set_off(page: pathlib.Path) -> None:
    """The site's Markdown needs an empty line before them, and indents a list in a list by four."""
    wrong = []
    for before, line in zip(["", *_lines(page)], _lines(page), strict=False):
        set_off = not before or before.startswith(("#", "  ")) or _is_item(before)
        if (_is_item(line) and not set_off) or (line.startswith("|") and before and not before.startswith("|")):
            wrong.append(line)
        if re.match(r" +(?:[-*]|\d+\.) ", line):
            wrong.append(line)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_table_has_a_head(page: pathlib.Path) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", "\n".join([*_lines(page), ""]), re.MULTILINE)
    assert [table for table in tables if not re.match(r".*\n\|(?:-+\|)+\n|.*\n\| (?:--- \| ?)+\n", table)] == []
