"""A balance plan as Kafka's JSON, as tables and as lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkatools.commands.reassign_partitions.balance_options import BalanceArguments
from kafkatools.commands.reassign_partitions.plan_output import (
    broker_rows,
    load_row,
    move_row,
    percent_text,
)
from kafkatools.commands.reassign_partitions.run_report import duration_text
from kafkatools.output import bytes_text, table
from kafkatools.tools.reassignment.balance.model import BalancePlan, Spread
from kafkatools.tools.reassignment.listings import count_text
from kafkatools.tools.reassignment.plan_file import plan_fields

_MEASURES = {
    "bytes": "bytes",
    "replicas": "replicas",
    "leaders": "leaders",
    "rate": "written per second",
    "leader_rate": "led per second",
}


def plan_file_fields(plan: BalancePlan) -> dict[str, object]:
    """Return replicas and log directories after the plan, as fields of a reassignment file."""
    return plan_fields({(move.topic, move.partition): move.after for move in plan.moves}, plan.log_dirs)


def current_fields(plan: BalancePlan) -> dict[str, object]:
    """Return replicas and log directories before the plan, as fields of a reassignment file for the way back."""
    return plan_fields({(move.topic, move.partition): move.before for move in plan.moves}, plan.log_dirs_before)


def estimated_seconds(plan: BalancePlan, rate: int) -> int:
    """Return the seconds that the busiest broker needs to receive or send its bytes at `rate` bytes per second."""
    return -(-plan.busiest_bytes // rate)


def balance_tables(plan: BalancePlan, arguments: BalanceArguments, rate: int, *, terminal: bool, width: int) -> str:
    """Return the tables of brokers, log directories and spreads, the summary, and the reasons for what stays unequal,
    as lines."""
    texts = [table(*_broker_rows(plan), terminal=terminal, width=width)]
    if plan.disks:
        texts.append(table(*_disk_rows(plan), terminal=terminal, width=width))
    texts.append(table(*_spread_rows(plan), terminal=terminal, width=width))
    lines = [_summary(plan, arguments, rate), *(f"{reason}." for reason in plan.reasons)]
    return "\n".join(texts) + "\n".join(lines) + "\n"


def _summary(plan: BalancePlan, arguments: BalanceArguments, rate: int) -> str:
    if not plan.moves:
        if plan.reasons:
            return "Nothing can be moved."
        if arguments.only_above is not None:
            return f"Nothing to move: no broker is above {percent_text(arguments.only_above)}."
        subject = {"rate": "rates"}.get(arguments.by, arguments.by)
        text = f"Nothing to move: {subject} are within {percent_text(arguments.tolerance)} of the mean"
        return text + (", or differ from it by less than one." if arguments.by == "leaders" else ".")
    text = f"{count_text(len(plan.moves))} to change; replicas to copy: {plan.replicas_to_move}"
    text += f" ({bytes_text(plan.bytes_between_brokers)})"
    reordered = sum(not move.added and move.before != move.after for move in plan.moves)
    if plan.log_dirs_before:
        text += f"; between log directories: {len(plan.log_dirs_before)} ({bytes_text(plan.bytes_between_disks)})"
    if reordered:
        text += f"; only another order, copying nothing: {count_text(reordered)}"
    if plan.busiest_bytes:
        text += f". Estimated time at {bytes_text(rate)}/s for each broker: "
        text += duration_text(estimated_seconds(plan, rate))
    return text + "."


def _broker_rows(plan: BalancePlan) -> tuple[Sequence[str], list[Sequence[str]]]:
    headers, rows = broker_rows(plan.brokers)
    if not plan.rates:
        return headers, rows
    headers = (*headers[:5], "WRITTEN/S", "LED/S", *headers[5:])
    merged = []
    for load, row in zip(plan.brokers, rows, strict=True):
        rates = plan.rates[load.broker]
        merged.append((*row[:5], _bytes_change(rates.written), _bytes_change(rates.led), *row[5:]))
    return headers, list(merged)


def _bytes_change(pair: tuple[float, float]) -> str:
    before, after = (bytes_text(count) for count in pair)
    return before if before == after else f"{before} -> {after}"


def _disk_rows(plan: BalancePlan) -> tuple[Sequence[str], list[Sequence[str]]]:
    rows: list[Sequence[str]] = []
    for disk in plan.disks:
        used = "-" if disk.total_bytes <= 0 else percent_text(1 - disk.usable_bytes / disk.total_bytes)
        rows.append((str(disk.broker), disk.path, _bytes_change(disk.size_bytes), used))
    return ("BROKER", "LOG DIRECTORY", "BYTES", "USED NOW"), rows


def _spread_rows(plan: BalancePlan) -> tuple[Sequence[str], list[Sequence[str]]]:
    rows: list[Sequence[str]] = []
    for name, (before, after) in plan.spreads.items():
        highest = [f"{spread.highest:.3f}" if spread else "-" for spread in (before, after)]
        deviation = [percent_text(spread.deviation) if spread else "-" for spread in (before, after)]
        rows.append((_MEASURES[name], *(" -> ".join(dict.fromkeys(pair)) for pair in (highest, deviation))))
    return ("SPREAD OF", "HIGHEST / MEAN", "DEVIATION / MEAN"), rows


def balance_rows(plan: BalancePlan, arguments: BalanceArguments, rate: int) -> Iterator[dict[str, object]]:
    """Yield JSON rows: changed partitions, partitions left out, brokers, log directories, spreads, reasons, and a
    summary with both plan files."""
    for move in plan.moves:
        yield move_row(move)
    for (topic, partition), reason in plan.left_out.items():
        yield {"type": "left_out", "topic": topic, "partition": partition, "reason": reason}
    yield from _broker_json(plan)
    for disk in plan.disks:
        yield {
            "type": "log_dir",
            "broker": disk.broker,
            "log_dir": disk.path,
            "bytes_before": disk.size_bytes[0],
            "bytes_after": disk.size_bytes[1],
            "total_bytes": disk.total_bytes if disk.total_bytes >= 0 else None,
            "usable_bytes": disk.usable_bytes if disk.usable_bytes >= 0 else None,
        }
    for name, (before, after) in plan.spreads.items():
        yield {"type": "spread", "of": name, "before": _spread_json(before), "after": _spread_json(after)}
    for reason in plan.reasons:
        yield {"type": "unequal", "reason": reason}
    yield {
        "type": "plan",
        "by": arguments.by,
        "partitions": len(plan.moves),
        "replicas_to_copy": plan.replicas_to_move,
        "bytes_to_move": plan.bytes_between_brokers,
        "log_dirs_to_change": len(plan.log_dirs_before),
        "bytes_between_log_dirs": plan.bytes_between_disks,
        "throttle": rate,
        "estimated_seconds": estimated_seconds(plan, rate),
        "reassignment": plan_file_fields(plan),
        "current": current_fields(plan),
    }


def _broker_json(plan: BalancePlan) -> Iterator[dict[str, object]]:
    for load in plan.brokers:
        row = load_row(load)
        rates = plan.rates.get(load.broker)
        if rates is not None:
            row |= {
                "written_per_second_before": round(rates.written[0]),
                "written_per_second_after": round(rates.written[1]),
                "led_per_second_before": round(rates.led[0]),
                "led_per_second_after": round(rates.led[1]),
            }
        yield row


def _spread_json(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else {name: round(value, 4) for name, value in spread._asdict().items()}
