"""The commands of the metadata shell (org.apache.kafka.shell.command)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkatools.commands.metadata_shell.columns import in_columns
from kafkatools.console import Console
from kafkatools.tools.metadata_shell.nodes import Directory, Node, walk
from kafkatools.tools.metadata_shell.paths import FoundNode, find


class ShellCommand(NamedTuple):
    """A command: its one line of help, its arguments, the least and the greatest number of them, and whether it belongs
    to an interactive shell only."""

    about: str
    arguments: str = ""
    argument_about: str = ""
    least: int = 0
    most: int | None = 0
    is_interactive: bool = False


COMMANDS = {
    "cat": ShellCommand("Show the contents of metadata files.", "targets", "The metadata files to display.", 1, None),
    "cd": ShellCommand("Set the current working directory.", "target", "The directory to change to.", 0, 1, True),
    "exit": ShellCommand("Exit the metadata shell.", is_interactive=True),
    "find": ShellCommand("Search for nodes in the directory hierarchy.", "paths", "The paths to start at.", 0, None),
    "help": ShellCommand("Display this help message.", is_interactive=True),
    "history": ShellCommand("Print command history.", "numEntriesToShow", "The number of entries to show.", 0, 1, True),
    "ls": ShellCommand("List metadata nodes.", "targets", "The metadata node paths to list.", 0, None),
    "man": ShellCommand(
        "Show the help text for a specific command.", "cmd", "The command to get help text for.", 1, 1, True
    ),
    "pwd": ShellCommand("Print the current working directory.", is_interactive=True),
    "tree": ShellCommand(
        "Show the contents of metadata nodes in a tree structure.", "targets", "The metadata nodes to display.", 1, None
    ),
}
"""Name of a command -> what it takes."""


def split_line(line: str) -> list[str]:
    """Split a line into words, with quotes and backslashes before spaces. An unclosed quote ends with the line."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        return line.split()


