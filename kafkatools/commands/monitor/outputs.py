"""Outputs of kt monitor on stdout: JSON (--json), tables (--once), lines, or the screen of `screen.py`.

An Output is a context manager. `show` gets each view with the findings of --fail-if, `fail` the error of a refresh.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.commands.monitor.lines import line, once_text
from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.console import Console
from kafkatools.core.errors import KafkaError
from kafkatools.tools.monitor.changes import FAILED_KINDS, OUTGOING_KINDS
from kafkatools.tools.monitor.json_form import view_json
from kafkatools.tools.monitor.view import ClusterView


class Output:
    """Prints one line per view."""

    def __init__(self, console: Console, options: MonitorOptions) -> None:
        self.console = console
        self.options = options

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, view: ClusterView, findings: Sequence[str], unknowns: Sequence[str]) -> None:
        """Print a view of the cluster, and the conditions of --fail-if that hold or are unknown."""
        self.console.print(line(view))
        for event in view.events:
            if event.kind in OUTGOING_KINDS:
                self.console.error(event.message)
        self.report_findings([*findings, *unknowns])

    def fail(self, error: KafkaError) -> None:
        """Print why a refresh of the view failed."""
        self.console.error(f"Error while monitoring: {error}", error.name)

    def report_findings(self, findings: Sequence[str]) -> None:
        """Print conditions of --fail-if that hold or are unknown on stderr."""
        for text in findings:
            self.console.error(text)


class JsonOutput(Output):
    """Prints a JSON object per view, which includes the findings."""

    def show(self, view: ClusterView, findings: Sequence[str], unknowns: Sequence[str]) -> None:
        self.console.print_json(view_json(view, findings, unknowns))
        for event in view.events:
            if event.kind in FAILED_KINDS:
                self.console.error(event.message)


class TablesOutput(Output):
    """Prints the only view of --once as tables, and missing data on stderr."""

    def show(self, view: ClusterView, findings: Sequence[str], unknowns: Sequence[str]) -> None:
        for text in once_text(self.console, view, self.options):
            self.console.draw(text + "\n")
        for problem in view.problems:
            self.console.error(f"No data: {problem.message}")
        self.report_findings([*findings, *unknowns])
