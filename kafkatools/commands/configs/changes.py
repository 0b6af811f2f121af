"""What a change of kt configs would do: settings that really differ, carried out or shown (--dry-run), with their
inverse on the disk first (--undo-file).

A setting is what an entity has of its own; defaults do not count. Values that brokers do not give away (passwords) are
always taken for a difference, are never shown, and cannot be brought back. What the brokers would refuse is found by a
request that only validates, before an undo file is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.commands.configs.describe import entity_words, own_source, quota_filter, resource_type
from kafkatools.commands.configs.entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENTS,
    IPS,
    USERS,
    Entities,
    quota_entity,
    row_of,
    singular,
)
from kafkatools.core.java.text import java_double
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.configs import ConfigEntry

Value = str | float
Wanted = Sequence[tuple[str, Value | None]]
"""Settings and what they are to be, in the order of the request; None: to be removed."""

QUOTA_KINDS = (USERS, CLIENTS, IPS)
_HIDDEN = "(hidden)"
_NOT_SET = "(not set)"
_TIMEOUT_MS = 30_000
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FRACTION = re.compile(r"[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?", re.ASCII)


class Setting(NamedTuple):
    """What an entity has of its own for a setting; None: nothing, or a value that is not given away."""

    value: Value | None = None
    is_set: bool = False
    is_hidden: bool = False


class Difference(NamedTuple):
    """A setting that is to change; `new` None: it is to be removed."""

    name: str
    before: Setting
    new: Value | None

    def row(self) -> dict[str, object]:
        """For JSON; what is hidden is null."""
        hidden = self.before.is_hidden
        return {"name": self.name, "old": self.before.value, "new": None if hidden else self.new, "sensitive": hidden}

    def __str__(self) -> str:
        """`retention.ms: 60000 -> 3600000`."""
        hidden = self.before.is_hidden
        old = _HIDDEN if hidden and self.before.is_set else _text(self.before.value)
        return f"{self.name}: {old} -> {_HIDDEN if hidden and self.new is not None else _text(self.new)}"


class Plan(NamedTuple):
    """What a line of a file means for an entity: all that it asks for, and what of it is not so yet."""

    entities: Entities
    wanted: Wanted
    differences: Sequence[Difference] = ()
    error: Exception | None = None

    @property
    def changing(self) -> Wanted:
        """Only what is not so yet."""
        return [(each.name, each.new) for each in self.differences]


def _text(value: Value | None) -> str:
    if value is None:
        return _NOT_SET
    return value if isinstance(value, str) else java_double(value)


# -- one entity, from the command line --


def change(console: Console, args: Args, admin: AdminClient, entities: Entities, wanted: Wanted) -> ExitStatus:
    """Carries a change of one entity out, or shows what it would do."""
    ensure_there(admin, entities, [name for name, _ in wanted])
    if args.dry_run:
        apply(admin, entities, wanted, validate_only=True)
        plan = Plan(entities, wanted, differences(admin, entities, wanted))
        show(console, args, [plan])
        return ExitStatus.OK
    if args.undo_file is not None:
        apply(admin, entities, wanted, validate_only=True)
        _write_undo(args, [Plan(entities, wanted, differences(admin, entities, wanted))])
    apply(admin, entities, wanted)
    report(console, args, entities)
    return ExitStatus.OK


def report(console: Console, args: Args, entities: Entities, **more: object) -> None:
    """That an entity was changed, in Kafka's words, or as a row with further keys."""
    kind, name = entities.kind, entities.names[0]
    if args.json:
        console.print_json({"entity": row_of(entities), "altered": True, **more})
    elif name:
        console.print(f"Completed updating config for {singular(kind)} {name}.")
    else:
        console.print(f"Completed updating default config for {kind} in the cluster.")


# -- a file --


