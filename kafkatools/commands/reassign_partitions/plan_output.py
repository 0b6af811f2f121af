"""A reassignment plan as Kafka's JSON, as tables and as lines of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from kafkatools.core import atomic_file
from kafkatools.core.admin.reassignments import Replica
from kafkatools.output import bytes_text
from kafkatools.tools.reassignment.listings import count_text
from kafkatools.tools.reassignment.plan import BrokerLoad, Move, ReassignmentPlan
from kafkatools.tools.reassignment.plan_file import plan_fields
from kafkatools.tools.reassignment.work import LogDirMove

LogDirs = Mapping[Replica, str]
_ANY_LOG_DIRS: LogDirs = MappingProxyType({})
_BROKER_HEADERS = ("BROKER", "RACK", "REPLICAS", "LEADERS", "BYTES", "TO RECEIVE", "TO SEND")


def plan_assignment(moves: Iterable[Move], log_dirs: LogDirs = _ANY_LOG_DIRS) -> dict[str, object]:
    """Return the replicas after the moves, as fields of a reassignment file."""
    return plan_fields({(move.topic, move.partition): move.after for move in moves}, log_dirs)


def current_assignment(moves: Iterable[Move], log_dirs: LogDirs = _ANY_LOG_DIRS) -> dict[str, object]:
    """Return the replicas before the moves, as fields of a reassignment file for the way back."""
    return plan_fields({(move.topic, move.partition): move.before for move in moves}, log_dirs)


def json_text(value: Mapping[str, object]) -> str:
    """Return one line of JSON, as Kafka's tool prints it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"


def write_plan_file(path: str, text: str) -> None:
    """Write a plan to a file, which is complete or unchanged; a device or pipe gets the text directly. Raises
    OSError."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    atomic_file.replace(path, text.encode())


def percent_text(fraction: float) -> str:
    """Return a percentage with three digits, such as `5.25%` or `90%`."""
    return f"{100 * fraction:.3g}%"


def summary(plan: ReassignmentPlan) -> str:
    """Return one line that counts the changed partitions of a plan, and the replicas and bytes to copy."""
    if not plan.moves:
        return "Nothing to move."
    reordered = sum(not move.added and not move.removed and move.before != move.after for move in plan.moves)
    dropped = sum(len(move.removed) for move in plan.moves if not move.added)
    text = f"{count_text(len(plan.moves))} to change; replicas to copy: {plan.replicas_to_move}"
    text += f" ({bytes_text(plan.bytes_to_move)})"
    if dropped:
        text += f", to drop only: {dropped}"
    if reordered:
        text += f"; only another order, copying nothing: {count_text(reordered)}"
    return text + "."


def broker_rows(brokers: Iterable[BrokerLoad]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return headers and rows of the table of brokers, with `before -> after` in each cell that changes."""
    rows: list[Sequence[str]] = []
    for load in brokers:
        pairs = [_change(*load.replicas), _change(*load.leaders), _change(*map(bytes_text, load.size_bytes))]
        flow = [bytes_text(load.bytes_in), bytes_text(load.bytes_out)]
        rows.append([str(load.broker), load.rack or "-", *pairs, *flow])
    return _BROKER_HEADERS, rows


def _change(before: object, after: object) -> str:
    return f"{before} -> {after}" if before != after else str(before)


def log_dir_row(move: LogDirMove) -> dict[str, object]:
    """Return the JSON row of a replica that gets another log directory."""
    places = {"log_dir_before": move.before, "log_dir_after": move.after}
    copied = 0 if move.before is None else move.size_bytes
    return {"type": "log_dir_move", **move.replica._asdict(), **places, "bytes": copied}


def json_rows(
    plan: ReassignmentPlan, log_dirs: LogDirs = _ANY_LOG_DIRS, log_dirs_before: LogDirs = _ANY_LOG_DIRS
) -> Iterator[dict[str, object]]:
    """Yield JSON rows: changed partitions, partitions left out, brokers, and a summary with both plan files."""
    for move in plan.moves:
        yield move_row(move)
    for (topic, partition), reason in plan.left_out.items():
        yield {"type": "left_out", "topic": topic, "partition": partition, "reason": reason}
    for load in plan.brokers:
        yield load_row(load)
    yield {
        "type": "plan",
        "partitions": len(plan.moves),
        "replicas_to_copy": plan.replicas_to_move,
        "bytes_to_move": plan.bytes_to_move,
        "reassignment": plan_assignment(plan.moves, log_dirs),
        "current": current_assignment(plan.moves, log_dirs_before),
    }


def move_row(move: Move) -> dict[str, object]:
    """Return the JSON row of a changed partition."""
    return {
        "type": "partition",
        "topic": move.topic,
        "partition": move.partition,
        "replicas_before": list(move.before),
        "replicas_after": list(move.after),
        "added": list(move.added),
        "removed": list(move.removed),
        "bytes": move.size_bytes * len(move.added),
    }


def load_row(load: BrokerLoad) -> dict[str, object]:
    """Return the JSON row of a broker."""
    return {
        "type": "broker",
        "broker": load.broker,
        "rack": load.rack,
        "replicas_before": load.replicas[0],
        "replicas_after": load.replicas[1],
        "leaders_before": load.leaders[0],
        "leaders_after": load.leaders[1],
        "bytes_before": load.size_bytes[0],
        "bytes_after": load.size_bytes[1],
        "bytes_to_receive": load.bytes_in,
        "bytes_to_send": load.bytes_out,
    }
