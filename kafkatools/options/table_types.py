"""The types of the fields of a plugin's Command, which help, completion and parsing rely on.

Commands of `kt` are checked by mypy; the command of a plugin may come from code without type checks.
"""

from __future__ import annotations

from kafkatools.options.table import Command, Option

_UNCHECKED = frozenset(("implied", "default"))
"""Fields that may hold any value."""
_ITEMS: dict[str, type] = {"options": Option, "subcommands": Command, "rules": object}
"""Fields that are tuples of something else than texts."""
_FUNCTIONS = frozenset(("run", "type"))


def mistyped_field(entry: Command | Option) -> str:
    """Return the description of the first field with a wrong type, in the options and subcommands too; empty if all
    are right."""
    kind = type(entry)
    for name, value in entry._asdict().items():
        problem = _problem(name, value, kind._field_defaults.get(name, ""))
        if problem:
            return f"{name} of the {kind.__name__} {entry.name!r} is {problem}"
    if isinstance(entry, Option):
        return ""
    parts: tuple[Command | Option, ...] = (*entry.options, *entry.subcommands)
    return next(filter(None, (mistyped_field(part) for part in parts)), "")


def _problem(name: str, value: object, default: object) -> str:
    if name in _UNCHECKED:
        return ""
    if name in _FUNCTIONS:
        return "" if callable(value) or value is None is default else f"{_called(value)}, not a function"
    if not isinstance(value, type(default)):
        return f"{_called(value)}, not a {type(default).__name__}"
    kind = _ITEMS.get(name, str)
    wrong = [item for item in value if not isinstance(item, kind)] if isinstance(value, tuple) else []
    return f"a tuple with {_called(wrong[0])}, not of {kind.__name__}" if wrong else ""


def _called(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