class Shell:
    """Runs commands on a tree of nodes. `has_failed`: a command failed."""

    def __init__(self, console: Console, root: Directory, *, is_json: bool) -> None:
        self._console = console
        self._is_json = is_json
        self.root = root
        self.working_directory = "/"
        self.has_failed = False
        self.history: list[str] = []
        self._width: int | None = None
        self._commands: dict[str, Callable[[Sequence[str]], None]] = {
            "cat": self._cat,
            "cd": self._cd,
            "find": self._find,
            "help": self._help,
            "history": self._history,
            "ls": self._ls,
            "man": self._man,
            "pwd": self._pwd,
            "tree": self._tree,
        }

    def run_line(self, words: Sequence[str], width: int | None = None) -> bool:
        """Run a command of an interactive shell, with `ls` in columns of this width. Returns False for `exit`."""
        if words:
            self.history.append(" ".join(words))
        self._width = width
        return self.run(words, is_interactive=True)

    def run(self, words: Sequence[str], *, is_interactive: bool) -> bool:
        """Run a command. Returns False for `exit`."""
        words = [word for word in words if word] if words and not words[-1] else words
        if not words:
            return True
        name, arguments = words[0], words[1:]
        problem = _problem(name, arguments, is_interactive)
        if problem:
            self._fail(problem, "USAGE")
        elif name == "exit":
            return False
        else:
            self._commands[name](arguments)
        return True

    def _fail(self, message: str, kind: str = "NOT_FOUND", **fields: object) -> None:
        self.has_failed = True
        self._console.error(message, kind, **fields)

    def _each(self, patterns: Sequence[str], command: str, missing: str) -> list[tuple[str, FoundNode]]:
        """Return the nodes of each pattern. Prints those without one."""
        found = []
        for pattern in patterns:
            nodes = find(self.root, self.working_directory, pattern)
            found += [(pattern, node) for node in nodes]
            if not nodes:
                self._fail(f"{command}: {pattern}: {missing}", path=pattern)
        return found

    # -- the commands --

    def _ls(self, arguments: Sequence[str]) -> None:
        nodes = self._each(arguments or ["."], "ls", "no such file or directory.")
        if self._is_json:
            for _, found in nodes:
                children = found.node.sorted_names() if isinstance(found.node, Directory) else None
                self._console.print_json({"path": found.path, "children": children})
            return
        files = [found.name for _, found in nodes if not isinstance(found.node, Directory)]
        directories = [(found.name, found.node) for _, found in nodes if isinstance(found.node, Directory)]
        self._print_names(files)
        needs_title = bool(files) or len(directories) > 1
        is_first = not files
        for name, directory in directories:
            if not directory.sorted_names():
                continue
            if needs_title:
                self._console.print(f"{name}:" if is_first else f"\n{name}:")
            is_first = False
            self._print_names(directory.sorted_names())

    def _print_names(self, names: Sequence[str]) -> None:
        for line in in_columns(names, self._width):
            self._console.print(line)

    def _cat(self, arguments: Sequence[str]) -> None:
        for pattern, found in self._each(arguments, "cat", "No such file or directory."):
            if isinstance(found.node, Directory):
                self._fail(f"cat: {pattern}: Is a directory", path=found.path)
            else:
                self._console.print(found.node, {"path": found.path, "value": found.node})

    def _tree(self, arguments: Sequence[str]) -> None:
        for _, found in self._each(arguments, "tree", "No such file or directory."):
            if self._is_json:
                for path, node in walk(found.path, found.node):
                    if not isinstance(node, Directory):
                        self._console.print_json({"path": path, "value": node})
            else:
                self._print_tree(found.node, "")

    def _print_tree(self, node: Node, indent: str) -> None:
        if not isinstance(node, Directory):
            self._console.print(indent + node)
            return
        for name in node.sorted_names():
            child = node.child(name)
            if child is not None:
                self._console.print(f"{indent}{name}:")
                self._print_tree(child, indent + "  ")

    def _find(self, arguments: Sequence[str]) -> None:
        for pattern, found in self._each(arguments or ["."], "find", "no such file or directory."):
            for path, node in walk(found.path if self._is_json else pattern, found.node):
                self._console.print(path, {"path": path, "directory": isinstance(node, Directory)})

    def _cd(self, arguments: Sequence[str]) -> None:
        target = arguments[0] if arguments else "/"
        for _, found in self._each([target], "cd", "no such directory."):
            if isinstance(found.node, Directory):
                self.working_directory = found.path
            else:
                self._fail(f"cd: {target}: not a directory.", path=found.path)

    def _pwd(self, arguments: Sequence[str]) -> None:
        self._console.print(self.working_directory, {"path": self.working_directory})

    def _history(self, arguments: Sequence[str]) -> None:
        try:
            count = max(0, int(arguments[0])) if arguments else len(self.history)
        except ValueError:
            self._fail(f"argument numEntriesToShow: could not convert '{arguments[0]}' to a number", "USAGE")
            return
        for number, line in list(enumerate(self.history))[len(self.history) - min(count, len(self.history)) :]:
            self._console.print(f"{number: 5d}  {line}", {"number": number, "command": line})

    def _help(self, arguments: Sequence[str]) -> None:
        names = "{" + ",".join(COMMANDS) + "}"
        lines = ["Welcome to the Apache Kafka metadata shell.", "", f"usage:  {names} ...", "", "positional arguments:"]
        lines += [f"  {names}", *(f"    {name:<20} {command.about}" for name, command in COMMANDS.items())]
        rows = ({"command": name, "about": command.about} for name, command in COMMANDS.items())
        self._console.show(rows, lines)

    def _man(self, arguments: Sequence[str]) -> None:
        name = arguments[0]
        command = COMMANDS.get(name)
        if command is None:
            self._fail(f"man: unknown command {name}. Type help to get a list of commands.")
            return
        lines = [f"{name}: {command.about}", "", f"usage: {' '.join(filter(None, (name, _synopsis(command))))}"]
        if command.arguments:
            lines += ["", "positional arguments:", f"  {command.arguments:<22} {command.argument_about}"]
        self._console.show([{"command": name, "about": command.about}], lines)


def _synopsis(command: ShellCommand) -> str:
    name = command.arguments
    if command.most == 1:
        return name if command.least else f"[{name}]"
    if command.most == 0:
        return ""
    return f"{name} [{name} ...]" if command.least else f"[{name} [{name} ...]]"


def _problem(name: str, arguments: Sequence[str], is_interactive: bool) -> str:
    """Return what is wrong with a command line in the words of Kafka's shell; empty if nothing is."""
    names = [known for known, command in COMMANDS.items() if is_interactive or not command.is_interactive]
    if name not in names:
        longer = [known for known in names if known.startswith(name)]
        if len(longer) == 1:
            return f"invalid choice: '{name}': did you mean '{longer[0]}'?"
        choices = ", ".join(f"'{known}'" for known in names)
        return f"invalid choice: '{name}' (choose from {choices})"
    command = COMMANDS[name]
    options = [argument for argument in arguments if argument.startswith("-") and len(argument) > 1]
    if options:
        return f"unrecognized arguments: '{' '.join(options)}'"
    if len(arguments) < command.least:
        return "too few arguments"
    if command.most is not None and len(arguments) > command.most:
        return f"unrecognized arguments: '{' '.join(arguments[command.most :])}'"
    return ""
