"""The thread that takes the snapshots while the view with keys is shown.

It owns the collector and the board's writing side from its start on, and closes the connections at its end. `_lock`
guards interval and end; the collector is used by this thread alone. A cluster that is away may hold the thread for
some seconds, so nobody waits for its end: it is a daemon.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple, Protocol

from kafkatools.commands.monitor.terminal.model import Model
from kafkatools.core.clock import Clock
from kafkatools.core.errors import AuthenticationFailed, KafkaError
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.view import ClusterView

_EVENTS = 500

Take = Callable[[ClusterView], tuple[Sequence[str], Sequence[str]]]
"""Publishes a view on the board; returns the conditions of --fail-if that hold, and those that are unknown."""


class Collects(Protocol):
    """A source of snapshots, such as ClusterCollector."""

    def collect(self) -> ClusterView:
        """Return the next view. Raises KafkaError."""


class Collected(NamedTuple):
    """A refresh succeeded, or failed with `model.error`."""

    model: Model


class Ended(NamedTuple):
    """The snapshots ended: conditions of --fail-if hold or are unknown, or an error that is not one of a refresh."""

    findings: Sequence[str] = ()
    unknowns: Sequence[str] = ()
    error: BaseException | None = None


class Parts(NamedTuple):
    """The collaborators of the thread; `take` gets each view, `failed` the error of each failed snapshot. `addresses`:
    lines with the addresses of --web."""

    collector: Collects
    board: Board
    take: Take
    clock: Clock
    addresses: tuple[str, ...] = ()
    failed: Callable[[KafkaError], object] = lambda error: None


def first_model(parts: Parts, view: ClusterView) -> Model:
    """Return the model of the first snapshot."""
    return Model(view, addresses=parts.addresses).prepare()


class CollectingThread(threading.Thread):
    """Takes a snapshot every `interval_ms` after the first one; `report` gets the results, on this thread."""

    def __init__(
        self,
        parts: Parts,
        first: Model,
        interval_ms: int,
        report: Callable[[Collected | Ended], object],
        connections: ExitStack,
    ) -> None:
        super().__init__(name="monitor-snapshots", daemon=True)
        self._parts = parts
        self._model = first
        self._report = report
        self._connections = connections
        self._lock = threading.Condition()
        self._interval_ms = interval_ms
        self._is_stopped = False

    @property
    def interval_ms(self) -> int:
        """The ms between the beginnings of two snapshots."""
        with self._lock:
            return self._interval_ms

    def change_interval(self, interval_ms: int) -> None:
        """Set the interval; counts from the last snapshot on."""
        with self._lock:
            self._interval_ms = interval_ms
            self._lock.notify()

    def stop(self) -> None:
        """End after the present snapshot. Returns at once."""
        with self._lock:
            self._is_stopped = True
            self._lock.notify()

    def run(self) -> None:
        """Take snapshots until `stop`, or until a condition of --fail-if ends them."""
        with self._connections:
            try:
                clock = self._parts.clock
                started_ms = clock.now_ms() - self._model.view.took_ms
                while self._wait(started_ms):
                    started_ms = clock.now_ms()
                    if not self._run_once():
                        return
            except BaseException as error:  # noqa: BLE001 (a thread's end: the main thread raises it again)
                self._report(Ended(error=error))

    def _run_once(self) -> bool:
        """Take and report a snapshot; return False if it is the last one. Raises AuthenticationFailed."""
        board, last = self._parts.board, self._model
        try:
            view = self._parts.collector.collect()
        except AuthenticationFailed:
            raise
        except KafkaError as error:
            board.fail(str(error))
            self._parts.failed(error)
            self._model = Model(last.view, last.before, last.events, str(error), addresses=last.addresses)
            self._report(Collected(self._model.prepare()))
            return True
        findings, unknowns = self._parts.take(view)
        view = board.last[0] or view  # with alerts
        events = tuple(board.events(_EVENTS))
        before = last.view._replace(groups=())  # whose commits would be a third of the memory
        self._model = Model(view, before, events, addresses=last.addresses).prepare()
        self._report(Collected(self._model))
        if findings or unknowns:
            self._report(Ended(findings, unknowns))
            return False
        return True

    def _wait(self, started_ms: int) -> bool:
        """Wait for the next snapshot; return False if there is none."""
        with self._lock:
            while not self._is_stopped:
                left_ms = started_ms + self._interval_ms - self._parts.clock.now_ms()
                if left_ms <= 0:
                    return True
                self._lock.wait(left_ms / 1000)
            return False
