"""Calls of a plugin's functions: what they raise, and results of a wrong type, become an error that names the plugin.

Rules: SystemExit counts as an exception of the plugin, since it would end the thread that called without an error.
KeyboardInterrupt is the user's and passes. Messages are the first line of what the plugin raised, without secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from kafkatools.core.entry_points import EntryPoint
from kafkatools.core.secrets import redacted

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class PluginCalls:
    """The calls of one plugin. `error` makes the exception for a message; classes in `passes` are raised unchanged."""

    point: EntryPoint
    error: Callable[[str], Exception]
    passes: tuple[type[Exception], ...] = ()

    def call(self, function: Callable[P, R], /, *arguments: P.args, **named: P.kwargs) -> R:
        """Call a function of the plugin and return its result. Raises `error` for an exception of the plugin."""
        try:
            return function(*arguments, **named)
        except self.passes:
            raise
        except (Exception, SystemExit) as error:  # the code of others: it may raise anything
            raise self.error(failure(self.point, error)) from error

    def checked(self, name: str, result: object, kind: type[T]) -> T:
        """Return the result of the plugin's function `name` if it is of this class. Raises `error` otherwise."""
        if isinstance(result, kind):
            return result
        raise self.wrong(name, result, kind.__name__)

    def wrong(self, name: str, result: object, expected: str) -> Exception:
        """Make the error for a result that is not what the interface requires. It shows the type, as the value may be
        a secret."""
        returned = "None" if result is None else f"a value of type {type(result).__name__}"
        return self.error(f"{self.point} failed: {name} returned {returned}, not {expected}")


def failure(point: EntryPoint | str, error: BaseException) -> str:
    """Describe an exception of a plugin in one line."""
    lines = str(error).splitlines()
    return redacted(f"{point} failed: {type(error).__name__}{': ' if lines else ''}{lines[0] if lines else ''}")
