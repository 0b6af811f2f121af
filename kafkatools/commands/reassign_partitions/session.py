"""What the actions of `kt reassign-partitions` share: where they print, whom they ask, what is there now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.options.connection import connect_admin


class Session(NamedTuple):
    """What an action works with."""

    console: Console
    args: Args
    admin: AdminClient

    def print(self, text: str) -> None:
        """Text for the user; none with --json."""
        if not self.args.json:
            self.console.print(text)

    def print_json(self, row: Mapping[str, object]) -> None:
        """One line of --json."""
        if self.args.json:
            self.console.print_json(row)

    def complain(self, message: str, kind: str = "FAILED", **more: object) -> ExitStatus:
        """A failure, on stderr; with --json as one object. The exit status that it means."""
        self.console.error(message, kind, **more)
        return ExitStatus.FAILED

    def write_undo(self, plan: str) -> None:
        """Writes the plan that takes a change back to --undo-file. Raises CommandError."""
        if self.args.undo_file is not None:
            from kafkatools.tools.undo_files import write_undo_file

            write_undo_file(self.args.undo_file, [plan])


@contextmanager
def session(console: Console, args: Args) -> Iterator[Session]:
    """The session of a command line."""
    with connect_admin(console, args) as admin:
        yield Session(console, args, admin)


def still_moving(others: int) -> str:
    """How a note on other moves begins."""
    words = "partition is" if others == 1 else "partitions are"
    return f"{others} other {words} still being moved (see --list)"
