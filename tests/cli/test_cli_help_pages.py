"""`kt help COMMAND`: the manual page on a terminal, the text of --help elsewhere."""

import os
import pathlib

import pytest
from support.kt import run_kt
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


def help_of(*words: str) -> str:
    ran = run_kt(*words, "--help")
    assert ran.status == 0, ran
    return " ".join(ran.out.split())


@pytest.mark.parametrize("words", [["query"], ["copy"], ["schemas", "list"], ["check"], ["diff"], ["sandbox", "start"]])
def test_help_of_own_commands_does_not_compare_with_a_tool_of_kafka(words: list[str]) -> None:
    text = help_of(*words)
    assert "Write JSON, one object per line, errors too." in text and "Kafka's tool" not in text


def test_help_of_a_tool_of_kafka_marks_what_it_adds() -> None:
    assert "errors too. (not in Kafka's tool)" in help_of("topics")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("schemas", "compatibility"), "usage: kt schemas compatibility [OPTION]... [SUBJECT]"),
        (("schemas", "set-compatibility"), "usage: kt schemas set-compatibility [OPTION]... [SUBJECT]"),
        (("schemas", "show"), "usage: kt schemas show [OPTION]... [SUBJECT[:VERSION]]"),
        (("top-keys",), "Spark setting, as for spark-submit. Needs --engine spark. (can be repeated)"),
        (("diff",), "Default: local[*]. Needs --engine spark."),
        (("console-producer",), "Needs keys: --json, or --reader-property parse.key=true."),
    ],
)
def test_help_says_what_is_needed(words: tuple[str, ...], line: str) -> None:
    assert line in help_of(*words)
