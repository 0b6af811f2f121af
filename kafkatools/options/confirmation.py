"""Ask for confirmation before a command deletes something or makes other dangerous changes."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from kafkatools.exit_status import CommandError
from kafkatools.options.args import Args


class Asking(Protocol):
    """The methods of Console that print a question and read the answer."""

    stdin: BinaryIO

    @property
    def is_input_terminal(self) -> bool:
        """Return whether stdin is a terminal."""

    @property
    def is_error_terminal(self) -> bool:
        """Return whether stderr is a terminal."""

    def print(self, line: str) -> None:
        """Write a line to stdout."""

    def note(self, line: str) -> None:
        """Write a line to stderr."""

    def flush(self) -> None:
        """Flush stdout."""


def agrees_to_remove(console: Asking, args: Args, question: str, force_option: str) -> bool:
    """Ask whether to remove something, as `agrees`. `force_option`: the option that skips the question."""
    hint = f"Pass {force_option} to remove without a prompt."
    return agrees(console, question, "Nothing was removed", hint, is_json=args.json)


def agrees(console: Asking, question: str, outcome: str, hint: str, *, is_json: bool) -> bool:
    """Ask the question on stdout (with --json on stderr); return whether the line read from stdin is y or Y.

    Raises CommandError at the end of stdin, with the outcome that nothing was done and a hint to skip the question.
    """
    if is_json:
        console.note(question)
    else:
        console.print(question)
        console.flush()
    response: bytes = console.stdin.readline()
    if not response:
        raise CommandError(f"{outcome}: stdin ended before an answer.", hint=hint)
    return response.strip().lower() == b"y"
