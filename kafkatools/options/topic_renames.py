"""The topics of a restore and their names in the target: --topic and --rename."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kafkatools.core.topic_names import is_topic_name
from kafkatools.exit_status import CommandError, UsageError
from kafkatools.options.hints import did_you_mean_name


def target_names(available: Iterable[str], topics: Sequence[str], rules: Sequence[str]) -> dict[str, str]:
    """Return the target names by source name. Raises UsageError for an invalid rule or name, CommandError for a topic
    that the backup lacks."""
    known = list(available)
    for name in topics:
        if name not in known:
            raise CommandError(f"The backup has no topic {name}", hint=did_you_mean_name(name, known))
    selected = [name for name in known if not topics or name in topics]
    renaming = [_parse(rule, selected) for rule in rules]
    names: dict[str, str] = {}
    for name in selected:
        target = next((new for pattern, text in renaming if (new := _renamed(name, pattern, text)) is not None), name)
        if not is_topic_name(target):
            raise UsageError(f"--rename gives topic {name} the name '{target}', which is not a valid topic name")
        if target in names.values():
            other = next(source for source, taken in names.items() if taken == target)
            raise UsageError(f"--rename gives the topics {other} and {name} the same name {target}")
        names[name] = target
    return names


def _parse(rule: str, selected: Sequence[str]) -> tuple[re.Pattern[str] | str, str]:
    """Parse OLD=NEW to a name and a text, s/REGEX/REPLACEMENT/ to a pattern and a text. Raises UsageError."""
    if len(rule) > 1 and rule[0] == "s" and not rule[1].isalnum() and rule[1] not in "=_.-":
        parts = rule[2:].split(rule[1])
        if len(parts) != 3 or parts[2] or not parts[0]:
            raise UsageError(f"--rename takes s/REGEX/REPLACEMENT/, not '{rule}'")
        try:
            pattern = re.compile(parts[0])
            pattern.sub(parts[1], "")
        except (re.error, IndexError) as error:
            raise UsageError(f"--rename '{rule}': {error}") from None
        if not any(pattern.search(name) for name in selected):
            raise UsageError(f"--rename '{rule}' matches none of the topics to restore")
        return pattern, parts[1]
    old, equals, new = rule.partition("=")
    if not equals or not old or not new:
        raise UsageError(f"--rename takes OLD=NEW or s/REGEX/REPLACEMENT/, not '{rule}'")
    if old not in selected:
        raise UsageError(
            f"--rename '{rule}': {old} is not among the topics to restore", did_you_mean_name(old, selected)
        )
    return old, new


def _renamed(name: str, pattern: re.Pattern[str] | str, text: str) -> str | None:
    """Return the new name, None if the rule does not apply."""
    if isinstance(pattern, str):
        return text if name == pattern else None
    whole = pattern.match(name)
    if whole is not None and whole.group() == name:
        return whole.expand(text)  # sub would also replace the empty match of `.*` at the end
    return pattern.sub(text, name) if pattern.search(name) else None