def carry_out(
    console: Console, args: Args, admin: AdminClient, wanted: Iterable[tuple[Entities, Wanted]]
) -> ExitStatus:
    """Brings entities to what a file says of them; those that fail are named, the others are done."""
    admin.refresh_cluster()
    plans = [_planned(admin, entities, settings) for entities, settings in wanted]
    count = sum(len(plan.wanted) for plan in plans)
    changing = [plan for plan in plans if plan.differences and plan.error is None]
    failed = [plan for plan in plans if plan.error is not None]
    if args.dry_run:
        show(console, args, changing)
    else:
        if args.undo_file is not None:
            _write_undo(args, changing)
        done = [_done(admin, plan) for plan in changing]
        failed += [plan for plan in done if plan.error is not None]
        for plan in done:
            if plan.error is None:
                more = {"changes": _rows(plan), "error": None} if args.json else {}
                report(console, args, plan.entities, **more)
    for plan in failed:
        _complain(console, args, plan)
    if not args.json and not args.dry_run:
        wrong = sum(len(plan.wanted) for plan in plans if plan.error is not None)
        to_change = sum(len(plan.differences) for plan in changing)
        console.print(f"{to_change} to change, {count - wrong - to_change} as they should be")
    return ExitStatus.FAILED if failed else ExitStatus.OK


def _planned(admin: AdminClient, entities: Entities, wanted: Wanted) -> Plan:
    found: list[Difference] = []

    def plan() -> None:
        ensure_there(admin, entities, [name for name, _ in wanted])
        found.extend(differences(admin, entities, wanted))
        if found:
            apply(admin, entities, Plan(entities, wanted, found).changing, validate_only=True)

    error = _attempt(plan)
    return Plan(entities, wanted, found, error)


def _done(admin: AdminClient, plan: Plan) -> Plan:
    return plan._replace(error=_attempt(lambda: apply(admin, plan.entities, plan.changing)))


def _attempt(work: Callable[[], None]) -> Exception | None:
    """What is wrong with one entity."""
    from kafkatools.core.errors import KafkaError

    try:
        work()
    except (KafkaError, CommandError) as error:
        return error
    return None


def _complain(console: Console, args: Args, plan: Plan) -> None:
    if args.json:
        row = {"entity": row_of(plan.entities), "altered": False, "changes": _rows(plan), "error": str(plan.error)}
        console.print_json(row)
    else:
        console.error(f"{args.command.error_prefix}{words_of(plan.entities)}: {plan.error}")


# -- what is shown and noted --


def show(console: Console, args: Args, plans: Iterable[Plan]) -> None:
    """What would change, setting by setting; for JSON a row an entity."""
    shown = 0
    for plan in plans:
        shown += len(plan.differences)
        if args.json:
            row = {"entity": row_of(plan.entities), "altered": False, "changes": _rows(plan), "error": None}
            console.print_json(row)
            continue
        for each in plan.differences:
            console.print(f"{words_of(plan.entities)}: {each}")
    if not shown and not args.json:
        console.note("Nothing would change.")


def _rows(plan: Plan) -> list[dict[str, object]]:
    return [each.row() for each in plan.differences]


def words_of(entities: Entities) -> str:
    """An entity as the lines of a dry run and of failures name it."""
    if entities.kind in QUOTA_KINDS:
        return entity_words(quota_entity(entities))
    name = entities.names[0]
    return f"{singular(entities.kind)} {name}" if name else f"default of {entities.kind}"


def _write_undo(args: Args, plans: Iterable[Plan]) -> None:
    from kafkatools.output import json_line
    from kafkatools.tools.undo_files import write_undo_file

    lines = [json_line(_inverse(plan)) + "\n" for plan in plans if plan.differences]
    write_undo_file(args.undo_file, lines)


def _inverse(plan: Plan) -> dict[str, object]:
    for each in plan.differences:
        if each.before.is_hidden and each.before.is_set:
            raise CommandError(
                f"The value that {each.name} of {words_of(plan.entities)} has is a secret of the brokers, so an undo "
                "file cannot hold it: nothing was changed",
                hint="Without --undo-file it is changed.",
            )
    old = {each.name: each.before.value for each in plan.differences if each.before.is_set}
    absent = [each.name for each in plan.differences if not each.before.is_set]
    return {"entity": row_of(plan.entities), "set": old, "delete": absent}


# -- the cluster --


