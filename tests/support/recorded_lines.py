"""Lines that tests record as a user property, printed at the end of the run, also from the workers of pytest-xdist."""

from typing import Any


def print_recorded(terminalreporter: Any, name: str) -> None:
    """Print the lines that tests recorded under a property name."""
    reports = [report for each in terminalreporter.stats.values() for report in each if hasattr(report, "when")]
    for report in reports:
        for recorded_name, line in getattr(report, "user_properties", ()):
            if recorded_name == name and report.when == "call":
                terminalreporter.write_line(f"{name} {line}")
