"""Where views go on stdout: objects (--json), tables (--once), lines (no terminal), or the screen of `screen.py`.

An Output is entered, shown one view after the other with the texts of what --fail-if found, told of looks that failed,
and left.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.commands.monitor.lines import line, once_text
from kafkatools.commands.monitor.wanted import Wanted
from kafkatools.console import Console
from kafkatools.core.errors import KafkaError
from kafkatools.tools.monitor.json_form import view_json
from kafkatools.tools.monitor.view import ClusterView


class Output:
    """Lines: one for each view."""

    def __init__(self, console: Console, wanted: Wanted) -> None:
        self.console = console
        self.wanted = wanted

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, view: ClusterView, findings: Sequence[str], unknowns: Sequence[str]) -> None:
        """Show a view, with the conditions that hold or are unknown."""
        self.console.print(line(view))
        self.tell([*findings, *unknowns])

    def fail(self, error: KafkaError) -> None:
        self.console.error(f"Error while monitoring: {error}", error.name)

    def tell(self, findings: Sequence[str]) -> None:
        for text in findings:
            self.console.error(text)


class JsonOutput(Output):
    """An object for each view; what holds is in it."""

    def show(self, view: ClusterView, findings: Sequence[str], unknowns: Sequence[str]) -> None:
        self.console.print_json(view_json(view, findings, unknowns))


class TablesOutput(Output):
    """Tables, for a view that is the only one; what was not told follows on stderr."""

    def show(self, view: ClusterView, findings: Sequence[str], unknowns: Sequence[str]) -> None:
        for text in once_text(self.console, view, self.wanted):
            self.console.draw(text + "\n")
        for problem in view.problems:
            self.console.error(f"No data: {problem.message}")
        self.tell([*findings, *unknowns])
