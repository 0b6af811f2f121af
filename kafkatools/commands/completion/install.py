"""kt completion --install and --uninstall: put the completion script where a shell looks for it.

| Shell | Script | Line added at the end of |
|---|---|---|
| bash | `bash-completion/completions/kt` in XDG_DATA_HOME | `~/.bashrc`, without the package bash-completion |
| zsh | `kafkatools/kt.zsh` in XDG_DATA_HOME | `.zshrc` in ZDOTDIR or HOME |
| fish | `fish/completions/kt.fish` in XDG_CONFIG_HOME | none: fish loads the script |

Rules: an added line ends with a mark, by which --uninstall finds it. A script that kt did not write is never replaced
or removed. Each changed file is named on stdout.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.console import Console
from kafkatools.core.atomic_file import replace
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args

_MARK = "# added by kt completion --install"
_HEADER = "; made by `kt completion --shell"
_BASH_COMPLETION = (
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/etc/profile.d/bash_completion.sh",
    "/usr/local/etc/profile.d/bash_completion.sh",
)
"""Where the package bash-completion is installed; its scripts load those of the user when they are needed."""


class Place(NamedTuple):
    """Where the script of a shell belongs, the start-up file of the shell if it has to load the script, and the line
    that does; an empty line if the shell finds the script."""

    script: str
    startup_file: str | None = None
    line: str = ""


Change = tuple[str, str, str]
"""What was done, to which file, and the line that was added."""


def run_install(console: Console, args: Args, script: Callable[[str], str]) -> ExitStatus:
    """Install the script of one shell or uninstall those of all. Raises UsageError for an unknown shell, CommandError
    for a foreign file in the script's place, OSError."""
    places = _places(console)
    if args.uninstall:
        changes = [change for place in places.values() for change in _uninstall(place)]
        _report(console, changes)
        if not (changes or console.is_json):
            console.note("Nothing was installed.")
        return ExitStatus.OK
    shell = args.shell or os.path.basename(console.environ.get("SHELL", ""))
    if shell not in places:
        raise UsageError(
            f"Unsupported shell '{shell}'; completions exist for {', '.join(places)}", "Name one with --shell."
        )
    _report(console, _install(places[shell], script(shell)))
    if not console.is_json:
        console.note("It works in each new shell. Undo: kt completion --uninstall")
    return ExitStatus.OK


def _places(console: Console) -> dict[str, Place]:
    environ = console.environ
    home = environ.get("HOME") or os.path.expanduser("~")
    data = environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    bash = os.path.join(data, "bash-completion", "completions", "kt")
    source = "" if any(map(os.path.exists, _BASH_COMPLETION)) else f"source {shlex.quote(bash)}"
    zsh = os.path.join(data, "kafkatools", "kt.zsh")
    zshrc = os.path.join(environ.get("ZDOTDIR") or home, ".zshrc")
    load = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }; "
    return {
        "bash": Place(bash, os.path.join(home, ".bashrc"), source),
        "zsh": Place(zsh, zshrc, f"{load}source {shlex.quote(zsh)}"),
        "fish": Place(os.path.join(config, "fish", "completions", "kt.fish")),
    }


def _install(place: Place, text: str) -> list[Change]:
    """Write the script and add the line that loads it. Returns what was changed: (action, file)."""
    if os.path.lexists(place.script) and not _is_ours(place.script):
        raise CommandError(f"{place.script} exists and was not written by kt", hint="Move it away, and try again.")
    os.makedirs(os.path.dirname(place.script), exist_ok=True)
    replace(place.script, text.encode())
    changes = [("wrote", place.script, "")]
    if place.startup_file is not None and place.line not in _text(place.startup_file):
        before = _text(place.startup_file)
        separator = "" if not before or before.endswith("\n") else "\n"
        _rewrite(place.startup_file, f"{before}{separator}{place.line}  {_MARK}\n")
        changes.append(("added a line at the end of", place.startup_file, place.line))
    return changes


def _uninstall(place: Place) -> list[Change]:
    changes: list[Change] = []
    if os.path.isfile(place.script) and _is_ours(place.script):
        os.unlink(place.script)
        changes.append(("removed", place.script, ""))
    if place.startup_file is not None and _MARK in _text(place.startup_file):
        lines = _text(place.startup_file).splitlines(keepends=True)
        _rewrite(place.startup_file, "".join(line for line in lines if not line.rstrip().endswith(_MARK)))
        changes.append(("removed a line from", place.startup_file, ""))
    return changes


def _is_ours(path: str) -> bool:
    return _HEADER in _text(path)[:200]


def _text(path: str) -> str:
    """The text of a file; empty if there is none. Bytes that are no UTF-8 are kept by `_rewrite`."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def _rewrite(path: str, text: str) -> None:
    """Replace a start-up file, or the file that it is a link to, with its permissions."""
    real = os.path.realpath(path)
    mode = os.stat(real).st_mode & 0o777 if os.path.exists(real) else 0o644
    replace(real, text.encode("utf-8", "surrogateescape"), mode)


def _report(console: Console, changes: list[Change]) -> None:
    for action, path, line in changes:
        text = f"{action.capitalize()} {path}" + (f": {line}" if line else "")
        console.print(text, {"action": action, "file": path, "line": line or None})
