"""JSON of a snapshot: the output of --json and the parts of the web page's /view.json. docs/json/monitor.md lists the
keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.admin.quorum import MetadataQuorum
from kafkatools.tools.monitor.conditions import what_is_wrong
from kafkatools.tools.monitor.view import AlertView, ClusterView, Event, GroupView, PartitionView, Problem, TopicView

_TOTALS = {"least_lag": "lag_at_least", "messages_in": "messages_per_second", "bytes_in": "bytes_per_second"}
"""Fields of Totals with another key in JSON."""


def view_json(view: ClusterView, findings: Sequence[str], unknowns: Sequence[str]) -> dict[str, object]:
    """Return a snapshot with its findings and unknown conditions as a JSON object."""
    return {
        **head_json(view),
        "brokers": brokers_json(view),
        "topics": [topic_json(topic) for topic in view.topics],
        "partitions": [partition_json(part) for part in view.partitions],
        "quorum": quorum_json(view.quorum),
        "groups": [group_json(group) for group in view.groups],
        "events": events_json(view.events),
        "alerts": alerts_json(view.alerts),
        "problems": problems_json(view.problems),
        "findings": list(findings),
        "unknown": list(unknowns),
    }


def head_json(view: ClusterView) -> dict[str, object]:
    """Return time, cluster id, controller, faults and totals of a snapshot."""
    totals = {**view.totals._asdict()}
    if not view.is_min_isr_known:
        totals |= {"under_min_isr": None, "at_min_isr": None}
    if view.why_no_moves:
        totals["moving"] = None
    return {
        "time": view.time_ms,
        "took_ms": view.took_ms,
        "cluster_id": view.cluster_id,
        "controller": view.controller if view.controller >= 0 else None,
        "wrong": what_is_wrong(view),
        "totals": {_TOTALS.get(name, name): _round(value) for name, value in totals.items()},
    }


def brokers_json(view: ClusterView) -> list[dict[str, Any]]:
    """Return the brokers with their counts of leaders, replicas and in-sync replicas among the partitions in view."""
    leaders = Counter(part.leader for part in view.partitions)
    replicas = Counter(broker for part in view.partitions for broker in part.replicas)
    in_sync = Counter(broker for part in view.partitions for broker in part.isr)
    return [
        {
            "id": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "fenced": broker.is_fenced,
            "answering": broker.is_responding,
            "log_bytes": broker.log_bytes,
            "log_dirs": None if broker.log_dirs is None else [_log_dir_json(path) for path in broker.log_dirs],
            "leaders": leaders[broker.id],
            "replicas": replicas[broker.id],
            "in_sync": in_sync[broker.id],
        }
        for broker in view.brokers
    ]


def _log_dir_json(path: LogDir) -> dict[str, object]:
    return {
        "path": path.path,
        "replicas": len(path.replicas),
        "bytes": sum(replica.size_bytes for replica in path.replicas),
        "total_bytes": path.total_bytes if path.total_bytes >= 0 else None,
        "usable_bytes": path.usable_bytes if path.usable_bytes >= 0 else None,
        "error": None if path.error is None else str(path.error),
    }


def topic_json(topic: TopicView) -> dict[str, object]:
    """Return a topic with counts of its partitions by state."""
    parts = topic.partitions
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.is_internal,
        "partitions": len(parts),
        "replication_factor": max((len(part.replicas) - len(part.adding_replicas) for part in parts), default=0),
        "min_isr": parts[0].min_isr if parts else None,
        "offline": sum(part.is_offline for part in parts),
        "under_replicated": sum(part.is_under_replicated for part in parts),
        "under_min_isr": topic.under_min_isr,
        "bytes": topic.size_bytes,
        "messages_per_second": _round(topic.messages_in),
        "bytes_per_second": _round(topic.bytes_in),
    }


def partition_json(part: PartitionView) -> dict[str, object]:
    """Return a partition's replicas, state, end offset and size."""
    return {
        "topic": part.topic,
        "partition": part.partition,
        "leader": None if part.is_offline else part.leader,
        "leader_epoch": part.leader_epoch,
        "preferred_leader": part.preferred_leader,
        "replicas": list(part.replicas),
        "isr": list(part.isr),
        "elr": None if part.elr is None else list(part.elr),
        "offline_replicas": list(part.offline_replicas),
        "adding_replicas": list(part.adding_replicas),
        "removing_replicas": list(part.removing_replicas),
        "offline": part.is_offline,
        "under_replicated": part.is_under_replicated,
        "under_min_isr": part.is_under_min_isr if part.is_min_isr_known else None,
        "at_min_isr": part.is_at_min_isr if part.is_min_isr_known else None,
        "end_offset": part.end_offset,
        "bytes": part.size_bytes,
    }


def quorum_json(quorum: MetadataQuorum | None) -> dict[str, Any] | None:
    """Return the controller quorum, None when there is none or it is unknown."""
    if quorum is None:
        return None
    return {
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "replicas": [
            {
                "id": replica.id,
                "voter": is_voter,
                "log_end_offset": replica.end,
                "lag": quorum.lag(replica),
                "caught_up_time": replica.last_caught_up_timestamp if replica.last_caught_up_timestamp >= 0 else None,
            }
            for replicas, is_voter in ((quorum.voters, True), (quorum.observers, False))
            for replica in replicas
        ],
    }


def group_json(group: GroupView) -> dict[str, object]:
    """Return a group with its lag and consumption rate, in all and by topic."""
    consumed = group.consumed_by_topic or {}
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "coordinator": group.coordinator,
        "members": group.members,
        "lag": group.lag,
        "lag_at_least": group.least_lag,
        "unknown": group.unknown,
        "lag_ms": group.lag_ms,
        "lag_ms_at_least": group.least_lag_ms,
        "consumed_per_second": _round(group.consumed),
        "topics": [
            {"topic": topic, "lag": lag, "consumed_per_second": _round(consumed.get(topic))}
            for topic, lag in group.lag_by_topic().items()
        ],
    }


def events_json(events: Iterable[Event]) -> list[dict[str, object]]:
    """Return events as JSON objects."""
    return [
        {
            "time": event.time_ms,
            "event": event.kind,
            "message": event.message,
            "cause": event.cause,
            "broker": event.broker,
            "topic": event.topic,
            "partition": event.partition,
            "group": event.group,
        }
        for event in events
    ]


def alerts_json(alerts: Iterable[AlertView]) -> list[dict[str, object]]:
    """Return the alerts of a view as JSON objects."""
    return [
        {"since" if name == "since_ms" else name: value for name, value in alert._asdict().items()} for alert in alerts
    ]


def problems_json(problems: Iterable[Problem]) -> list[dict[str, object]]:
    """Return problems as JSON objects."""
    return [
        {"broker": problem.broker if problem.broker >= 0 else None, "what": problem.what, "error": problem.error}
        for problem in problems
    ]


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, 3)
