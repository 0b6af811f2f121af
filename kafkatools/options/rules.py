"""Rules on combinations of options.

A rule gets the long names of the options on the command line and returns Kafka's message when they break it. A
command's rules are checked in table order, the order of Kafka's own tool.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol


class Rule(Protocol):
    """A rule on combinations of options."""

    def violation(self, option_names: Collection[str]) -> str | None:
        """Return Kafka's message when the options (long names) break the rule, else None."""


class Refusal(NamedTuple):
    """`option` excludes all `others` (CommandLineUtils.checkInvalidArgs), if all of `when` are given."""

    option: str
    others: tuple[str, ...]
    message: str = 'Option "[{option}]" can\'t be used with option "[{other}]"'
    when: tuple[str, ...] = ()

    def violation(self, option_names: Collection[str]) -> str | None:
        """Return the message with {option} and {other} filled in when the rule is broken, else None."""
        if self.option not in option_names or not all(name in option_names for name in self.when):
            return None
        for other in self.others:
            if other in option_names:
                return self.message.format(option=self.option, other=other)
        return None


class Requirement(NamedTuple):
    """One of `any_of` is required when all of `when` and none of `unless` are given; without `when` and `unless`, in
    any case."""

    any_of: tuple[str, ...]
    when: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    message: str = 'Missing required argument "[{option}]"'

    def violation(self, option_names: Collection[str]) -> str | None:
        """Return the message with the first of `any_of` as {option} when the rule is broken, else None."""
        applies = all(name in option_names for name in self.when) and not any(
            name in option_names for name in self.unless
        )
        if not applies or any(name in option_names for name in self.any_of):
            return None
        return self.message.format(option=self.any_of[0])


class ExactlyOne(NamedTuple):
    """Exactly one of `options` is required, unless one of `unless` is given."""

    options: tuple[str, ...]
    message: str
    unless: tuple[str, ...] = ()

    def violation(self, option_names: Collection[str]) -> str | None:
        """Return the message unless exactly one of the rule's options is on the command line."""
        if any(name in option_names for name in self.unless):
            return None
        return None if sum(name in option_names for name in self.options) == 1 else self.message
