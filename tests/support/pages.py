"""Pages whose commands are run as they stand there, in their order, against a sandbox of their own.

On a page `### ` begins a recipe; in a block marked `console` a line that begins with `$ ` is a command and the lines
behind it are what it prints. `…` stands for anything within a line.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from support.kt import run_kt
from support.waiting import PATIENCE_S

DOCS = pathlib.Path(__file__).parents[2] / "docs"
ANYTHING = "…"


class Step(NamedTuple):
    """A command and what the page says comes back."""

    recipe: str
    command: str
    expected: list[str]


def steps(page: pathlib.Path) -> list[Step]:
    """The commands of a page."""
    found: list[Step] = []
    recipe, inside = "", False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            recipe = line[4:]
        elif line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Step(recipe, line[2:], []))
        elif inside:
            found[-1].expected.append(line)
    return found


def numbers(page: pathlib.Path) -> list[int]:
    """The numbers of the recipes that have one."""
    return [int(number) for number in re.findall(r"^### (\d+)\. ", page.read_text(encoding="utf-8"), re.MULTILINE)]


def line_pattern(line: str) -> str:
    """A line of the page as a regular expression."""
    return re.escape(line).replace(re.escape(ANYTHING), ".*")


def is_each_line_there(expected: Sequence[str], output: str) -> bool:
    """Every line is there, and no other; where standard error stands among them is the pipe's affair."""
    lines = output.splitlines()
    for line in expected:
        found = next((one for one in lines if re.fullmatch(line_pattern(line), one)), None)
        if found is None:
            return False
        lines.remove(found)
    return not lines


def is_in_order(expected: Sequence[str], output: str) -> bool:
    """Every line is there, in its order, and no other."""
    return re.fullmatch("".join(line_pattern(line) + r"\n?" for line in expected), output) is not None


def differences(
    page: pathlib.Path, run: Callable[[str], str], is_as_told: Callable[[Sequence[str], str], bool]
) -> list[str]:
    """What came back otherwise than the page says."""
    wrong = []
    for step in steps(page):
        output = run(step.command)
        if not is_as_told(step.expected, output):
            wrong.append(f"{step.recipe}\n$ {step.command}\n{output}-- the page says\n" + "\n".join(step.expected))
    return wrong


def environment(directory: pathlib.Path) -> dict[str, str]:
    """An environment with a home and a sandbox of its own, where `kt` is found; KT_SANDBOX=quiet, as the pages say."""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    removed = ("KT_PROFILE", "KT_CONFIG", "XDG_CONFIG_HOME")
    environ = {name: value for name, value in os.environ.items() if name not in removed}
    own = {"PATH": path, "KT_HOME": str(directory / "home"), "HOME": str(directory), "KT_SANDBOX": "quiet"}
    return environ | own


def run_shell(command: str, directory: pathlib.Path, environ: Mapping[str, str]) -> str:
    """What a command prints, standard error among it."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=directory, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return done.stdout.decode()


class Place(NamedTuple):
    """Where a page is tried: a directory, and a sandbox that is its own."""

    directory: pathlib.Path
    environ: dict[str, str]

    @classmethod
    def of(cls, directory: pathlib.Path) -> Place:
        """A place in a directory."""
        return cls(directory, environment(directory))

    def start(self, *options: str) -> None:
        """Starts the sandbox."""
        words = ["kt", "sandbox", "start", "--port", "0", *options]
        started = subprocess.run(words, env=self.environ, capture_output=True, check=False)
        assert started.returncode == 0, started.stderr

    def run(self, command: str) -> str:
        """What a command prints."""
        return run_shell(command, self.directory, self.environ)

    def stop(self) -> None:
        """Stops the sandbox."""
        subprocess.run(["kt", "sandbox", "stop"], env=self.environ, capture_output=True, check=True)


def run_pipeline(place: Place, command: str) -> str:
    """What a command prints, stderr behind stdout: `kt pipeline` in this process, others in a shell."""
    if not command.startswith("kt pipeline "):
        return place.run(command)
    words = list(shlex.shlex(command, posix=True, punctuation_chars=";"))
    words = shlex.split(command.split(";")[0]) if ";" in words else shlex.split(command)
    told = words[words.index("2>") :] if "2>" in words else []
    words = words[1 : len(words) - len(told)]
    ran = run_kt(*words, cwd=place.directory, environ=place.environ)
    status = f"status {int(ran.status)}\n" if "echo" in command else ""
    return ran.out + ("" if told else ran.err) + status
