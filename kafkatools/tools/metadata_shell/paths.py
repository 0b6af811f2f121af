"""Paths in the tree of nodes: `.`, `..`, and the patterns `*`, `?` and `{a,b}` (GlobVisitor, GlobComponent)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkatools.tools.metadata_shell.nodes import Directory, Node


class FoundNode(NamedTuple):
    """A node and the names on its path from the root."""

    names: tuple[str, ...]
    node: Node

    @property
    def path(self) -> str:
        """The absolute path."""
        return "/" + "/".join(self.names)

    @property
    def name(self) -> str:
        """The last name of the path; `/` for the root."""
        return self.names[-1] if self.names else "/"


def absolute_names(working_directory: str, path: str) -> list[str]:
    """Return the names of a path from the root, without `.` and `..`."""
    names: list[str] = []
    for name in (path if path.startswith("/") else f"{working_directory}/{path}").split("/"):
        if name == "..":
            names = names[:-1]
        elif name not in ("", "."):
            names.append(name)
    return names


def find(root: Directory, working_directory: str, pattern: str) -> list[FoundNode]:
    """Return the nodes whose paths match a pattern, in sorted order."""
    return list(_matches(FoundNode((), root), absolute_names(working_directory, pattern)))


def _matches(found: FoundNode, patterns: Sequence[str]) -> Iterator[FoundNode]:
    if not patterns:
        yield found
        return
    if not isinstance(found.node, Directory):
        return
    expression = _expression(patterns[0])
    names = [patterns[0]] if expression is None else found.node.sorted_names()
    for name in names:
        if expression is None or expression.fullmatch(name):
            child = found.node.child(name)
            if child is not None:
                yield from _matches(FoundNode((*found.names, name), child), patterns[1:])


def _expression(pattern: str) -> re.Pattern[str] | None:
    """Return the regular expression of a pattern; None for a literal name, and for a group that is nested or not
    closed, which Kafka's shell takes literally."""
    parts: list[str] = []
    in_group = is_literal = False
    is_literal = True
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            parts.append(re.escape(next(characters, "\\")))
        elif character in "?*":
            is_literal = False
            parts.append("." if character == "?" else ".*")
        elif character == "{":
            if in_group:
                return None
            is_literal, in_group = False, True
            parts.append("(?:(?:")
        elif character == "," and in_group:
            parts.append(")|(?:")
        elif character == "}" and in_group:
            in_group = False
            parts.append("))")
        else:
            parts.append(re.escape(character))
    if in_group or is_literal:
        return None
    return re.compile("".join(parts), re.DOTALL)


def completions(root: Directory, working_directory: str, prefix: str) -> list[str]:
    """Return the paths that begin with a prefix, one level deep; directories end with a slash (CommandUtils)."""
    before, slash, last = prefix.rpartition("/")
    node: Node | None = root
    for name in absolute_names(working_directory, before + slash if slash else "."):
        node = node.child(name) if isinstance(node, Directory) else None
    if not isinstance(node, Directory):
        return []
    return [
        before + slash + name + ("/" if isinstance(node.child(name), Directory) else "")
        for name in node.sorted_names()
        if name.startswith(last)
    ]
