"""The view of `kt monitor` with keys on Textual's own terminal: keys are pressed, and the screen is read as text."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from textual import events
from textual.keys import REPLACED_KEYS, _get_unicode_name_from_key
from textual.pilot import Pilot

from kafkatools.commands.monitor.monitor_options import OVERVIEW, MonitorOptions
from kafkatools.commands.monitor.terminal.app import MonitorApp
from kafkatools.commands.monitor.terminal.collecting import Parts
from kafkatools.commands.monitor.terminal.diagnosis import Connection
from kafkatools.commands.monitor.terminal.run import TerminalView
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.collector import ClusterCollector

_STEP_S = 0.05
_STEPS = 600


def _character(key: str) -> str | None:
    """The character that a key types, as Pilot.press finds it."""
    try:
        return unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(key, key)))
    except KeyError:
        return key if len(key) == 1 else None


class Shown:
    """The view on a terminal of 80 columns and 24 lines, or of another size."""

    def __init__(self, app: MonitorApp, pilot: Pilot[ExitStatus]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        """The lines of the screen without trailing blanks."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        """The whole screen."""
        return "\n".join(self.lines)

    @property
    def rows(self) -> list[list[str]]:
        """The words of the rows of the table."""
        return [line.split() for line in self.lines[5:-1] if line]

    @property
    def header(self) -> list[str]:
        """The words of the header of the table."""
        return self.lines[4].split()

    @property
    def selected(self) -> str:
        """The selected row: the only one that is reversed."""
        for strip in self.app.screen._compositor.render_strips()[5:-1]:
            if any(segment.style is not None and segment.style.reverse for segment in strip):
                return "".join(segment.text for segment in strip).rstrip()
        return ""

    async def press(self, *keys: str) -> Shown:
        """Presses keys, one after the other; each is handled, with all messages that follow from it, before the next.

        `Pilot.press` waits after each key until the process uses no CPU, which a broker of the test in the same process
        may delay by a second."""
        driver = self.app._driver
        assert driver is not None
        for key in keys:
            event = events.Key(key, _character(key))
            event.set_sender(self.app)
            driver.send_message(event)
            await self._settle()
        return self

    async def _settle(self) -> None:
        """Waits until no part of the screen has a message to handle, and the screen is drawn."""
        while True:
            await self.pilot._wait_for_screen()
            await asyncio.sleep(0)
            parts = [self.app, *self.app.screen.walk_children(with_self=True)]
            if all(part._message_queue.empty() and not part._next_callbacks for part in parts):
                self.app.screen._on_timer_update()
                return

    async def type(self, text: str) -> Shown:
        """Presses the keys of a text."""
        names = {" ": "space", "[": "left_square_bracket", "(": "left_parenthesis", "|": "vertical_line", "-": "minus"}
        return await self.press(*(names.get(character, character) for character in text))

    async def until(self, condition: Callable[[], bool]) -> Shown:
        """Waits until the screen fulfils a condition; fails with the screen."""
        for _ in range(_STEPS):
            if condition():
                return self
            await self.pilot.pause(_STEP_S)
        raise AssertionError(f"the screen did not change:\n{self.text}")

    async def until_shown(self, *texts: str) -> Shown:
        """Waits until all the texts are on the screen."""
        return await self.until(lambda: all(text in self.text for text in texts))


def terminal_view(
    bootstrap: str,
    connections: ExitStack,
    *,
    interval_ms: int = 3_600_000,
    sections: tuple[str, ...] = (),
    patience_ms: int = 2000,
) -> TerminalView:
    """The view over a cluster, with a first snapshot."""
    clock = SystemClock()
    admin, aside, apart = (connections.enter_context(AdminClient(bootstrap, {}, clock)) for _ in range(3))
    collector, board = ClusterCollector(admin, aside, None, patience_ms, apart), Board()
    options = MonitorOptions(
        interval_ms, False, sections or OVERVIEW, not sections, (), (), False, (), None, None
    )  # fmt: skip

    def take(view: object) -> tuple[list[str], list[str]]:
        board.publish(view)  # type: ignore[arg-type]
        return [], []

    view = collector.collect()
    board.publish(view)
    parts = Parts(collector, board, take, clock, ())
    return TerminalView(parts, view, options, Connection(bootstrap, {}, clock))


def show(
    bootstrap: str,
    story: Callable[[Shown], Awaitable[object]],
    *,
    size: tuple[int, int] = (80, 24),
    interval_ms: int = 3_600_000,
    sections: tuple[str, ...] = (),
    patience_ms: int = 2000,
) -> MonitorApp:
    """Shows the view over a cluster, and runs a story on it; the application afterwards."""

    async def run(view: TerminalView) -> None:
        async with view.app.run_test(size=size) as pilot:
            await story(Shown(view.app, pilot))

    with ExitStack() as connections:
        view = terminal_view(
            bootstrap, connections, interval_ms=interval_ms, sections=sections, patience_ms=patience_ms
        )
        with view.threads(connections):
            asyncio.run(run(view))
    return view.app
