"""The choice of an Output by options and stdout."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.commands.monitor.outputs import JsonOutput, Output, TablesOutput
from kafkatools.commands.monitor.wanted import Wanted
from kafkatools.console import Console
from kafkatools.tools.monitor.board import Board


def output(console: Console, as_json: bool, wanted: Wanted, board: Board, addresses: Sequence[str]) -> Output:
    """Return the Output for these options: JSON, tables, the screen on a terminal, else lines."""
    if as_json:
        return JsonOutput(console, wanted)
    if wanted.is_once:
        return TablesOutput(console, wanted)
    if console.is_terminal and console.environ.get("TERM") != "dumb":
        from kafkatools.commands.monitor.screen import Screen

        return Screen(console, wanted, board, addresses)
    return Output(console, wanted)
