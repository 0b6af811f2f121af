"""The pages for users: every link leads to a page and a heading, and sentences are short."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOR_USERS = [DOCS / f"{name}.md" for name in ("limits", "figures")]
MOST_WORDS = 40
"""The longest sentence of a page for users, in words."""


def _prose(page: pathlib.Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchor(heading: str) -> str:
    """The anchor that repository browsers and the site give a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _anchors(page: pathlib.Path) -> set[str]:
    return {_anchor(heading) for heading in re.findall(r"^#+ (.*?)\s*$", _prose(page), re.MULTILINE)}


def _links(page: pathlib.Path) -> list[tuple[pathlib.Path, str]]:
    """The linked files of this repository, each with its anchor."""
    links = re.findall(r"\]\(([^)\s:#]*)(?:#([^)\s]*))?\)", _prose(page))
    return [((page.parent / name).resolve() if name else page, anchor) for name, anchor in links if name or anchor]


def _name(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_anchors_are_headings_of_the_linked_page(page: pathlib.Path) -> None:
    with_anchor = [(target, anchor) for target, anchor in _links(page) if anchor and target.suffix == ".md"]
    missing = [f"{_name(target)}#{anchor}" for target, anchor in with_anchor if anchor not in _anchors(target)]
    assert missing == []


@pytest.mark.parametrize("page", FOR_USERS, ids=_name)
def test_sentences_are_short(page: pathlib.Path) -> None:
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", _prose(page)))
    blocks = re.split(r"\n\s*\n|\n(?=\s*[-#|])", text)
    cells = [cell for block in blocks if block.startswith("|") for cell in re.split(r" \| |; ", block)]
    pieces = [*cells, *(block for block in blocks if not block.startswith("|"))]
    sentences = [sentence for piece in pieces for sentence in re.split(r"(?<=[.?!])\s", piece)]
    assert [sentence for sentence in sentences if len(sentence.split()) > MOST_WORDS] == []
