"""The recipes of docs/pipeline.md run as they stand on the page, in its order, against a sandbox of their own.

`kt pipeline` runs in this process, on the session of the tests; the other commands run in a shell.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.kt import run_kt

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "pipeline.md"
ANYTHING = "…"


class Step(NamedTuple):
    """A command and what the page says comes back."""

    recipe: str
    command: str
    expected: list[str]


def steps() -> list[Step]:
    found: list[Step] = []
    recipe, inside = "", False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            recipe = line[4:]
        elif line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Step(recipe, line[2:], []))
        elif inside:
            found[-1].expected.append(line)
    return found


class Desk(NamedTuple):
    """Where the page is tried."""

    directory: pathlib.Path
    environ: dict[str, str]

    def run(self, command: str) -> str:
        """What a command prints, stderr behind stdout."""
        if not command.startswith("kt pipeline "):
            return self._shell(command)
        words = list(shlex.shlex(command, posix=True, punctuation_chars=";"))
        words = shlex.split(command.split(";")[0]) if ";" in words else shlex.split(command)
        told = words[words.index("2>") :] if "2>" in words else []
        words = words[1 : len(words) - len(told)]
        ran = run_kt(*words, cwd=self.directory, environ={**self.environ, "KT_SANDBOX": "on"})
        status = f"status {int(ran.status)}\n" if "echo" in command else ""
        return ran.out + ("" if told else ran.err) + status

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.directory, env=self.environ, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=120, check=False,
        )  # fmt: skip
        return done.stdout.decode()


@pytest.fixture(scope="module")
def desk(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    directory = tmp_path_factory.mktemp("page")
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    removed = ("KT_SANDBOX", "KT_PROFILE", "KT_CONFIG", "XDG_CONFIG_HOME")
    environ = {name: value for name, value in os.environ.items() if name not in removed}
    environ |= {"PATH": path, "KT_HOME": str(directory / "home"), "HOME": str(directory)}
    started = subprocess.run(["kt", "sandbox", "start", "--port", "0"], env=environ, capture_output=True, check=False)
    assert started.returncode == 0, started.stderr
    try:
        yield Desk(directory, environ)
    finally:
        subprocess.run(["kt", "sandbox", "stop"], env=environ, capture_output=True, check=True)


def is_as_told(expected: list[str], output: str) -> bool:
    """Every line is there, in its order, and no other."""
    pattern = "".join(re.escape(line).replace(re.escape(ANYTHING), ".*") + r"\n?" for line in expected)
    return re.fullmatch(pattern, output) is not None


def test_the_page_says_what_happens(desk: Desk) -> None:
    wrong = []
    for step in steps():
        output = desk.run(step.command)
        if not is_as_told(step.expected, output):
            wrong.append(f"{step.recipe}\n$ {step.command}\n{output}-- the page says\n" + "\n".join(step.expected))
    assert not wrong, "\n\n".join(wrong)


def test_recipes_are_numbered_in_order() -> None:
    numbers = [int(number) for number in re.findall(r"^### (\d+)\. ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
