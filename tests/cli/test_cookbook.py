"""The cookbook's commands run as they stand on the page, in its order, against a sandbox of their own."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "cookbook.md"
ANYTHING = "…"
SANDBOX_STARTED = re.compile(r"^kt: started a sandbox broker on .*\n", re.MULTILINE)


class Step(NamedTuple):
    """A command and what the page says comes back."""

    recipe: str
    command: str
    expected: list[str]


def steps() -> list[Step]:
    found: list[Step] = []
    recipe, inside = "", False
    for line in PAGE.read_text().splitlines():
        if line.startswith("### "):
            recipe = line[4:]
        elif line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Step(recipe, line[2:], []))
        elif inside:
            found[-1].expected.append(line)
    return found


class Kitchen(NamedTuple):
    """Where the page is tried."""

    directory: pathlib.Path
    environ: dict[str, str]

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.directory, env=self.environ, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=120, check=False,
        )  # fmt: skip
        return SANDBOX_STARTED.sub("", done.stdout.decode())


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kitchen]:
    directory = tmp_path_factory.mktemp("cookbook")
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    removed = ("KT_SANDBOX", "KT_PROFILE", "KT_CONFIG", "XDG_CONFIG_HOME")
    environ = {name: value for name, value in os.environ.items() if name not in removed}
    environ |= {"PATH": path, "KT_HOME": str(directory / "home"), "HOME": str(directory)}
    made = Kitchen(directory, environ)
    started = subprocess.run(["kt", "sandbox", "start", "--port", "0"], env=environ, capture_output=True, check=False)
    assert started.returncode == 0, started.stderr
    try:
        yield made
    finally:
        subprocess.run(["kt", "sandbox", "stop"], env=environ, capture_output=True, check=True)


def is_as_told(expected: list[str], output: str) -> bool:
    """Every line is there, and no other; where standard error stands among them is the pipe's affair."""
    lines = output.splitlines()
    for line in expected:
        pattern = re.escape(line).replace(re.escape(ANYTHING), ".*")
        found = next((one for one in lines if re.fullmatch(pattern, one)), None)
        if found is None:
            return False
        lines.remove(found)
    return not lines


def test_the_page_says_what_happens(kitchen: Kitchen) -> None:
    wrong = []
    for step in steps():
        output = kitchen.run(step.command)
        if not is_as_told(step.expected, output):
            wrong.append(f"{step.recipe}\n$ {step.command}\n{output}-- the page says\n" + "\n".join(step.expected))
    assert not wrong, "\n\n".join(wrong)


def test_there_are_thirty_recipes_numbered_in_order() -> None:
    numbers = [int(number) for number in re.findall(r"^### (\d+)\. ", PAGE.read_text(), re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 30
    assert {step.recipe for step in steps()} == set(re.findall(r"^### (.*)$", PAGE.read_text(), re.MULTILINE))
