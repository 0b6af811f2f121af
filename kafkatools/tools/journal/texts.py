"""The lines and JSON objects of `kt undo`: the list of entries, one entry, and the plan of an undo."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from kafkatools.core.errors import KafkaError
from kafkatools.core.json_values import JsonValue
from kafkatools.tools.journal.entries import (
    ACL,
    CONFIG,
    CREDENTIAL,
    DONE,
    FAILED,
    GROUP,
    OFFSET,
    REPLICAS,
    SHARE_OFFSET,
    TOPIC,
    Change,
    Entry,
    Noted,
    change_row,
)
from kafkatools.tools.journal.undoing import CONFLICT, IMPOSSIBLE, NOTHING, UNDO, Step

Undone = Mapping[int, int]
_HIDDEN = "(hidden)"
_SIGNS = {UNDO: "~", NOTHING: "=", CONFLICT: "!", IMPOSSIBLE: "!"}


def undone_by(entries: Iterable[Entry]) -> dict[int, int]:
    """The entries that were undone, with the number of the entry that undid each. An undo that was undone itself does
    not count."""
    undone: dict[int, int] = {}
    for entry in sorted(entries, key=lambda one: one.run.number, reverse=True):
        if entry.run.undoes is not None and entry.state == DONE and entry.run.number not in undone:
            undone.setdefault(entry.run.undoes, entry.run.number)
    return undone


# -- kt undo list --


def list_texts(entries: Sequence[Entry], undone: Undone) -> tuple[list[str], list[list[str]]]:
    """The headers and cells of the table of entries."""
    headers = ["NUMBER", "TIME", "USER", "CLUSTER", "OUTCOME", "UNDO", "COMMAND"]
    rows = [
        [
            str(entry.run.number),
            _time(entry.run.time_ms),
            f"{entry.run.user}@{entry.run.host}",
            entry.run.cluster_id or "unknown",
            entry.state,
            _undo_text(entry, undone),
            shlex.join(entry.run.command),
        ]
        for entry in entries
    ]
    return headers, rows


def list_row(entry: Entry, undone: Undone) -> dict[str, object]:
    """An entry as a JSON object, without its changes."""
    run = entry.run
    return {
        "number": run.number,
        "time": run.time_ms,
        "user": run.user,
        "host": run.host,
        "kt": run.kt,
        "command": list(run.command),
        "cluster_id": run.cluster_id,
        "bootstrap": run.bootstrap,
        "profile": run.profile,
        "outcome": entry.state,
        "change_count": len(entry.noted) + entry.unnoted,
        "undoable": len(entry.undoable),
        "reasons": entry.reasons,
        "undoes": run.undoes,
        "undone_by": undone.get(run.number),
    }


def _undo_text(entry: Entry, undone: Undone) -> str:
    if entry.run.number in undone:
        return f"undone by {undone[entry.run.number]}"
    if entry.undoable:
        return "in part" if entry.reasons or entry.unnoted else "yes"
    return f"no: {entry.reasons[0]}" if entry.reasons else "not needed"


def _time(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


# -- kt undo show --


def show_lines(entry: Entry, undone: Undone) -> list[str]:
    """An entry as lines: the run, then a line for each change."""
    run = entry.run
    lines = [
        f"Entry {run.number}: {shlex.join(run.command)}",
        f"  made {_time(run.time_ms)} by {run.user}@{run.host} with kt {run.kt}",
        f"  on the cluster {run.cluster_id or 'unknown'} at {run.bootstrap}",
    ]
    lines += [f"  with the profile {run.profile}"] if run.profile is not None else []
    lines += [f"  undoes entry {run.undoes}"] if run.undoes is not None else []
    lines += [f"  undone by entry {undone[run.number]}"] if run.number in undone else []
    lines += [f"  outcome: {entry.state}", "Changes:"]
    for change, outcome in entry.noted:
        state = "" if outcome.state == DONE else f" ({outcome.state}{f': {outcome.error}' if outcome.error else ''})"
        lines.append(f"  {change_text(change)}{state}")
        if change.reason and outcome.state != FAILED:
            lines.append(f"    cannot be undone: {change.reason}")
    if entry.unnoted:
        lines.append(f"  {entry.unnoted} more changes, which are not in the journal")
    lines.append(f"To undo: kt undo {run.number}" if entry.undoable else "Nothing of this entry can be undone.")
    return lines


def show_row(entry: Entry, undone: Undone) -> dict[str, object]:
    """An entry as a JSON object, with its changes and the lines of undo files that take them back."""
    rows = [
        change_row(change) | {"reason": change.reason or None, "outcome": outcome.state, "error": outcome.error}
        for change, outcome in entry.noted
    ]
    return list_row(entry, undone) | {"changes": rows, "unnoted": entry.unnoted, "undo": undo_lines(entry.undoable)}


def undo_lines(undoable: Sequence[Noted]) -> list[dict[str, object]]:
    """The objects that an undo file of the changing command would have, the last change first."""
    lines: list[dict[str, object]] = []
    by_entity: dict[str, dict[str, object]] = {}
    for change, _ in reversed(undoable):
        target: dict[str, object] = dict(change.target)
        if change.kind == CONFIG:
            key = str(target)
            if key not in by_entity:
                by_entity[key] = {"entity": target, "set": {}, "delete": []}
                lines.append(by_entity[key])
            values, deleted = by_entity[key]["set"], by_entity[key]["delete"]
            if change.before is None and isinstance(deleted, list):
                deleted.append(change.name)
            elif isinstance(values, dict):
                values[change.name] = change.before
        elif change.kind == ACL:
            lines.append({"action": "add" if change.before else "remove", **target})
        elif change.kind in (OFFSET, SHARE_OFFSET):
            before = change.before["offset"] if isinstance(change.before, Mapping) else change.before
            lines.append(target | {"offset": before})
        elif change.kind == REPLICAS:
            lines.append(target | {"replicas": change.before})
        else:
            kind = {TOPIC: "topic", CREDENTIAL: "user"}.get(change.kind, change.kind)
            lines.append({"kind": kind, "target": target, "exists": bool(change.before)})
    return lines


# -- kt undo N --


def plan_lines(steps: Sequence[Step], kept: Sequence[Noted], unnoted: int) -> list[str]:
    """The plan of an undo as lines."""
    lines = []
    for step in steps:
        target = _target(step.change)
        back = f"{_value(step.change, step.present)} -> {_value(step.change, step.change.before)}"
        text = {
            UNDO: f"{target}: {back}",
            NOTHING: f"{target}: nothing to undo, it is {_value(step.change, step.present)}",
            CONFLICT: f"{target}: {back}; changed since, kt had set {_value(step.change, step.change.after)}",
            IMPOSSIBLE: f"{target}: cannot be undone: {step.reason}",
        }[step.action]
        lines.append(f"{_SIGNS[step.action]} {text}")
        if step.loses_records and step.action in (UNDO, CONFLICT):
            lines.append("    DANGER: deletes the topic with all records that it has by now")
    lines += [f"! {change_text(change)}: cannot be undone: {change.reason}" for change, _ in kept]
    lines += [f"! {unnoted} more changes are not in the journal"] if unnoted else []
    return lines


def step_row(step: Step, outcome: str, error: KafkaError | None = None) -> dict[str, object]:
    """A step of an undo as a JSON object. `outcome`: planned, kept, undone or failed."""
    row = change_row(step.change)
    shown: dict[str, object] = {key: row[key] for key in ("kind", "target", "name") if key in row}
    values: dict[str, object] = {"present": step.present, "kt_set": step.change.after, "restores": step.change.before}
    return {
        **shown,
        **values,
        "action": step.action,
        "reason": step.reason or None,
        "outcome": outcome,
        "error": None if error is None else str(error),
    }


# -- texts of changes --


def change_text(change: Change) -> str:
    """A change as one line: `topic orders retention.ms: (not set) -> 60000`."""
    if change.is_hidden:
        return f"{_target(change)}: {_HIDDEN}"
    if change.before is None and change.after is None:
        return _target(change)
    return f"{_target(change)}: {_value(change, change.before)} -> {_value(change, change.after)}"


def _target(change: Change) -> str:
    target = change.target
    if change.kind == CONFIG:
        entity = ", ".join(f"{kind} {name}" if name is not None else f"default {kind}" for kind, name in target.items())
        return f"{entity} {change.name}"
    if change.kind in (OFFSET, SHARE_OFFSET):
        return f"group {target['group']} {target['topic']}-{target['partition']}"
    if change.kind == REPLICAS:
        return f"replicas of {target['topic']}-{target['partition']}"
    if change.kind == ACL and "principal" in target:
        pattern = f"{target['resource_type']} {target['pattern_type']} {target['resource_name']}"
        right = f"{target['permission']} {target['operation']} from {target['host']}"
        return f"ACL {target['principal']} {right} on {pattern}"
    if change.kind == TOPIC:
        return f"topic {target['topic']}"
    words = " ".join(f"{key} {value}" for key, value in target.items() if key != change.kind)
    name = target.get(change.kind)
    return " ".join(filter(None, [change.kind, None if name is None else str(name), words]))


def _value(change: Change, value: JsonValue) -> str:
    if change.kind in (TOPIC, ACL, CREDENTIAL, GROUP):
        return "exists" if value else "absent"
    if value is None:
        return "(not set)" if change.kind in (CONFIG, OFFSET, SHARE_OFFSET) else "(unknown)"
    if isinstance(value, Mapping):
        return f"{value['offset']} with metadata"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
