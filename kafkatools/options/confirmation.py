"""The question before something is removed."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from kafkatools.exit_status import CommandError
from kafkatools.options.args import Args


class _Asking(Protocol):
    """The part of Console that asks a question and reads the answer."""

    stdin: BinaryIO

    def print(self, line: str) -> None:
        """Write a line to stdout."""

    def note(self, line: str) -> None:
        """Write a line to stderr."""

    def flush(self) -> None:
        """Write what is buffered."""


def agrees_to_remove(console: _Asking, args: Args, question: str, unasked: str) -> bool:
    """Asks on stdout (with --json on stderr) and reads the answer; y is yes. `unasked` is the option that does without:
    CommandError names it when there is no answer to read."""
    if args.json:
        console.note(question)
    else:
        console.print(question)
        console.flush()
    answer: bytes = console.stdin.readline()
    if not answer:
        raise CommandError("There is no answer to read, so nothing was removed.", hint=f"{unasked} removes unasked.")
    return answer.strip().lower() == b"y"
