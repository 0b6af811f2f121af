"""What kt monitor sends to other servers after each snapshot: alerts to webhooks.

Senders have threads of their own, so that collecting never waits. What they report becomes events of the next view.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.console import Console
from kafkatools.core.errors import KafkaError
from kafkatools.tools.monitor.alerts.alert import Notice
from kafkatools.tools.monitor.alerts.alert_states import AlertStates, Moment
from kafkatools.tools.monitor.alerts.payload import notice_event, payload
from kafkatools.tools.monitor.alerts.webhooks import Webhook
from kafkatools.tools.monitor.view import ClusterView, Event

_LAST_MS, _ONCE_MS = 3000, 15_000
"""How long the end of the command waits for deliveries; with --once longer."""


class Outgoing:
    """The alerts of --alert and the senders of --webhook. A context manager: its end waits shortly for deliveries."""

    def __init__(self, console: Console, options: MonitorOptions) -> None:
        self._console = console
        self._patience_ms = _ONCE_MS if options.is_once else _LAST_MS
        self._states = AlertStates(options.alerts, options.repeat_ms)
        self._webhooks = [Webhook(url, console.clock) for url in options.webhooks]
        self._events: list[Event] = []
        self._cluster_id: str | None = None

    def __enter__(self) -> Outgoing:
        for webhook in self._webhooks:
            webhook.start()
        return self

    def __exit__(self, *exc: object) -> None:
        until_ms = self._console.clock.now_ms() + self._patience_ms
        for webhook in self._webhooks:
            webhook.close(max(0, until_ms - self._console.clock.now_ms()))
        for webhook in self._webhooks:
            for report in webhook.reports():
                self._console.error(report.message)

    def take(self, view: ClusterView) -> ClusterView:
        """Send the alerts of a view. Return the view with its alerts, and their notices as further events."""
        self._cluster_id = view.cluster_id
        notices = self._states.advance(view, Moment(self._console.clock.now_ms(), view.time_ms))
        self._send(notices, view.time_ms)
        events, self._events = self._events, []
        for webhook in self._webhooks:
            for report in webhook.reports():
                kind = "webhook-works" if report.is_working else "webhook-failed"
                events.append(Event(view.time_ms, kind, report.message))
        return view._replace(events=(*view.events, *events), alerts=tuple(self._states.views()))

    def fail(self, error: KafkaError) -> None:
        """Send the alerts that a failed snapshot makes unknown. They become events of the next view."""
        moment = Moment(self._console.clock.now_ms(), self._console.clock.wall_ms())
        self._send(self._states.fail(str(error), moment), moment.wall_ms)

    def _send(self, notices: Sequence[Notice], time_ms: int) -> None:
        if notices:
            body = payload(notices, self._cluster_id, time_ms)
            for webhook in self._webhooks:
                webhook.post(body)
            self._events += [notice_event(notice) for notice in notices]
