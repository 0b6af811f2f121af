"""The cookbook's commands run as they stand on the page, in its order, against a sandbox of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support import pages

PAGE = pages.DOCS / "cookbook.md"


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages.Place]:
    place = pages.Place.of(tmp_path_factory.mktemp("cookbook"))
    place.start()
    yield place
    place.stop()


@pytest.mark.slow
def test_the_page_says_what_happens(kitchen: pages.Place) -> None:
    wrong = pages.differences(PAGE, kitchen.run, pages.is_each_line_there)
    assert not wrong, "\n\n".join(wrong)


def test_there_are_thirty_recipes_numbered_in_order() -> None:
    numbers = pages.numbers(PAGE)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 30
    recipes = set(re.findall(r"^### (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {step.recipe for step in pages.steps(PAGE)} == recipes
