"""The prompt of `kt pipeline sql` on a pseudo-terminal, in a process with a Spark of its own."""

from __future__ import annotations

import os
import pathlib
import pty
import select
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from support.embedded import embedded_broker
from support.requirements import require

from kafkatools import Producer
from kafkatools.commands.pipeline.sql.shell import line_with_caret
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.session import find_java

pytest.importorskip("pyspark", reason="PySpark is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WAIT_S = 120
UNNOTICED_S = 5
PROMPTS = ("sql> ", "  -> ")
ENDLESS = "SELECT count(*) FROM range(1000000000) a CROSS JOIN range(1000000000) b WHERE a.id * b.id % 7 = 8"


class Terminal:
    """The prompt on a terminal of 100 columns."""

    def __init__(self, master: int) -> None:
        self._master = master

    def answer(self, text: str = "") -> str:
        """Type a text; return what the terminal shows until the next prompt."""
        self.type(text)
        return self._until(lambda shown: shown.endswith(PROMPTS))

    def interrupt(self) -> str:
        """Press Ctrl-C at the prompt; return what the terminal shows until the next one. Python's readline shows a
        prompt before it waits for keys, and notices a Ctrl-C in between only with the next key."""
        self.type("\x03")
        while not select.select([self._master], [], [], UNNOTICED_S)[0]:
            self.type("\x03")
        return self.answer()

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the terminal shows a text."""
        self._until(lambda shown: text in shown)

    def _until(self, is_shown: Callable[[str], bool]) -> str:
        shown = ""
        while not is_shown(shown):
            assert select.select([self._master], [], [], WAIT_S)[0], shown
            shown += os.read(self._master, 4096).decode(errors="replace").replace("\r\n", "\n")
        return shown


@pytest.fixture
def home(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "home"


@pytest.fixture
def terminal(tmp_path: pathlib.Path, home: pathlib.Path) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    try:
        find_java(os.environ)
    except PipelineError as missing:
        require(str(missing))
    with embedded_broker(tmp_path / "broker") as bootstrap:
        with Producer(bootstrap_servers=bootstrap) as producer:
            for topic in ("orders", "orders", "a.b-c"):
                producer.send(topic, b"v")
        master, slave = pty.openpty()
        words = ("pipeline", "sql", "--bootstrap-server", bootstrap, "--master", "local[2]")
        command = [sys.executable, "-m", "kafkatools", *words]
        # The terminal is the one of a session, so that Ctrl-C interrupts the process.
        command = ["setsid", "--ctty", "--wait", *command]
        environ = {**os.environ, "TERM": "dumb", "COLUMNS": "100", "KT_HOME": str(home)}
        process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environ, cwd=tmp_path)
        os.close(slave)
        try:
            yield Terminal(master), process
        finally:
            process.kill()
            process.wait()
            os.close(master)


def test_statements_and_keys_at_the_prompt(
    terminal: tuple[Terminal, subprocess.Popen[bytes]], home: pathlib.Path
) -> None:
    """Statements over several lines, the Tab key, a wrong one, Ctrl-C at the prompt and in a statement, history."""
    prompt, process = terminal
    assert "2 topics and views; " in prompt.answer()
    assert prompt.answer("SELECT count(*) AS n\n").endswith("\n  -> ")
    assert "FROM orders;\nn\n2\n1 row in " in prompt.answer("FROM ord\t;\n")
    assert "FROM `a.b-c`;\nn\n1\n" in prompt.answer("SELECT count(*) AS n FROM `a.\t;\n")
    wrong = prompt.answer("SELECT nme FROM orders;\n")
    assert "(line 1, position 8)\n  SELECT nme FROM orders\n         ^\nsql> " in wrong
    assert "SHOW TABLES" in prompt.answer("help\n")
    prompt.answer("SELECT 'open\n")
    assert prompt.interrupt().endswith("^C\nsql> ")
    prompt.type(f"SELECT 'begun'; {ENDLESS};\n")
    prompt.wait_for("1 row in ")  # of the first statement; the second one is running or about to
    assert prompt.answer("\x03").endswith("Cancelled\nsql> ")
    assert "\nn\n2\n" in prompt.answer("SELECT count(*) AS n FROM orders;\n")
    assert "\nn\n2\n" in prompt.answer("\x1b[A\n")
    prompt.type("exit\n")
    assert process.wait(WAIT_S) == 0
    history = home / "sql_history"
    assert history.stat().st_mode & 0o777 == 0o600 and "FROM orders;\n" in history.read_text()


def test_the_caret_of_a_long_line_stays_below_its_place() -> None:
    text = "SELECT 1,\n" + "a" * 100 + "\tX" + "b" * 100
    for width in (30, 60, 400):
        line, caret = line_with_caret(text, 2, 102, width).split("\n")
        assert len(line) <= width and line[caret.index("^")] == "X"
