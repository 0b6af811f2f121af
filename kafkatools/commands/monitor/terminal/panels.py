"""The panel of a diagnosis and the page of help."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kafkatools.commands.monitor.terminal.views import View
from kafkatools.output import visible

_SCROLLING = (Binding("j", "scroll_down", show=False), Binding("k", "scroll_up", show=False))


class Panel(VerticalScroll):
    """Lines of text below the table, hidden until there are some."""

    BINDINGS = list(_SCROLLING)

    def __init__(self) -> None:
        super().__init__()
        self._body = Static(Text())
        self.display = False

    def compose(self) -> ComposeResult:
        """Yield the text."""
        yield self._body

    def show(self, title: str, lines: Sequence[str]) -> None:
        """Show lines below a title."""
        text = Text(visible(title), "bold")
        for line in lines:
            text.append("\n" + visible(line), "not bold")
        self._body.update(text)
        self.display = True


KEYS = (
    ("1 ... 9", "overview, brokers, topics, groups, events, partitions,"),
    ("", "lag, quorum, log directories"),
    ("↑ ↓  j k", "select a row; PgUp, PgDn, Home, End further"),
    ("← →", "show other columns; the first one stays"),
    ("Enter", "open the row: broker, topic, partition, group, member"),
    ("Esc Backspace", "back"),
    ("s  S", "sort by the next, the previous column; or click on one"),
    ("r", "reverse the order"),
    ("/", "filter by text or a regular expression; Enter keeps it,"),
    ("", "Esc removes it"),
    ("w", "what kt why says of the row; Esc closes it"),
    ("d", "show all of the row, with what does not fit"),
    ("p", "pause the screen; --fail-if, --web and metrics go on"),
    ("+  -", "refresh less often, more often"),
    ("?", "this help"),
    ("q", "quit; Ctrl-C too, with exit status 130"),
)
"""The keys and their effects."""


class Help(ModalScreen[None]):
    """The keys, and the headers of the open view."""

    AUTO_FOCUS = "HelpText"
    BINDINGS = [Binding(key, "dismiss", show=False) for key in ("escape", "backspace", "question_mark", "q", "enter")]

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def compose(self) -> ComposeResult:
        """Yield the text."""
        with HelpText():
            yield Static(_help_text(self._view))


class HelpText(VerticalScroll):
    """The scrolling text of the help."""

    BINDINGS = list(_SCROLLING)


def _help_text(view: View) -> Text:
    text = Text("Keys (Esc closes this)\n", "bold")
    for keys, about in KEYS:
        text.append(f"{keys:15}", "bold").append(f"{about}\n", "not bold")
    explained = [column for column in view.columns if column.about]
    if explained:
        text.append(f"\nColumns of {view.title}\n", "bold")
        for column in explained:
            text.append(f"{column.header:15}", "bold").append(f"{column.about}\n", "not bold")
    text.append("\n? is unknown, >=N the known part of a sum, - is nothing yet or does not apply.", "not bold")
    return text
