"""The prompt of kt pipeline sql: editing, history and completion by the readline module where Python has it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from types import ModuleType

from kafkatools.commands.pipeline.spark import cancel_jobs
from kafkatools.commands.pipeline.sql.shell import Shell
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.pipeline.catalog.catalog import Catalog
from kafkatools.pipeline.catalog.statements import Statement, split, tokens
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.identifiers import quoted

_PROMPT = "sql> "
_CONTINUED = "  -> "
_HISTORY_LINES = 2000
_MAX_AGE_MS = 30_000
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FROM = re.compile(r"\b(?:from|join|describe|desc|into)\s+$", re.IGNORECASE)
"""The words that a table follows."""
_DELIMITERS = " \t\n`\"'()<>=,;+*/"
_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN", "ON", "WITH",
    "UNION ALL", "DISTINCT", "COUNT", "CAST", "DESCRIBE", "EXPLAIN", "SHOW TABLES", "SHOW VIEWS", "CREATE VIEW",
    "CREATE OR REPLACE VIEW", "DROP VIEW", "SET", "exit", "help",
)  # fmt: skip
_HELP = """\
Statements of Spark SQL end with a semicolon. Each topic is a table of its name: SELECT * FROM orders LIMIT 10;
  SHOW TABLES [LIKE '*text*']   topics and views; '__*' shows internal topics
  DESCRIBE orders               the columns of a topic or view
  CREATE VIEW name AS SELECT    keeps a view in the file; DROP VIEW name
  `a-b.c`, `log:/DIRECTORY`     other names are in backticks; log files are tables too
  exit                          ends the shell, as Ctrl-D does; Ctrl-C cancels a statement"""


def run_prompt(console: Console, shell: Shell) -> ExitStatus:
    """Read and run statements until `exit` or the end of the input. Ctrl-C drops the lines, or cancels the running
    statement."""
    with contextlib.suppress(PipelineError):
        entries = shell.catalog.tables()
        console.print(f"{len(entries)} topics and views; statements end with a semicolon; help shows more")
    with _line_editing(console, shell.catalog):
        rest = ""
        while True:
            console.flush()
            try:
                line = input(_CONTINUED if rest else _PROMPT)
            except EOFError:
                console.print()
                return ExitStatus.OK
            except KeyboardInterrupt:
                console.print("^C")
                rest = ""
                continue
            if not rest and (word := line.strip().rstrip(";").strip().lower()) in ("exit", "quit", "help"):
                if word != "help":
                    return ExitStatus.OK
                console.print_lines(_HELP)
                continue
            found, rest = split(f"{rest}{line}\n")
            if next(tokens(rest), None) is None and "/*" not in rest:
                rest = ""
            _run_all(console, shell, found)


def _run_all(console: Console, shell: Shell, statements: list[Statement]) -> None:
    """Run the statements of a line until one fails or is cancelled."""
    try:
        for statement in statements:
            if shell.run(statement, is_interactive=True) is not ExitStatus.OK:
                return
    except KeyboardInterrupt:
        cancel_jobs(shell.spark)
        console.note("Cancelled")


@contextlib.contextmanager
def _line_editing(console: Console, catalog: Catalog) -> Iterator[None]:
    """Edit lines with history and completion within the context; without readline, neither."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = os.path.join(console.home, "sql_history")
    with contextlib.suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY_LINES)
    _complete_with(readline, catalog)
    try:
        yield
    finally:
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            os.makedirs(console.home, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # statements may have secrets: only the user may read them
                os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            readline.write_history_file(path)


def candidates(catalog: Catalog, before: str, word: str) -> list[str]:
    """Return the completions of a word behind other text: names of topics and views, then keywords."""
    try:
        names = [entry.name for entry in catalog.tables(include_internal=word.startswith("_"), max_age_ms=_MAX_AGE_MS)]
    except PipelineError:
        names = []
    if before.endswith("`"):
        return [f"{name.replace('`', '``')}`" for name in names if name.startswith(word)]
    matches = [name if _PLAIN_NAME.fullmatch(name) else quoted(name) for name in names if name.startswith(word)]
    if _FROM.search(before):
        return matches
    words = [keyword if word[:1].isupper() else keyword.lower() for keyword in _WORDS]
    return [*matches, *(f"{keyword} " for keyword in words if word and keyword.startswith(word))]


def _complete_with(readline: ModuleType, catalog: Catalog) -> None:
    found: list[str] = []

    def complete(word: str, index: int) -> str | None:
        if index == 0:
            found[:] = candidates(catalog, readline.get_line_buffer()[: readline.get_begidx()], word)
        return found[index] if index < len(found) else None

    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(complete)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
