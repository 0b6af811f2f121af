"""kt shims: create links with the names of Kafka's scripts, so that runbooks with `kafka-topics.sh` run unchanged.

Rules: each name is a symbolic link to the program `kt`, which goes by the name it was started with (see
`kafkatools/__main__.py`). All names are checked before the first link is created. A file that is no link to a `kt` is
neither overwritten nor removed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkatools.commands import KAFKA_SCRIPTS
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, Command, Option

if TYPE_CHECKING:
    from kafkatools.console import Console

_PROGRAM = "kt"
_SUFFIX = ".sh"
MISSING_SCRIPTS = {
    "kafka-jmx.sh": "",
    "kafka-run-class.sh": "",
    "connect-distributed.sh": "",
    "connect-mirror-maker.sh": "kt copy",
    "connect-plugin-path.sh": "",
    "connect-standalone.sh": "",
    "trogdor.sh": "",
}
"""Scripts of Apache Kafka 4.3 without a command of the same name here -> the command for a part of the task, if any."""


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt shims: create the links in a directory, or with --remove remove them. Raises UsageError without a
    directory, CommandError for names that other files have, OSError."""
    if not args.operand:
        raise UsageError("kt shims needs a directory for the links", "For example: kt shims ~/kafka-bin")
    directory = os.path.abspath(os.path.expanduser(args.operand))
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise CommandError(f"{directory} is not a directory")
    if args.remove:
        return _remove(console, directory)
    names = [*KAFKA_SCRIPTS, *(_without_suffix(KAFKA_SCRIPTS) if args.without_sh else ())]
    program = _program(console)
    _ensure_free(directory, names)
    os.makedirs(directory, exist_ok=True)
    changed = [name for name in names if _link(console, directory, name, program)]
    if not console.is_json:
        kept = f", {len(names) - len(changed)} were there" if len(changed) < len(names) else ""
        console.print(f"{directory}: {_links(len(changed))} to {program} created{kept}")
    _report_missing(console)
    _report_path(console, directory)
    return ExitStatus.OK


def _links(count: int) -> str:
    return "1 link" if count == 1 else f"{count} links"


def _without_suffix(names: Iterable[str]) -> list[str]:
    return [name.removesuffix(_SUFFIX) for name in names]


def _program(console: Console) -> str:
    """The path of the program `kt`: the one that runs, else the one beside this Python or in PATH. Raises
    CommandError."""
    beside_python = os.path.join(os.path.dirname(sys.executable), _PROGRAM)
    candidates = (sys.argv[0], beside_python, shutil.which(_PROGRAM, path=console.environ.get("PATH", "")))
    for path in filter(None, candidates):
        if os.path.basename(path) == _PROGRAM and os.access(path, os.X_OK) and os.path.isfile(path):
            return os.path.abspath(path)
    raise CommandError("The program kt, the target of the links, was not found", hint="Install it with: pip install .")


def _is_shim(path: str) -> bool:
    """Return whether a path is a link to a program `kt`, even one that was uninstalled meanwhile."""
    return os.path.islink(path) and os.path.basename(os.readlink(path)) == _PROGRAM


def _ensure_free(directory: str, names: Iterable[str]) -> None:
    paths = [os.path.join(directory, name) for name in names]
    others = [path for path in paths if os.path.lexists(path) and not _is_shim(path)]
    if others:
        more = f", and {len(others) - 1} more of these names" if len(others) > 1 else ""
        raise CommandError(
            f"{others[0]} exists and is not a link to kt{more}; nothing was created",
            hint="Choose another directory, and put it before this one in PATH.",
        )


def _link(console: Console, directory: str, name: str, program: str) -> bool:
    """Create or redirect one link. Returns False for a link that leads to the program already."""
    path = os.path.join(directory, name)
    is_there = os.path.islink(path) and os.readlink(path) == program
    if not is_there:
        if os.path.islink(path):
            os.unlink(path)
        os.symlink(program, path)
    if console.is_json:
        command = KAFKA_SCRIPTS[name if name.endswith(_SUFFIX) else name + _SUFFIX]
        console.print_json({"name": name, "command": command, "path": path, "created": not is_there})
    return not is_there


def _report_missing(console: Console) -> None:
    """Name the scripts without a link; JSON rows have `path` null."""
    if console.is_json:
        for name, command in MISSING_SCRIPTS.items():
            console.print_json({"name": name, "command": command or None, "path": None, "created": False})
        return
    texts = [f"{name} (see {command})" if command else name for name, command in MISSING_SCRIPTS.items()]
    console.print("No link, as kt has no such tool: " + ", ".join(texts))


def _report_path(console: Console, directory: str) -> None:
    """Print how to have the links found first, unless they are."""
    first = shutil.which(next(iter(KAFKA_SCRIPTS)), path=console.environ.get("PATH", ""))
    if first is not None and os.path.dirname(os.path.abspath(first)) == directory:
        return
    if first is not None:
        console.note(f"{first} comes first in PATH, so the links are not used yet")
    import shlex

    console.note(f"To use the links in this shell: export PATH={shlex.quote(directory)}:$PATH")


def _remove(console: Console, directory: str) -> ExitStatus:
    """Remove the links to `kt` that have names of Kafka's scripts. Raises CommandError for a missing directory."""
    if not os.path.isdir(directory):
        raise CommandError(f"{directory} is not a directory")
    paths = [os.path.join(directory, name) for name in (*KAFKA_SCRIPTS, *_without_suffix(KAFKA_SCRIPTS))]
    shims = [path for path in paths if _is_shim(path)]
    for path in shims:
        os.unlink(path)
        if console.is_json:
            console.print_json({"name": os.path.basename(path), "path": path, "removed": True})
    if not console.is_json:
        console.print(f"{directory}: {_links(len(shims))} to kt removed")
    others = [path for path in paths if os.path.lexists(path)]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        console.note(f"Left in place, not links to kt: {others[0]}{more}")
    return ExitStatus.OK


COMMAND = Command(
    "shims",
    "Create links named like Kafka's scripts, so that runbooks with kafka-topics.sh run unchanged.",
    (
        Option("--without-sh", "Also create the names without .sh: kafka-topics beside kafka-topics.sh."),
        Option("--remove", "Remove the links from the directory. Other files stay."),
    ),
    run,
    operand="DIRECTORY",
    examples=("kt shims ~/kafka-bin", "kt shims ~/kafka-bin --without-sh", "kt shims ~/kafka-bin --remove"),
)
