"""The parsed values of a command line, which both parsers fill."""

from __future__ import annotations

from typing import Any

from kafkatools.options.cluster_profile import Profile
from kafkatools.options.indirect_settings import IndirectSettings
from kafkatools.options.table import Command, Option, all_options, attribute_name


class Args:
    """The parsed values of one command line, as attributes such as `bootstrap_server`. An option that is not given has
    its default: an empty list if repeatable, False if it takes no value. A subcommand also has the options before it. A
    name that is no option of the command raises AttributeError. `profile` is the cluster of `kt --profile`, if any,
    `target_profile` that of --to-profile, and `indirect` resolves references in settings of files."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.profile: Profile | None = None
        self.target_profile: Profile | None = None
        self.indirect = IndirectSettings({})
        self.operands: list[str] = []
        self.is_positional = False
        self._option_names: list[str] = []
        self._outer: Args | None = None
        self._values: dict[str, Any] = {}
        for option in all_options(command):
            if not option.value:
                self._values[option.key] = False
            elif option.repeatable:
                self._values[option.key] = []
            else:
                self._values[option.key] = option.default

    @property
    def operand(self) -> str | None:
        """The first operand, None when there is none."""
        return self.operands[0] if self.operands else None

    @property
    def has_room_for_operand(self) -> bool:
        """Return whether the command takes one more operand than the command line has so far."""
        placeholders = self.command.operand
        return len(self.operands) < len(placeholders.split()) or placeholders.endswith("...")

    def __getattr__(self, name: str) -> Any:
        values: dict[str, Any] = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        outer = self.__dict__.get("_outer")
        if outer is not None:
            return getattr(outer, name)
        raise AttributeError(f"the command has no option --{name.replace('_', '-')}")

    def has_option(self, name: str) -> bool:
        """Return whether the option is on the command line; `name` with or without leading dashes. For a subcommand,
        options before it do not count."""
        return attribute_name(name) in {attribute_name(option_name) for option_name in self._option_names}

    def option_names(self) -> list[str]:
        """Return the long names of the options on the command line, in order, a repeated one each time. For a
        subcommand, without the options before it."""
        return list(self._option_names)

    def option_with(self, text: str) -> str | None:
        """Return the long name of the first option on the command line with this text in its value, None if there is
        none. For a subcommand, the options before it count too."""
        for name in self._option_names:
            if _has_text(self._values[attribute_name(name)], text):
                return name
        return self._outer.option_with(text) if self._outer is not None else None

    def stand_behind(self, outer: Args) -> None:
        """Make the values of the options before this subcommand its own attributes too. `--json` before the subcommand
        counts as given here."""
        self._outer = outer
        self._values["json"] = self._values["json"] or outer.json

    def note(self, option: Option, text: str | None) -> None:
        """Store one occurrence of an option with its converted value; a repeatable option collects a list. `text` None:
        no value was typed, so an option with a value gets `implied`. Raises ValueError for an invalid value."""
        value: object = True
        if option.value:
            value = option.implied if text is None else option.type(text)
        self._option_names.append(option.long)
        if option.value and option.repeatable:
            self._values[option.key].append(value)
        else:
            self._values[option.key] = value


def _has_text(value: object, text: str) -> bool:
    """Return whether an option's value, or one of its values or of their parts, has this text."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_has_text(part, text) for part in value)
    return isinstance(value, str) and text in value
