"""Exit statuses of `kt` commands: 0 done, 1 failed, 2 usage, 3 findings, 130 interrupted.

A command ends early with an error for the user by raising `UsageError` (an invalid command line) or `CommandError` (a
failure). kafkatools/cli.py turns these and other exceptions (KafkaError, OSError) into an error line and a status.
"""

from enum import IntEnum, unique


@unique
class ExitStatus(IntEnum):
    """The exit statuses of every `kt` command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    FINDINGS = 3
    INTERRUPTED = 130


class UsageError(Exception):
    """The command line is invalid and nothing was done: exit status 2. `hint`: a second line of advice."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CommandError(Exception):
    """The command failed: one line on stderr after the command's `error_prefix`, and exit status 1 unless `status`
    differs. `hint`: a second line of advice. `kind`: the error's kind with --json, such as Kafka's name of it."""

    def __init__(
        self, message: str, status: ExitStatus = ExitStatus.FAILED, hint: str = "", kind: str = "FAILED"
    ) -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint
        self.kind = kind
