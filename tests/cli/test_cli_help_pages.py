"""`kt help COMMAND`: the manual page on a terminal, the text of --help elsewhere."""

import os
import pathlib
import pty
import subprocess

import pytest
from support.kt_process import KT, environment

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def man(tmp_path: pathlib.Path) -> dict[str, str]:
    """The environment with a `man` that prints the name of the page, or fails when the page is of kt-storage."""
    program = tmp_path / "man"
    program.write_text('#!/bin/sh\ncase "$1" in *storage*) exit 16;; esac\necho "page: $1"\n')
    program.chmod(0o755)
    made = environment(tmp_path)
    return {**made, "PATH": f"{tmp_path}:{made['PATH']}"}


def on_terminal(environ: dict[str, str], *arguments: str) -> str:
    """What `kt` prints on a terminal."""
    main, terminal = pty.openpty()
    child = subprocess.Popen([*KT, *arguments], env=environ, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    parts = []
    try:
        while part := os.read(main, 65536):
            parts.append(part)
    except OSError:
        pass
    os.close(main)
    assert child.wait(30) == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("name", "page"), [("topics", "kt-topics.1"), ("dump-log-segments", "kt-dump-log.1")])
def test_a_terminal_gets_the_manual_page(name: str, page: str, man: dict[str, str]) -> None:
    assert on_terminal(man, "help", name) == f"page: {ROOT / 'docs' / 'man' / page}\n"


@pytest.mark.parametrize("arguments", [["storage"], ["reassign-partitions", "run"]])
def test_without_a_page_it_is_the_help(arguments: list[str], man: dict[str, str]) -> None:
    assert on_terminal(man, "help", *arguments).startswith(f"usage: kt {' '.join(arguments)}")


def test_a_pipe_gets_the_help(man: dict[str, str]) -> None:
    done = subprocess.run([*KT, "help", "topics"], env=man, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: kt topics")