def ensure_there(admin: AdminClient, entities: Entities, names: Sequence[str]) -> None:
    """That the broker and its loggers exist. A broker checks its settings itself; Kafka's tool waits for it until a
    timeout. Raises CommandError."""
    kind, entity = entities.kind, entities.names[0]
    if kind not in (BROKERS, BROKER_LOGGERS) or not entity:
        return
    from kafkatools.core.admin.cluster import describe_cluster

    brokers = [str(node.id) for node in describe_cluster(admin).nodes]
    if entity not in brokers:
        raise CommandError(f"There is no broker {entity}: the brokers are {', '.join(brokers)}")
    if kind == BROKER_LOGGERS:
        known = _entries(admin, entities, None)
        invalid = [name for name in names if name not in known]
        if invalid:
            raise CommandError(f"Invalid broker logger(s): {','.join(invalid)}")


def apply(admin: AdminClient, entities: Entities, wanted: Wanted, *, validate_only: bool = False) -> None:
    """Sends the change, or only asks whether it would be taken. Raises KafkaError."""
    if entities.kind in QUOTA_KINDS:
        from kafkatools.core.admin.quotas import alter_client_quotas

        quotas = {name: None if value is None else float(value) for name, value in wanted}
        alter_client_quotas(admin, quota_entity(entities), quotas, validate_only=validate_only)
        return
    from kafkatools.core.admin.configs import DELETE, SET, ConfigChange, incremental_alter_configs

    resource = (resource_type(entities.kind), entities.names[0])
    changes = [
        ConfigChange(name, "", DELETE) if value is None else ConfigChange(name, str(value), SET)
        for name, value in wanted
    ]
    outcomes = incremental_alter_configs(
        admin, {resource: changes}, validate_only=validate_only, timeout_ms=_TIMEOUT_MS
    )
    error = outcomes[resource]
    if error is not None:
        raise error


def differences(admin: AdminClient, entities: Entities, wanted: Wanted) -> list[Difference]:
    """What of a change is not so yet. Raises KafkaError."""
    last = dict(wanted)
    before = _before(admin, entities, list(last))
    return [Difference(name, before[name], new) for name, new in last.items() if _differs(before[name], new)]


def _differs(before: Setting, new: Value | None) -> bool:
    if new is None or not before.is_set:
        return before.is_set or new is not None
    return before.is_hidden or before.value is None or not _is_same(before.value, new)


def _is_same(one: Value, other: Value) -> bool:
    """Brokers show values in a form of their own: numbers, true and false, and lists without blanks."""
    return one == other or _parts(one) == _parts(other)


def _parts(value: Value) -> list[float | str]:
    return [_part(text.strip()) for text in str(value).split(",")]


def _part(text: str) -> float | int | str:
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    return text.lower() if text.lower() in ("true", "false") else text


def _before(admin: AdminClient, entities: Entities, names: Sequence[str]) -> Mapping[str, Setting]:
    if entities.kind in QUOTA_KINDS:
        from kafkatools.core.admin.quotas import describe_client_quotas

        found = describe_client_quotas(admin, quota_filter(entities))
        values = found[0].values if found else {}
        return {name: Setting(values.get(name), name in values) for name in names}
    entries = _entries(admin, entities, names)
    source = own_source(entities.kind, entities.names[0])
    return {name: _setting(entities, name, entries.get(name), source) for name in names}


def _setting(entities: Entities, name: str, entry: ConfigEntry | None, source: int | None) -> Setting:
    if entry is None:
        return Setting(is_hidden=entities.kind == BROKERS and _may_be_secret(name))
    is_set = source is None or entry.source == source
    return Setting(entry.value if is_set else None, is_set, entry.is_sensitive)


def _may_be_secret(name: str) -> bool:
    """A setting of a broker that it says nothing of: any that is not known to be none."""
    from kafkatools.core.admin.replication_throttles import FOLLOWER_RATE, LEADER_RATE, LOG_DIR_RATE
    from kafkatools.core.config.broker import BROKER
    from kafkatools.core.config.setting import PASSWORD

    if name in (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE):
        return False
    return name not in BROKER or BROKER[name].type == PASSWORD


def _entries(admin: AdminClient, entities: Entities, names: Sequence[str] | None) -> dict[str, ConfigEntry]:
    from kafkatools.core.admin.configs import describe_configs

    resource = (resource_type(entities.kind), entities.names[0])
    found = describe_configs(admin, [resource], names=names)[resource]
    if found.error is not None:
        raise found.error
    return {entry.name: entry for entry in found.entries}
