"""Run the view with keys: the application on the main thread, the threads beside it, and the signals."""

from __future__ import annotations

import asyncio
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.commands.monitor.sections import SECTIONS
from kafkatools.commands.monitor.terminal.app import MonitorApp
from kafkatools.commands.monitor.terminal.collecting import CollectingThread, Ended, Parts, first_model
from kafkatools.commands.monitor.terminal.details import DetailsThread
from kafkatools.commands.monitor.terminal.diagnosis import Connection, diagnose
from kafkatools.commands.monitor.terminal.places import EVENTS, OVERVIEW, Place
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.monitor.view import ClusterView

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_END_S = 0.5
_WATCH_S = 0.5


class TerminalView:
    """The view with keys over a cluster. `run` shows it until the user or a condition of --fail-if ends it."""

    def __init__(self, parts: Parts, view: ClusterView, options: MonitorOptions, connection: Connection) -> None:
        model = first_model(parts, view)
        is_whole = options.is_overview or options.sections == SECTIONS
        first = EVENTS if options.sections[0] == "alerts" else options.sections[0]
        place = Place(OVERVIEW if is_whole else first)
        self.app = MonitorApp(
            model,
            place,
            options.interval_ms,
            parts.clock,
            diagnose=partial(diagnose, connection),
            request_details=lambda request: self._details.request(request),
            change_interval=lambda interval_ms: self._collecting.change_interval(interval_ms),
        )
        self._details = DetailsThread(connection.admin, self.app.report)
        self._connections = ExitStack()
        self._collecting = CollectingThread(parts, model, options.interval_ms, self.app.report, self._connections)

    @contextmanager
    def threads(self, connections: ExitStack) -> Iterator[None]:
        """Run the threads within the context; the connections are closed with the thread of the snapshots. A thread
        that waits for a broker is left behind after half a second; it ends with the process."""
        self._connections.push(connections.pop_all())
        self._collecting.start()
        self._details.start()
        try:
            yield
        finally:
            for thread in (self._collecting, self._details):
                thread.stop()
            for thread in (self._collecting, self._details):
                thread.join(_END_S)

    def run(self, connections: ExitStack) -> tuple[ExitStatus, Ended | None]:
        """Show the view on the terminal; return the exit status, and the reason if the snapshots ended. Raises the
        error that ended their thread."""
        with self.threads(connections), _signals_kept():
            status = asyncio.run(_shown(self.app))
        ended = self.app.ended
        if ended is not None and ended.error is not None:
            raise ended.error
        if ended is not None:
            status = ExitStatus.FINDINGS if ended.findings else ExitStatus.FAILED
        return status, ended


async def _shown(app: MonitorApp) -> ExitStatus:
    """Run the application; a signal ends it like Ctrl-C, so that the terminal is restored."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, app.action_interrupt)
    watch = loop.create_task(_watch_terminal(app))
    status = await app.run_async()
    watch.cancel()
    return ExitStatus.OK if status is None else status


async def _watch_terminal(app: MonitorApp) -> None:
    """End the application when its terminal is gone. Without a controlling terminal no signal says so, and Textual
    would read the end of its input again and again."""
    while True:
        await asyncio.sleep(_WATCH_S)
        try:
            termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0)
        except termios.error:
            app.action_interrupt()
            return


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the handlers of signals at the end."""
    before: dict[signal.Signals, Callable[..., object] | int | None] = {
        number: signal.getsignal(number) for number in _SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
