"""The commands of README.md, docs/first-hour.md and docs/troubleshooting.md run as they stand there, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support import pages

FIRST_HOUR = pages.DOCS / "first-hour.md"
README = pages.DOCS.parent / "README.md"
TROUBLESHOOTING = pages.DOCS / "troubleshooting.md"


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages.Place]:
    place = pages.Place.of(tmp_path_factory.mktemp("walk"))
    place.start()
    yield place
    place.stop()


@pytest.mark.slow
def test_the_first_hour_goes_as_it_stands(place: pages.Place) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", FIRST_HOUR.read_text(encoding="utf-8"), re.M | re.S)
    (place.directory / "hello.py").write_text(program, encoding="utf-8")
    wrong = pages.differences(FIRST_HOUR, place.run, pages.is_each_line_there)
    assert not wrong, "\n\n".join(wrong)


def test_the_steps_of_the_first_hour_are_numbered_in_order() -> None:
    numbers = pages.numbers(FIRST_HOUR)
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.slow
def test_troubleshooting_prints_what_the_page_says(place: pages.Place) -> None:
    wrong = pages.differences(TROUBLESHOOTING, place.run, pages.is_each_line_there)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
def test_the_first_minute_goes_as_it_stands(place: pages.Place) -> None:
    wrong = pages.differences(README, place.run, pages.is_each_line_there)
    assert not wrong, "\n\n".join(wrong)
