"""The displays of kt monitor that this terminal allows: the view with keys, the screen without keys, or lines."""

from __future__ import annotations

from importlib.util import find_spec

from kafkatools.console import Console
from kafkatools.core.install_command import install_command

EXTRA = f"Keys and details: {install_command('monitor')}"
"""The line that names the extra if it is missing."""


def has_screen(console: Console) -> bool:
    """Return whether stdout is a terminal that can be redrawn."""
    return console.is_terminal and console.environ.get("TERM") != "dumb"


def has_textual() -> bool:
    """Return whether Textual, which the view with keys needs, is installed."""
    return find_spec("textual") is not None


def has_keys(console: Console, *, as_json: bool, is_once: bool) -> bool:
    """Return whether to show the view with keys. It reads keys from stdin and draws on stderr, so both have to be the
    terminal too."""
    if as_json or is_once or not has_screen(console):
        return False
    return console.is_input_terminal and console.is_error_terminal and has_textual()
