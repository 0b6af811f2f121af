"""Data of the web page: /view.json with a summary of everything in view, and /history.json.

The page sorts and searches on its own, so it gets a short row for each topic and group, up to a bound. Their
partitions, members and settings come on demand (`details.py`).
"""

from __future__ import annotations

from kafkatools.tools.monitor import history, json_form
from kafkatools.tools.monitor.alerts.alert import State
from kafkatools.tools.monitor.assessment import catches_up_s, is_in_trouble, ordered_topics, partition_notes
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.causes import Finding, findings
from kafkatools.tools.monitor.view import AlertView, ClusterView, GroupView, PartitionView, Problem, TopicView

MOST_TOPICS = 10_000
MOST_GROUPS = 10_000
MOST_ALERTS = 10_000
_PROBLEM_EXAMPLES = 20
_MOST_PROBLEMS = 100


def page_data(board: Board) -> dict[str, object]:
    """Return the page's JSON object; `error` is the last snapshot's error. Before the first view it is the only key."""
    view, error = board.last
    if view is None:
        return {"error": error or "there is no view yet"}
    troubled = [part for part in view.partitions if is_in_trouble(part)]
    groups = sorted(view.groups, key=lambda group: (-group.least_lag, group.group_id))
    return {
        "error": error,
        **json_form.head_json(view),
        "brokers": json_form.brokers_json(view),
        "quorum": json_form.quorum_json(view.quorum),
        "findings": [_finding(one) for one in findings(view, troubled)],
        "incidents": board.incidents(),
        "topics": [_topic(topic) for topic in ordered_topics(view)[:MOST_TOPICS]],
        "groups": [_group(view, group) for group in groups[:MOST_GROUPS]],
        "alerts": json_form.alerts_json(sorted(view.alerts, key=_urgency)[:MOST_ALERTS]),
        "alerts_left_out": max(0, len(view.alerts) - MOST_ALERTS),
        "problems": _problems(view),
    }


def _urgency(alert: AlertView) -> int:
    return (State.FIRING, State.UNKNOWN, State.PENDING).index(State(alert.state))


def _finding(finding: Finding) -> dict[str, object]:
    fields = finding._asdict()
    return {**fields, "partitions": [_troubled(part) for part in finding.partitions]}


def _troubled(part: PartitionView) -> list[object]:
    return [part.topic, part.partition, partition_notes(part)]


def _topic(topic: TopicView) -> dict[str, object]:
    row = json_form.topic_json(topic)
    del row["topic_id"]
    return row


def _group(view: ClusterView, group: GroupView) -> dict[str, object]:
    row = json_form.group_json(group)
    del row["topics"]
    return {**row, "catches_up_s": catches_up_s(view, group)}


def _problems(view: ClusterView) -> list[dict[str, object]]:
    """Return what was not reported, collapsed by broker and error."""
    by_cause: dict[tuple[int, str], list[Problem]] = {}
    for problem in view.problems:
        by_cause.setdefault((problem.broker, problem.error), []).append(problem)
    return [
        {
            "broker": broker if broker >= 0 else None,
            "error": error,
            "count": len(problems),
            "what": [problem.what for problem in problems[:_PROBLEM_EXAMPLES]],
        }
        for (broker, error), problems in list(by_cause.items())[:_MOST_PROBLEMS]
    ]


def history_data(board: Board, kind: str, name: str) -> dict[str, object]:
    """Return the JSON object of /history.json: the points of the last hour of a thing."""
    series = board.history(kind, name)
    return {
        "kind": kind,
        "name": name,
        "kept": series.is_kept,
        "kept_ms": history.KEPT_MS,
        "step_ms": history.STEP_MS,
        "times": series.times_ms,
        "series": series.values,
        "not_kept": board.not_kept(),
    }
