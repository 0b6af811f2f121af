"""Data of the web page: /view.json, with the partitions of the selected topic only, and the charts' history.

Lists that could have thousands of rows are cut; their full length is included.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.tools.monitor import json_form
from kafkatools.tools.monitor.assessment import catches_up_s, is_in_trouble, ordered_topics, partition_notes
from kafkatools.tools.monitor.board import Board, Point
from kafkatools.tools.monitor.json_form import group_json, partition_json
from kafkatools.tools.monitor.view import ClusterView

_EVENTS = 50
_TROUBLED = 100
_ROWS = 500
_TOPICS = 1000
_COLUMNS = 8
_CHARTS = 3


def page_data(board: Board, topic: str) -> dict[str, object]:
    """Return the page's JSON object; `error` is the last snapshot's error. Before the first view it is the only key."""
    view, error = board.last
    if view is None:
        return {"error": error or "there is no view yet"}
    troubled = [part for part in view.partitions if is_in_trouble(part)]
    groups = sorted(view.groups, key=lambda group: (-group.least_lag, group.group_id))
    points = board.points()
    return {
        "error": error,
        **json_form.head_json(view),
        "brokers": json_form.brokers_json(view),
        "quorum": json_form.quorum_json(view.quorum),
        "topics": [json_form.topic_json(topic_view) for topic_view in ordered_topics(view)[:_TOPICS]],
        "groups": [{**group_json(group), "catches_up_s": catches_up_s(view, group)} for group in groups[:_ROWS]],
        "troubled": [
            {**json_form.partition_json(part), "notes": partition_notes(part)} for part in troubled[:_TROUBLED]
        ],
        "troubled_count": len(troubled),
        "events": json_form.events_json(board.events(_EVENTS)),
        "problems": json_form.problems_json(view.problems),
        "history": [_point(point) for point in points],
        "topic": _topic(view, topic, points),
    }


def _point(point: Point) -> list[float | int | None]:
    return [point.time_ms, point.messages_in, point.bytes_in, point.lag, point.under_replicated]


def _topic(view: ClusterView, name: str, points: Sequence[Point]) -> dict[str, object] | None:
    """Return the selected topic with its groups' lags and the charts' history; None when it does not exist."""
    topic_view = next((topic for topic in view.topics if topic.name == name), None)
    if topic_view is None:
        return None
    lags: dict[int, dict[str, int | None]] = {}
    for group in view.groups:
        for part in group.partitions or ():
            if part.topic == name:
                lags.setdefault(part.partition, {})[group.group_id] = part.lag
    groups = sorted({group for by_group in lags.values() for group in by_group})
    groups.sort(key=lambda group: -sum(by_group.get(group) or 0 for by_group in lags.values()))
    return {
        "topic": name,
        "partitions": [
            {**partition_json(part), "notes": partition_notes(part), "lags": lags.get(part.partition, {})}
            for part in topic_view.partitions[:_ROWS]
        ],
        "partition_count": len(topic_view.partitions),
        "groups": groups[:_COLUMNS],
        "group_count": len(groups),
        "history": [
            [point.time_ms, point.topics.get(name, 0), [point.lag_of(group, name) for group in groups[:_CHARTS]]]
            for point in points
        ],
    }
