"""The metadata shell on a terminal: editing, history and completion by the readline module where Python has it."""

from __future__ import annotations

import contextlib

from kafkatools.commands.metadata_shell.shell import COMMANDS, Shell, split_line
from kafkatools.console import Console
from kafkatools.tools.metadata_shell.paths import completions

_PROMPT = ">> "


def candidates(shell: Shell, line: str, word: str) -> list[str]:
    """Return the completions of the last word of a line: names of commands, then paths."""
    before = line[: len(line) - len(word)].split()
    if not before:
        return [f"{name} " for name in COMMANDS if name.startswith(word)]
    if before[0] == "man":
        return [name for name in COMMANDS if name.startswith(word)]
    takes_paths = before[0] in ("cat", "cd", "find", "ls", "tree")
    return completions(shell.root, shell.working_directory, word) if takes_paths else []


def run_on_terminal(console: Console, shell: Shell) -> None:
    """Read and run commands until `exit` or the end of the input. Ctrl-C drops the line."""
    with contextlib.suppress(ImportError):  # a Python without readline has neither editing nor completion
        _use_readline(shell)
    console.print("[ Kafka Metadata Shell ]")
    while True:
        console.flush()
        try:
            line = input(_PROMPT)
        except EOFError:
            console.print()
            return
        except KeyboardInterrupt:
            console.print("^C")
            continue
        if not shell.run_line(split_line(line), console.width):
            return


def _use_readline(shell: Shell) -> None:
    import readline

    found: list[str] = []

    def complete(word: str, index: int) -> str | None:
        if index == 0:
            found[:] = candidates(shell, readline.get_line_buffer()[: readline.get_endidx()], word)
        return found[index] if index < len(found) else None

    readline.set_completer_delims(" \t\n")
    readline.set_completer(complete)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
