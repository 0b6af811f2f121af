"""Pages made from tables are up to date, and what the pages point at is there."""

from __future__ import annotations

import pathlib
import re
import runpy

import pytest

DOCS = pathlib.Path(__file__).parents[3] / "docs"
GENERATED = runpy.run_path(str(DOCS / "generate.py"))


@pytest.mark.parametrize("name", sorted(GENERATED["PAGES"]))
def test_pages_of_settings_are_up_to_date(name: str) -> None:
    """When this fails: make docs"""
    assert (DOCS / "config" / f"{name}.md").read_text(encoding="utf-8") == GENERATED["page"](name)


def test_no_page_of_settings_is_left_over() -> None:
    assert {path.name for path in (DOCS / "config").iterdir()} == set(GENERATED["pages"]())


@pytest.mark.parametrize("name", ["producer", "topic"])
def test_a_setting_is_one_row_with_kafkas_default(name: str) -> None:
    rows = {
        "producer": "| `linger.ms` | long | `5` |",
        "topic": "| `retention.ms` | long | `604800000` |",
    }
    assert len([line for line in GENERATED["page"](name).splitlines() if line.startswith(rows[name])]) == 1


def test_internal_settings_are_left_out() -> None:
    assert "internal.throw.on.fetch" not in GENERATED["page"]("consumer")


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_links_between_pages_lead_somewhere(page: pathlib.Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
