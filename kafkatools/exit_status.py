"""How a command ended, as the shell sees it: 0 done, 1 failed, 2 usage, 3 findings, 130 interrupted.

The two exceptions are the ways for a command to end early with words for the user: `UsageError` for what was typed,
`CommandError` for what went wrong. Everything else that a command lets through (KafkaError, OSError) is turned into a
line and a status by kafkatools/cli.py.
"""

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit codes of every `kt` command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    FINDINGS = 3
    INTERRUPTED = 130


class UsageError(Exception):
    """The command line cannot be carried out as typed: nothing was done, exit status 2.

    `hint` is a second line of advice.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CommandError(Exception):
    """The command failed.

    One line on stderr (`error_prefix` of the command in front) and exit status 1 unless another is given.
    """

    def __init__(self, message: str, status: ExitStatus = ExitStatus.FAILED, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint
