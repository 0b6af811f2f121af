"""The commands of docs/rehearsals.md run as they stand on the page, in its order, on a cluster of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from support import pages

PAGE = pages.DOCS / "rehearsals.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages.Place]:
    place = pages.Place.of(tmp_path_factory.mktemp("rehearsals"))
    yield place
    place.stop()


STATE = (
    "kt topics --describe; kt cluster list-endpoints --include-fenced-brokers; "
    "kt metadata-quorum describe --replication; tail -n 40 $KT_HOME/sandbox/nodes/*/node.log"
)
"""What says why a partition stays as it is."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_says_what_happens(place: pages.Place) -> None:
    def run(command: str) -> str:
        try:
            return place.run(command)
        except subprocess.TimeoutExpired:
            pytest.fail(f"$ {command}\ndoes not end\n{place.run(STATE)}")

    wrong = pages.differences(PAGE, run, pages.is_each_line_there)
    assert not wrong, "\n\n".join(wrong)


def test_rehearsals_are_numbered_in_order() -> None:
    numbers = pages.numbers(PAGE)
    assert numbers == list(range(1, len(numbers) + 1))
