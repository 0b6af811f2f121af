"""How a command ended, as the shell sees it: 0 done, 1 failed, 2 usage, 3 findings, 130 interrupted."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit codes of every `kt` command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    FINDINGS = 3
    INTERRUPTED = 130
