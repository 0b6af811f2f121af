"""The lines above the table: the state of the cluster, the views, and the path to the open place."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kafkatools.commands.monitor.terminal.catalogue import title_of
from kafkatools.commands.monitor.terminal.columns import cut
from kafkatools.commands.monitor.terminal.model import Model
from kafkatools.commands.monitor.terminal.places import TABS, Path
from kafkatools.commands.monitor.terminal.table_state import TableState
from kafkatools.output import visible
from kafkatools.tools.monitor.conditions import what_is_wrong
from kafkatools.tools.monitor.figures import local_time

LINES = 4
_TAB_NAMES = ("Overview", "Brokers", "Topics", "Groups", "Events", "Parts", "Lag", "Quorum", "Dirs")
_LATE_MS = 3000


def head_text(model: Model, interval_ms: int, now_ms: int, *, is_paused: bool, width: int) -> list[Text]:
    """Return two lines: the time of the snapshot and the id of the cluster, and the faults of the cluster."""
    view = model.view
    state = "PAUSED" if is_paused else f"every {interval_ms / 1000:g} s"
    first = Text(no_wrap=True)
    first.append("kt monitor  ", "bold")
    first.append(state, "bold yellow" if is_paused else "dim")
    age_ms = now_ms - view.clock_ms
    if age_ms > interval_ms + _LATE_MS:
        first.append(f"  {age_ms // 1000} s old", "bold yellow")
    first.append(f"  {local_time(view.time_ms)}  in {view.took_ms} ms  {visible(view.cluster_id or '-')}", "dim")
    return [_fitted(first, width), _fitted(_health(model, width), width)]


def _health(model: Model, width: int) -> Text:
    if model.error is not None:
        return Text(f"The last refresh failed: {visible(model.error)}", "bold red")
    wrong = what_is_wrong(model.view)
    firing = sum(alert.state == "firing" for alert in model.view.alerts)
    unknown = len(model.view.problems)
    notes = [f"{firing} alert{'s' if firing > 1 else ''} firing"] * bool(firing)
    notes += [f"{unknown} without data"] * bool(unknown)
    note = "".join(f"; {text}" for text in notes) + (" (see 5)" if notes or wrong else "")
    if not wrong:
        return Text("Healthy", "bold green").append(note, "bold red" if firing else "not bold yellow")
    return Text(_whole_items("Unhealthy: ", wrong, width - len(note)), "bold red").append(note)


def _whole_items(label: str, items: Sequence[str], width: int) -> str:
    """Return a list of items; those that do not fit are counted, since a cut one could show another number."""
    for count in range(len(items), 0, -1):
        more = len(items) - count
        line = label + ", ".join(items[:count]) + (f" and {more} more" if more else "")
        if len(line) <= width:
            break
    return line


def tabs_text(path: Path, width: int) -> Text:
    """Return the keys of the views; that of the open place is reversed."""
    text = Text(no_wrap=True)
    for (key, place), name in zip(TABS.items(), _TAB_NAMES, strict=True):
        is_open = path.places[0] == place
        text.append(f"{key} {name}", "reverse" if is_open else "")
        text.append(" ")
    return _fitted(text, width)


def path_text(path: Path, model: Model, state: TableState, hidden: tuple[int, int], width: int) -> Text:
    """Return the path to the open place, the position in its rows, the filter and the numbers of hidden columns."""
    notes = [_rows_note(state)]
    if state.filter_text:
        notes.append(f"/{visible(state.filter_text)}/")
    if hidden[0]:
        notes.append(f"← {hidden[0]}")
    if hidden[1]:
        notes.append(f"→ {hidden[1]}")
    note = "  ".join(notes)
    steps = " > ".join(path.titles.setdefault(place, title_of(place, model)) for place in path.places)
    steps = _last_part(steps, max(8, width - len(note) - 2))
    text = Text(no_wrap=True)
    text.append(steps, "bold")
    text.append("  " + note, "dim")
    return _fitted(text, width)


def _rows_note(state: TableState) -> str:
    shown = len(state.rows)
    if not shown:
        return f"0 of {state.count:,}" if state.count else ""
    total = f"{shown:,}" if shown == state.count else f"{shown:,} of {state.count:,}"
    return f"row {state.cursor + 1:,} of {total}"


def _last_part(text: str, width: int) -> str:
    """Return the end of a path, since the open place is its last step."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


def _fitted(text: Text, width: int) -> Text:
    if text.cell_len > width:
        if len(text.spans) <= 1:
            return Text(cut(text.plain, width), text.style, no_wrap=True)
        text.truncate(width, overflow="ellipsis")
    return text
