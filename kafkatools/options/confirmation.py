"""The question before something is removed."""

from __future__ import annotations

from typing import Any

from kafkatools.exit_status import CommandError


def agrees_to_remove(console: Any, args: Any, question: str, unasked: str) -> bool:
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
