"""Carry out or show (--dry-run) changes of kt configs, after writing the reverse changes (--undo-file).

Before an undo file is written, a validate-only request finds out what the brokers would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.output import json_line
from kafkatools.tools.configs.changes import (
    Plan,
    RequestedConfigs,
    apply,
    apply_plan,
    differences,
    ensure_there,
    inverse,
    plan_change,
)
from kafkatools.tools.configs.entities import Entities, row_of, singular, words_of
from kafkatools.tools.undo_files import write_undo_file

# -- one entity, from the command line --


def change(
    console: Console, args: Args, admin: AdminClient, entities: Entities, requested: RequestedConfigs
) -> ExitStatus:
    """Change one entity, after writing --undo-file; with --dry-run only print what would change. Raises KafkaError or
    CommandError."""
    ensure_there(admin, entities, [name for name, _ in requested])
    if args.dry_run:
        apply(admin, entities, requested, validate_only=True)
        plan = Plan(entities, requested, differences(admin, entities, requested))
        show(console, args, [plan])
        return ExitStatus.OK
    if args.undo_file is not None:
        apply(admin, entities, requested, validate_only=True)
        _write_undo(args, [Plan(entities, requested, differences(admin, entities, requested))])
    apply(admin, entities, requested)
    report(console, args, entities)
    return ExitStatus.OK


def report(console: Console, args: Args, entities: Entities, **fields: object) -> None:
    """Print that an entity was changed: Kafka's line, or a JSON row with the keys of `fields`."""
    kind, name = entities.kind, entities.names[0]
    label = f"config for {singular(kind)} {name}" if name else f"default config for {kind} in the cluster"
    console.print(f"Completed updating {label}.", {"entity": row_of(entities), "altered": True, **fields})


# -- a file --


def carry_out(
    console: Console, args: Args, admin: AdminClient, requested: Iterable[tuple[Entities, RequestedConfigs]]
) -> ExitStatus:
    """Apply the changes of a file (--from-file) that are not already as requested; with --dry-run only print them.
    Returns FAILED if an entity failed; its error is printed and the other entities are changed."""
    admin.refresh_cluster()
    plans = [plan_change(admin, entities, settings) for entities, settings in requested]
    count = sum(len(plan.requested) for plan in plans)
    pending_plans = [plan for plan in plans if plan.differences and plan.error is None]
    failed = [plan for plan in plans if plan.error is not None]
    if args.dry_run:
        show(console, args, pending_plans)
    else:
        if args.undo_file is not None:
            _write_undo(args, pending_plans)
        outcomes = [apply_plan(admin, plan) for plan in pending_plans]
        failed += [plan for plan in outcomes if plan.error is not None]
        for plan in outcomes:
            if plan.error is None:
                fields = {"changes": _rows(plan), "error": None} if args.json else {}
                report(console, args, plan.entities, **fields)
    for plan in failed:
        console.print_outcome(_row(plan), error=f"{args.command.error_prefix}{words_of(plan.entities)}: {plan.error}")
    if not args.json and not args.dry_run:
        wrong = sum(len(plan.requested) for plan in plans if plan.error is not None)
        to_change = sum(len(plan.differences) for plan in pending_plans)
        console.print(f"{to_change} to change, {count - wrong - to_change} already as requested")
    return ExitStatus.FAILED if failed else ExitStatus.OK


# -- output and undo file --


def show(console: Console, args: Args, plans: Iterable[Plan]) -> None:
    """Print each setting that the plans would change, with --json one row per entity."""
    count = 0
    for plan in plans:
        count += len(plan.differences)
        console.show([_row(plan)], [f"{words_of(plan.entities)}: {difference}" for difference in plan.differences])
    if not count and not args.json:
        console.note("Nothing would change.")


def _row(plan: Plan) -> dict[str, object]:
    error = None if plan.error is None else str(plan.error)
    return {"entity": row_of(plan.entities), "altered": False, "changes": _rows(plan), "error": error}


def _rows(plan: Plan) -> list[dict[str, object]]:
    return [difference.row() for difference in plan.differences]


def _write_undo(args: Args, plans: Iterable[Plan]) -> None:
    lines = [json_line(inverse(plan)) + "\n" for plan in plans if plan.differences]
    write_undo_file(args.undo_file, lines)
