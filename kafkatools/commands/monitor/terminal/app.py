"""The application: keys, the path of places, and the messages of the threads.

All state of the screen belongs to the application's thread. A message of a thread replaces the model; a key changes the
path or the state of a table; both end in `_draw`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from kafkatools.commands.monitor.terminal import head
from kafkatools.commands.monitor.terminal.catalogue import VIEWS
from kafkatools.commands.monitor.terminal.collecting import Collected, Ended
from kafkatools.commands.monitor.terminal.details import DetailsRead, Request, needs_details
from kafkatools.commands.monitor.terminal.diagnosis import Diagnose
from kafkatools.commands.monitor.terminal.model import Details, Model
from kafkatools.commands.monitor.terminal.panels import Help, Panel
from kafkatools.commands.monitor.terminal.places import TABS, TOPIC, Path, Place
from kafkatools.commands.monitor.terminal.table import Table
from kafkatools.commands.monitor.terminal.table_state import TableState
from kafkatools.core.clock import Clock
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.diagnosis.observations import CLUSTER, Subject

INTERVALS_MS = (100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 3_600_000, 86_400_000)
"""The intervals that `+` and `-` choose from."""
_TICK_S = 1.0
_FOOT = "↵ open  Esc back  / filter  s sort  r reverse  w why  p pause  ? help  q quit"


class Arrived(Message):
    """A result of a thread."""

    def __init__(self, result: Collected | Ended | DetailsRead) -> None:
        super().__init__()
        self.result = result


class Answer(Message):
    """Lines of a diagnosis; `number` says of which one."""

    def __init__(self, number: int, title: str, lines: list[str]) -> None:
        super().__init__()
        self.number, self.title, self.lines = number, title, lines


class MonitorApp(App[ExitStatus]):
    """The view with keys. Returns OK after `q`, INTERRUPTED after Ctrl-C; `ended`: the reason if the snapshots ended.

    `request_details` is called when a place needs details, `change_interval` when the user changes the interval.
    """

    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    #head { height: 4; }
    Table { height: 1fr; }
    Panel { height: 45%; border-top: solid ansi_default; background: ansi_default; scrollbar-size-vertical: 1; }
    #foot { height: 1; }
    #filter-line { height: 1; display: none; }
    #filter-line Static { width: auto; }
    #filter-line Input { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    Help { align: center middle; }
    HelpText { width: 78; max-width: 100%; height: 90%; }
    HelpText { border: solid ansi_default; padding: 0 1; background: ansi_default; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "Table"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"tab('{key}')", show=False) for key in TABS),
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home,g", "move(-1000000000)", show=False),
        Binding("end,G", "move(1000000000)", show=False),
        Binding("right,l", "pan(1)", show=False),
        Binding("left,h", "pan(-1)", show=False),
        Binding("enter", "open", show=False),
        Binding("escape,backspace", "go_back", show=False),
        Binding("s", "sort(1)", show=False),
        Binding("S", "sort(-1)", show=False),
        Binding("r", "reverse", show=False),
        Binding("slash", "filter", show=False),
        Binding("w", "why", show=False),
        Binding("d", "describe", show=False),
        Binding("p", "pause", show=False),
        Binding("plus", "interval(1)", show=False),
        Binding("minus", "interval(-1)", show=False),
        Binding("question_mark", "help", show=False),
        Binding("q", "leave", show=False),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
    ]

    def __init__(
        self,
        model: Model,
        place: Place,
        interval_ms: int,
        clock: Clock,
        *,
        diagnose: Diagnose,
        request_details: Callable[[Request], object],
        change_interval: Callable[[int], object],
    ) -> None:
        super().__init__(ansi_color=True)
        self.ended: Ended | None = None
        self._model = model
        self._latest = model  # newer than the model while the screen is paused
        self._path = Path(place)
        self._states: dict[Place, TableState] = {}
        self._interval_ms = interval_ms
        self._clock = clock
        self._diagnose = diagnose
        self._request_details = request_details
        self._change_interval = change_interval
        self._details: tuple[Request, Details] | None = None
        self._is_paused = False
        self._former_filter = ""
        self._diagnosis = 0
        self._is_cancelled = threading.Event()

    def compose(self) -> ComposeResult:
        """Yield the lines above the table, the table, the panel, and the lowest line."""
        yield Static(Text(), id="head")
        yield Table()
        yield Panel()
        yield Static(Text(_FOOT, "dim", no_wrap=True, overflow="ellipsis"), id="foot")
        with Horizontal(id="filter-line"):
            yield Static(Text("/"))
            yield Input(select_on_focus=False, compact=True)
            yield Static(Text(), id="filter-error")

    def on_mount(self) -> None:
        """Draw the first model, and begin to show its age."""
        self._enter()
        self.set_interval(_TICK_S, self._draw_age)

    # -- results of threads --

    def report(self, result: Collected | Ended | DetailsRead) -> None:
        """Take the result of a thread; callable from any thread."""
        self._post(Arrived(result))

    @property
    def _is_gone(self) -> bool:
        """Return whether the widgets were removed: results and the timer may arrive while the application ends."""
        return not self.query(Table)

    def on_arrived(self, message: Arrived) -> None:
        """Show a snapshot or details; end when the snapshots ended."""
        result = message.result
        if isinstance(result, Ended):
            self.ended = result
            self.exit(ExitStatus.FAILED)
        elif self._is_gone:
            return
        elif isinstance(result, DetailsRead):
            self._details = (result.request, result.details)
            if not self._is_paused:
                self._refresh()
        else:
            self._latest = result.model
            if not self._is_paused:
                self._model = result.model
                self._ask_for_details()
                self._refresh()

    def _handle_exception(self, error: Exception) -> None:
        """End with an error of this program, which the main thread raises again. Textual would print a trace with all
        values, secrets among them."""
        if self.is_headless:  # a test
            super()._handle_exception(error)
        else:
            self.ended = Ended(error=error)
            self.exit(ExitStatus.FAILED)

    def _ask_for_details(self) -> None:
        request = self._wanted_details()
        if request is not None:
            self._request_details(request)

    def _wanted_details(self) -> Request | None:
        place = self._path.place
        if not needs_details(place):
            return None
        if place.view == TOPIC:
            topic = self._model.topics.get(place.name)
            return None if topic is None else Request(
                TOPIC, place.name, partitions=tuple(part.partition for part in topic.partitions)
            )  # fmt: skip
        group = self._model.groups.get(place.name)
        return None if group is None else Request("group", place.name, group.type)

    # -- drawing --

    @property
    def _state(self) -> TableState:
        place = self._path.place
        if place not in self._states:
            self._states[place] = TableState(VIEWS[place.view])
        return self._states[place]

    def _enter(self) -> None:
        """Show the place at the end of the path; forget the tables that no key leads back to."""
        kept = {*self._path.places, *TABS.values()}
        self._states = {place: state for place, state in self._states.items() if place in kept}
        for state in self._states.values():
            state.release()
        self._ask_for_details()
        self._refresh()

    def _refresh(self) -> None:
        """Take the rows of the model, and draw."""
        place = self._path.place
        model = self._with_details()
        self._state.refresh(model, VIEWS[place.view].rows(model, place.target))
        self._draw()

    def _with_details(self) -> Model:
        wanted = self._wanted_details()
        if self._details is None or wanted is None or self._details[0][:2] != wanted[:2]:
            return self._model
        return self._model.with_details(self._details[1])

    def _draw(self) -> None:
        place, state, table = self._path.place, self._state, self.query_one(Table)
        notice = VIEWS[place.view].when_empty(self._with_details(), place.target)
        if state.count:
            notice = "no row matches the filter; Esc removes it"
        table.show(state, notice)
        self._draw_head()

    def _draw_age(self) -> None:
        if not self._is_gone:
            self._draw_head()

    def _draw_head(self) -> None:
        width, now_ms = self.size.width, self._clock.now_ms()
        state, hidden = self._state, self.query_one(Table).hidden_columns
        lines = head.head_text(self._model, self._interval_ms, now_ms, is_paused=self._is_paused, width=width)
        lines.append(head.tabs_text(self._path, width))
        lines.append(head.path_text(self._path, self._with_details(), state, hidden, width))
        self.query_one("#head", Static).update(Text("\n", no_wrap=True).join(lines))

    def on_table_changed(self) -> None:
        """Draw the head again after the mouse changed the table."""
        self._draw_age()

    def on_table_opened(self) -> None:
        """Open a row that was clicked twice."""
        self.action_open()

    # -- places --

    def action_tab(self, key: str) -> None:
        """Show a view of the cluster."""
        self._close_panel()  # its text is of a row of the former view
        self._path = Path(TABS[key])
        self._enter()

    def action_open(self) -> None:
        """Open the place of the selected row."""
        item = self._state.selected
        place = None if item is None else self._state.view.opens(self._with_details(), item)
        if place is None:
            return
        self._close_panel()
        self._path.open(place)
        self._enter()

    def action_go_back(self) -> None:
        """Close the filter line or the panel, remove the filter, or go back, whichever is first."""
        if self._is_filtering:
            self._filter(self._former_filter)
            self._close_filter()
        elif self.query_one(Panel).display:
            self._close_panel()
        elif self._state.filter_text:
            self._filter("")
        elif self._path.back():
            self._enter()

    # -- rows and columns --

    def action_move(self, rows: int) -> None:
        """Select another row."""
        self._state.move(rows)
        self._draw()

    def action_page(self, pages: int) -> None:
        """Select the row a page further."""
        self._state.move(pages * self._state.page)
        self._draw()

    def action_pan(self, columns: int) -> None:
        """Show columns further to the right or left."""
        hidden = self.query_one(Table).hidden_columns
        if columns < 0 or hidden[1]:
            self._state.pan(columns)
            self._draw()

    def action_sort(self, step: int) -> None:
        """Sort by the next or previous column."""
        self._state.sort_by_next(step)
        self._draw()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._state.reverse()
        self._draw()

    # -- filter --

    @property
    def _is_filtering(self) -> bool:
        return bool(self.query_one("#filter-line").display)

    def action_filter(self) -> None:
        """Open the line for the filter."""
        self._former_filter = self._state.filter_text
        self.query_one("#foot").display = False
        self.query_one("#filter-line").display = True
        line = self.query_one(Input)
        line.value = self._former_filter
        line.cursor_position = len(line.value)
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        if self._is_filtering:
            self._filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and close its line, unless the expression is invalid."""
        if self._filter(event.value):
            self._close_filter()

    def _filter(self, text: str) -> bool:
        """Filter by an expression; return False and name the error in the line if it is invalid."""
        error = self.query_one("#filter-error", Static)
        try:
            self._state.filter(text)
        except re.error as invalid:
            error.update(Text(f" Not a regular expression: {invalid.msg}", "red"))
            return False
        error.update(Text())
        self._draw()
        return True

    def _close_filter(self) -> None:
        self.query_one("#filter-line").display = False
        self.query_one("#foot").display = True
        self.query_one(Table).focus()

    # -- diagnosis --

    def action_why(self) -> None:
        """Ask `kt why` about the selected row, or about the cluster without one; close the panel if it is open."""
        if self.query_one(Panel).display:
            self._close_panel()
            return
        item = self._state.selected
        subject = Subject(CLUSTER) if item is None else self._state.view.subject(item)
        self._is_cancelled.set()
        self._is_cancelled = threading.Event()
        self._diagnosis += 1
        title = f"kt why: {subject.text}"
        self.query_one(Panel).show(title, ["asking the brokers ..."])
        self.query_one(Panel).focus()
        number, is_cancelled = self._diagnosis, self._is_cancelled

        def ask() -> None:
            for lines in self._diagnose(subject, is_cancelled):
                self._post(Answer(number, title, lines))

        # A worker of Textual would hold the end of the program until the brokers have responded.
        threading.Thread(target=ask, name="monitor-why", daemon=True).start()

    def _post(self, message: Message) -> None:
        with suppress(RuntimeError):  # the application has ended
            self.post_message(message)

    def on_answer(self, message: Answer) -> None:
        """Show the lines of the diagnosis that is open."""
        if self._is_gone:
            return
        panel = self.query_one(Panel)
        if panel.display and message.number == self._diagnosis:
            panel.show(message.title, message.lines)

    def action_describe(self) -> None:
        """Show all cells of the selected row, whole; close the panel if it is open."""
        if self.query_one(Panel).display:
            self._close_panel()
            return
        cells = self._state.selected_cells()
        if cells:
            headers = [column.header for column in self._state.view.columns]
            width = max(map(len, headers)) + 2
            lines = [f"{header:{width}}{cell.text}" for header, cell in zip(headers, cells, strict=True)]
            self.query_one(Panel).show("All of the row", lines)
            self.query_one(Panel).focus()

    def _close_panel(self) -> None:
        self._is_cancelled.set()
        self._diagnosis += 1
        self.query_one(Panel).display = False
        self.query_one(Table).focus()

    # -- the rest --

    def action_pause(self) -> None:
        """Keep the screen as it is, or show the latest snapshot again."""
        self._is_paused = not self._is_paused
        if not self._is_paused:
            self._model = self._latest
        self._enter()

    def action_interval(self, step: int) -> None:
        """Choose the next longer or shorter interval."""
        if step > 0:
            choices = [value for value in INTERVALS_MS if value > self._interval_ms]
        else:
            choices = [value for value in reversed(INTERVALS_MS) if value < self._interval_ms]
        if choices:
            self._interval_ms = choices[0]
            self._change_interval(choices[0])
            self._draw_head()

    def action_help(self) -> None:
        """Explain keys and columns."""
        self.push_screen(Help(self._state.view))

    def action_leave(self) -> None:
        """End with exit status 0."""
        self._is_cancelled.set()
        self.exit(ExitStatus.OK)

    def action_interrupt(self) -> None:
        """End as after Ctrl-C elsewhere."""
        self._is_cancelled.set()
        self.exit(ExitStatus.INTERRUPTED)
