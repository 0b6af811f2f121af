"""The recipes of docs/pipeline.md run as they stand on the page, in its order, against a sandbox of their own.

`kt pipeline` runs in this process, on the session of the tests; the other commands run in a shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from support import pages
from support.kt import run_kt

PAGE = pages.DOCS / "pipeline.md"


def run(place: pages.Place, command: str) -> str:
    """What a command prints, stderr behind stdout."""
    if not command.startswith("kt pipeline "):
        return place.run(command)
    words = list(shlex.shlex(command, posix=True, punctuation_chars=";"))
    words = shlex.split(command.split(";")[0]) if ";" in words else shlex.split(command)
    told = words[words.index("2>") :] if "2>" in words else []
    words = words[1 : len(words) - len(told)]
    ran = run_kt(*words, cwd=place.directory, environ=place.environ)
    status = f"status {int(ran.status)}\n" if "echo" in command else ""
    return ran.out + ("" if told else ran.err) + status


@pytest.fixture(scope="module")
def desk(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pages.Place]:
    place = pages.Place.of(tmp_path_factory.mktemp("page"))
    place.start()
    yield place
    place.stop()


def test_the_page_says_what_happens(desk: pages.Place) -> None:
    wrong = pages.differences(PAGE, lambda command: run(desk, command), pages.is_in_order)
    assert not wrong, "\n\n".join(wrong)


def test_recipes_are_numbered_in_order() -> None:
    numbers = pages.numbers(PAGE)
    assert numbers == list(range(1, len(numbers) + 1))
