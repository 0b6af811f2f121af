"""What kt monitor sends to other servers after each snapshot: alerts to webhooks, and metrics to a collector.

Senders have threads of their own, so that collecting never waits. What they report becomes events of the next view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.console import Console
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.monitor.alerts.alert import Notice
from kafkatools.tools.monitor.alerts.alert_states import AlertStates, Moment
from kafkatools.tools.monitor.alerts.payload import notice_event, payload
from kafkatools.tools.monitor.alerts.webhooks import Webhook
from kafkatools.tools.monitor.urls import HttpUrl
from kafkatools.tools.monitor.view import ClusterView, Event

if TYPE_CHECKING:
    from kafkatools.tools.monitor.metrics.otlp import OtlpSender

_LAST_MS, _ONCE_MS = 3000, 15_000
"""How long the end of the command waits for deliveries; with --once longer."""


class Outgoing:
    """The alerts of --alert and the senders of --webhook and --otlp. A context manager: its end waits shortly for
    deliveries. Raises CommandError without the packages of --otlp."""

    def __init__(self, console: Console, options: MonitorOptions) -> None:
        self._console = console
        self._patience_ms = _ONCE_MS if options.is_once else _LAST_MS
        self._states = AlertStates(options.alerts, options.repeat_ms)
        self._webhooks = [Webhook(url, console.clock) for url in options.webhooks]
        self._otlp = None if options.otlp is None else _otlp(options.otlp, console.clock.wall_ms())
        self._events: list[Event] = []
        self._cluster_id: str | None = None

    @property
    def _senders(self) -> list[tuple[str, Webhook | OtlpSender]]:
        """The senders, with the word that the kinds of their events begin with."""
        webhooks: list[tuple[str, Webhook | OtlpSender]] = [("webhook", webhook) for webhook in self._webhooks]
        return webhooks if self._otlp is None else [*webhooks, ("otlp", self._otlp)]

    def __enter__(self) -> Outgoing:
        for _, sender in self._senders:
            sender.start()
        return self

    def __exit__(self, *exc: object) -> None:
        until_ms = self._console.clock.now_ms() + self._patience_ms
        for _, sender in self._senders:
            sender.close(max(0, until_ms - self._console.clock.now_ms()))
        for _, sender in self._senders:
            for report in sender.reports():
                self._console.error(report.message)

    def take(self, view: ClusterView) -> ClusterView:
        """Send the alerts of a view. Return the view with its alerts, and their notices as further events."""
        self._cluster_id = view.cluster_id
        notices = self._states.advance(view, Moment(self._console.clock.now_ms(), view.time_ms))
        self._send(notices, view.time_ms)
        events, self._events = self._events, []
        for word, sender in self._senders:
            for report in sender.reports():
                kind = f"{word}-works" if report.is_working else f"{word}-failed"
                events.append(Event(view.time_ms, kind, report.message, cause=sender.name))
        if self._otlp is not None:
            self._otlp.publish(view, view.cluster_id, view.time_ms)
        return view._replace(events=(*view.events, *events), alerts=tuple(self._states.views()))

    def fail(self, error: KafkaError) -> None:
        """Send the alerts that a failed snapshot makes unknown. They become events of the next view."""
        moment = Moment(self._console.clock.now_ms(), self._console.clock.wall_ms())
        self._send(self._states.fail(str(error), moment), moment.wall_ms)
        if self._otlp is not None:
            self._otlp.publish(None, self._cluster_id, moment.wall_ms)

    def _send(self, notices: Sequence[Notice], time_ms: int) -> None:
        if notices:
            body = payload(notices, self._cluster_id, time_ms)
            for webhook in self._webhooks:
                webhook.post(body)
            self._events += [notice_event(notice) for notice in notices]


def _otlp(url: HttpUrl, started_ms: int) -> OtlpSender:
    from kafkatools.tools.monitor.metrics.otlp import OtlpSender

    try:
        return OtlpSender(url, started_ms)
    except ImportError as error:
        from kafkatools.core.install_command import install_command

        raise CommandError(f"--otlp needs the Python package {error.name}: {install_command('otlp')}") from None
