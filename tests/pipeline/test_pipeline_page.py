"""The recipes of docs/pipeline.md run as they stand on the page, in its order, against a sandbox of their own.

`kt pipeline` runs in this process, on the session of the tests; the other commands run in a shell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import pages

PAGE = pages.DOCS / "pipeline.md"


@pytest.fixture(scope="module")
def desk(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages.Place]:
    place = pages.Place.of(tmp_path_factory.mktemp("page"))
    place.start()
    yield place
    place.stop()


def test_the_page_says_what_happens(desk: pages.Place) -> None:
    wrong = pages.differences(PAGE, lambda command: pages.run_pipeline(desk, command), pages.is_in_order)
    assert not wrong, "\n\n".join(wrong)


def test_recipes_are_numbered_in_order() -> None:
    numbers = pages.numbers(PAGE)
    assert numbers == list(range(1, len(numbers) + 1))
