"""The JSON that webhooks get; docs/json/monitor.md lists the keys."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kafkatools.tools.monitor.alerts.alert import Kind, Notice
from kafkatools.tools.monitor.view import Event

VERSION = 1
_LINES = 20
"""Notices in `text`; chats cut or refuse long texts."""

_SIGNS = {Kind.FIRING: "FIRING", Kind.REPEATED: "STILL FIRING", Kind.RESOLVED: "RESOLVED", Kind.UNKNOWN: "UNKNOWN"}


def payload(notices: Sequence[Notice], cluster_id: str | None, time_ms: int) -> bytes:
    """Return the body of a POST with the notices of one snapshot; `text` is what chats such as Slack show."""
    lines = [f"{_SIGNS[notice.kind]}: {_chat_text(notice.text)}" for notice in notices[:_LINES]]
    if len(notices) > _LINES:
        lines.append(f"and {len(notices) - _LINES} more")
    cluster = f"kt monitor, cluster {cluster_id}" if cluster_id is not None else "kt monitor"
    body = {
        "version": VERSION,
        "source": "kt monitor",
        "cluster_id": cluster_id,
        "time": time_ms,
        "text": "\n".join([cluster, *lines]),
        "alerts": [notice_json(notice) for notice in notices],
    }
    return json.dumps(body).encode()


def _chat_text(text: str) -> str:
    """Return text that chats such as Slack show as it is: `<` would begin a link or a mention (`<!channel>`), and a
    group's name comes from its members."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def notice_json(notice: Notice) -> dict[str, object]:
    """Return a notice as a JSON object."""
    condition, reading, place = notice.alert.condition, notice.reading, notice.place
    topic, partition = (None, None) if reading is None or reading.partition is None else reading.partition
    return {
        "alert": condition.text,
        "state": notice.kind.value,
        "message": notice.text,
        "measure": condition.measure,
        "value": None if reading is None else reading.value,
        "value_at_least": None if reading is None or reading.value is not None else reading.lower_bound,
        "threshold": condition.amount if condition.comparison else None,
        "reason": reading.reason or None if reading is not None else None,
        "group": place.group,
        "topic": topic,
        "partition": partition,
        "broker": place.broker,
        "directory": place.directory,
        "detail": reading.detail or None if reading is not None else None,
        "since": notice.since_ms,
        "time": notice.time_ms,
    }


def notice_event(notice: Notice) -> Event:
    """Return a notice as an event of the view."""
    topic, partition = (None, None) if notice.reading is None else notice.reading.partition or (None, None)
    return Event(
        notice.time_ms, f"alert-{notice.kind.value}", notice.text, topic, partition, notice.place.broker,
        notice.place.group, f"alert {notice.alert.condition.text}",
    )  # fmt: skip
