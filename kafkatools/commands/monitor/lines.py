"""Views of kt monitor as text: one line per view, or the tables of --once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.commands.monitor.tables import tables
from kafkatools.console import Console
from kafkatools.output import table, visible
from kafkatools.tools.monitor.figures import at_least, rate, stamp
from kafkatools.tools.monitor.measures import active_controllers
from kafkatools.tools.monitor.view import ClusterView


def summary(view: ClusterView) -> str:
    """Return the main figures of a view, always the same ones in the same order, without thousands separators."""
    totals = view.totals
    active = active_controllers(view)
    is_unknown = any(topic.has_unknown_ends for topic in view.topics)
    lag = at_least(totals.lag, totals.least_lag)
    under_min_isr = at_least(view.under_min_isr, totals.under_min_isr)
    controller = view.controller if active else "none" if active == 0 else "-"
    text = (
        f"brokers {totals.answering}/{totals.brokers} controller {controller} topics {totals.topics} "
        f"partitions {totals.partitions} offline {totals.offline} under-min-isr {under_min_isr} "
        f"under-replicated {totals.under_replicated} groups {totals.groups} lag {lag} "
        f"messages/s {rate(totals.messages_in, is_unknown=is_unknown)} "
        f"bytes/s {rate(totals.bytes_in, is_unknown=is_unknown)}"
    )
    return text.replace(",", "")


def line(view: ClusterView) -> str:
    """Return a view as one line: time, summary, number of events by kind, and missing data."""
    parts = [f"{stamp(view.time_ms)} {summary(view)}"]
    kinds = Counter(event.kind for event in view.events)
    if kinds:
        parts.append(", ".join(f"{number} {kind}" for kind, number in kinds.items()))
    parts += [visible(problem.message) for problem in view.problems]
    return "; ".join(parts)


def once_text(console: Console, view: ClusterView, options: MonitorOptions) -> Iterator[str]:
    """Yield the tables of --once with their titles. On a terminal, control characters in names are escaped."""
    cluster = view.cluster_id or "-"
    yield f"cluster {visible(cluster) if console.is_terminal else cluster}, {summary(view)}"
    for section in tables(view, options.sections, options.is_overview, view.events):
        if section.rows:
            rows = [row.cells for row in section.rows]
            text = table(section.headers, rows, terminal=console.is_terminal, width=console.width).rstrip("\n")
            yield f"\n{section.title}\n{text}"
        elif section.when_empty:
            yield f"\n{section.title}: {section.when_empty}"
