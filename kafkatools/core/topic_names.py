"""The rule for names of topics (Kafka's Topic.validate)."""

from __future__ import annotations

_MAX_LENGTH = 249
_LEGAL_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def topic_name_problem(name: str) -> str | None:
    """Return Kafka's message for a name that no topic can have, None for a valid name."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > _MAX_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {_MAX_LENGTH}"
    if not _LEGAL_CHARACTERS.issuperset(name):
        characters = "one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        return f"Topic name is invalid: '{name}' contains {characters}"
    return None


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have this name."""
    return topic_name_problem(name) is None
