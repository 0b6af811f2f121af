"""Rules on combinations of options.

A rule looks at the set of long names given and returns Kafka's message when it is broken. Rules are checked in the
order of a command's table, so the order is the order in which Kafka's own tool complains.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol


class Rule(Protocol):
    """A rule on combinations of options."""

    def broken(self, given: Collection[str]) -> str | None:
        """Kafka's message when the options given (long names) break the rule, else None."""


class Refusal(NamedTuple):
    """`option` may not be used together with any of `others` (CommandLineUtils.checkInvalidArgs).

    With `when` the rule holds only if all of these are given too.
    """

    option: str
    others: tuple[str, ...]
    message: str = 'Option "[{option}]" can\'t be used with option "[{other}]"'
    when: tuple[str, ...] = ()

    def broken(self, given: Collection[str]) -> str | None:
        """The message, with {option} and {other} filled in."""
        if self.option not in given or not all(name in given for name in self.when):
            return None
        for other in self.others:
            if other in given:
                return self.message.format(option=self.option, other=other)
        return None


class Requirement(NamedTuple):
    """When all of `when` and none of `unless` are given, one of `any_of` has to be given too."""

    any_of: tuple[str, ...]
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    message: str = 'Missing required argument "[{option}]"'

    def broken(self, given: Collection[str]) -> str | None:
        """The message, with {option} = the first of `any_of`."""
        applies = all(name in given for name in self.when) and not any(name in given for name in self.unless)
        if not applies or any(name in given for name in self.any_of):
            return None
        return self.message.format(option=self.any_of[0])


class ExactlyOne(NamedTuple):
    """One and only one of `options` has to be given."""

    options: tuple[str, ...]
    message: str

    def broken(self, given: Collection[str]) -> str | None:
        """The message unless exactly one is given."""
        return None if sum(name in given for name in self.options) == 1 else self.message
