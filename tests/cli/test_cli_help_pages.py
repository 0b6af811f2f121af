"""`kt help COMMAND`: the manual page on a terminal, the text of --help elsewhere."""

import os
import pathlib

import pytest
from support.kt_process import Terminal, kt_process

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def man(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `man` that prints the name of the page, or fails when the page is of kt-storage."""
    program = tmp_path / "man"
    program.write_text('#!/bin/sh\ncase "$1" in *storage*) exit 16;; esac\necho "page: $1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def on_terminal(home: pathlib.Path, *arguments: str) -> str:
    """Run `kt` on a terminal and return its output."""
    terminal = Terminal(home, *arguments)
    assert terminal.end() == 0
    return terminal.seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("name", "page"), [("topics", "kt-topics.1"), ("dump-log-segments", "kt-dump-log.1")])
def test_a_terminal_gets_the_manual_page(name: str, page: str, tmp_path: pathlib.Path) -> None:
    assert on_terminal(tmp_path, "help", name) == f"page: {ROOT / 'docs' / 'man' / page}\n"


@pytest.mark.parametrize("arguments", [["storage"], ["reassign-partitions", "run"]])
def test_without_a_page_it_is_the_help(arguments: list[str], tmp_path: pathlib.Path) -> None:
    assert on_terminal(tmp_path, "help", *arguments).startswith(f"usage: kt {' '.join(arguments)}")


def test_a_pipe_gets_the_help(tmp_path: pathlib.Path) -> None:
    done = kt_process(tmp_path, "help", "topics")
    assert done.returncode == 0
    assert done.stdout.startswith(b"usage: kt topics")
