"""Console, options and client that the actions of kt reassign-partitions share."""

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
    """Console, options and AdminClient of one action."""

    console: Console
    args: Args
    admin: AdminClient

    def print(self, text: str) -> None:
        """Print text, unless --json."""
        if not self.args.json:
            self.console.print(text)

    def print_json(self, row: Mapping[str, object]) -> None:
        """Print a row, only with --json."""
        if self.args.json:
            self.console.print_json(row)

    def complain(self, message: str, kind: str = "FAILED", **fields: object) -> ExitStatus:
        """Print a failure on stderr, and return the exit status FAILED."""
        self.console.error(message, kind, **fields)
        return ExitStatus.FAILED

    def write_undo(self, plan: str) -> None:
        """Write a plan that reverts the change to --undo-file, if that is used. Raises CommandError."""
        if self.args.undo_file is not None:
            from kafkatools.tools.undo_files import write_undo_file

            write_undo_file(self.args.undo_file, [plan])


@contextmanager
def open_session(console: Console, args: Args) -> Iterator[Session]:
    """Connect to the cluster of the command line within the context, whose value is the Session."""
    with connect_admin(console, args) as admin:
        yield Session(console, args, admin)


def still_moving(count: int) -> str:
    """Return the beginning of a note on other active reassignments."""
    words = "partition is" if count == 1 else "partitions are"
    return f"{count} other {words} still being moved (see --list)"
