"""Config changes: the differences to present values, their inverse, and the requests that apply them.

A value counts as set only if the entity has its own value, not a default. Sensitive values (passwords), which brokers
do not return, always count as different, are never printed and cannot be restored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.configs import (
    DELETE,
    SET,
    ConfigChange,
    ConfigEntry,
    describe_configs,
    incremental_alter_configs,
)
from kafkatools.core.admin.replication_throttles import FOLLOWER_RATE, LEADER_RATE, LOG_DIR_RATE
from kafkatools.core.config import BROKER
from kafkatools.core.config.setting import PASSWORD
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.text import java_double
from kafkatools.exit_status import CommandError
from kafkatools.tools.configs.entities import (
    BROKER_LOGGERS,
    BROKERS,
    QUOTA_KINDS,
    Entities,
    own_source,
    quota_entity,
    quota_filter,
    resource_type,
    row_of,
    words_of,
)

Value = str | float
RequestedConfigs = Sequence[tuple[str, Value | None]]
"""Configs with their new values in the order of the request; None removes a config."""
_HIDDEN = "(hidden)"
_NOT_SET = "(not set)"
_TIMEOUT_MS = 30_000
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FRACTION = re.compile(r"[+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?", re.ASCII)


class Setting(NamedTuple):
    """An entity's own value of a config. `value` is None if it is unset or sensitive."""

    value: Value | None = None
    is_set: bool = False
    is_hidden: bool = False


class Difference(NamedTuple):
    """A config that a change would set or remove. `new` None removes it."""

    name: str
    before: Setting
    new: Value | None

    def row(self) -> dict[str, object]:
        """The difference as a JSON object, with null for sensitive values."""
        hidden = self.before.is_hidden
        return {"name": self.name, "old": self.before.value, "new": None if hidden else self.new, "sensitive": hidden}

    def __str__(self) -> str:
        """The difference as a line: `retention.ms: 60000 -> 3600000`."""
        hidden = self.before.is_hidden
        old = _HIDDEN if hidden and self.before.is_set else _text(self.before.value)
        return f"{self.name}: {old} -> {_HIDDEN if hidden and self.new is not None else _text(self.new)}"


class Plan(NamedTuple):
    """The requested configs of an entity, those that differ from present ones, and the error that prevents the
    change."""

    entities: Entities
    requested: RequestedConfigs
    differences: Sequence[Difference] = ()
    error: Exception | None = None

    @property
    def effective_configs(self) -> RequestedConfigs:
        """The configs to alter: only those that differ."""
        return [(difference.name, difference.new) for difference in self.differences]


def _text(value: Value | None) -> str:
    if value is None:
        return _NOT_SET
    return value if isinstance(value, str) else java_double(value)


def plan_change(admin: AdminClient, entities: Entities, requested: RequestedConfigs) -> Plan:
    """Compare an entity's requested configs with the present ones. If any differ, validate the change on the brokers
    without applying it. The returned plan has the KafkaError or CommandError of a refused change."""
    config_differences: list[Difference] = []

    def plan() -> None:
        ensure_there(admin, entities, [name for name, _ in requested])
        config_differences.extend(differences(admin, entities, requested))
        if config_differences:
            apply(admin, entities, Plan(entities, requested, config_differences).effective_configs, validate_only=True)

    error = _attempt(plan)
    return Plan(entities, requested, config_differences, error)


def apply_plan(admin: AdminClient, plan: Plan) -> Plan:
    """Apply a plan. Returns the plan with the error of a refused change."""
    return plan._replace(error=_attempt(lambda: apply(admin, plan.entities, plan.effective_configs)))


def _attempt(work: Callable[[], None]) -> Exception | None:
    """The KafkaError or CommandError that `work` raises; None if it succeeds."""
    try:
        work()
    except (KafkaError, CommandError) as error:
        return error
    return None


def inverse(plan: Plan) -> dict[str, object]:
    """The change that undoes a plan, as a JSON object. Raises CommandError if it would hold a sensitive value."""
    for difference in plan.differences:
        if difference.before.is_hidden and difference.before.is_set:
            raise CommandError(
                f"Nothing was changed: {difference.name} of {words_of(plan.entities)} is sensitive, so its present "
                "value cannot be saved in the undo file",
                hint="Run without --undo-file to change it.",
            )
    old = {difference.name: difference.before.value for difference in plan.differences if difference.before.is_set}
    absent = [difference.name for difference in plan.differences if not difference.before.is_set]
    return {"entity": row_of(plan.entities), "set": old, "delete": absent}


def ensure_there(admin: AdminClient, entities: Entities, names: Sequence[str]) -> None:
    """Raise CommandError if the broker of an entity does not exist, or one of its loggers; Kafka's tool waits for a
    missing broker until its timeout. Does nothing for other types and the default broker entity. Raises KafkaError."""
    kind, entity = entities.kind, entities.names[0]
    if kind not in (BROKERS, BROKER_LOGGERS) or not entity:
        return
    brokers = [str(node.id) for node in describe_cluster(admin).nodes]
    if entity not in brokers:
        raise CommandError(f"There is no broker {entity}: the brokers are {', '.join(brokers)}")
    if kind == BROKER_LOGGERS:
        loggers = _entries(admin, entities, None)
        invalid = [name for name in names if name not in loggers]
        if invalid:
            raise CommandError(f"Invalid broker logger(s): {','.join(invalid)}")


def apply(admin: AdminClient, entities: Entities, requested: RequestedConfigs, *, validate_only: bool = False) -> None:
    """Alter an entity's configs or quotas, or with `validate_only` only validate the change. Raises KafkaError."""
    if entities.kind in QUOTA_KINDS:
        from kafkatools.core.admin.quotas import alter_client_quotas

        quotas = {name: None if value is None else float(value) for name, value in requested}
        alter_client_quotas(admin, quota_entity(entities), quotas, validate_only=validate_only)
        return
    resource = (resource_type(entities.kind), entities.names[0])
    changes = [
        ConfigChange(name, "", DELETE) if value is None else ConfigChange(name, str(value), SET)
        for name, value in requested
    ]
    outcomes = incremental_alter_configs(
        admin, {resource: changes}, validate_only=validate_only, timeout_ms=_TIMEOUT_MS
    )
    error = outcomes[resource]
    if error is not None:
        raise error


def differences(admin: AdminClient, entities: Entities, requested: RequestedConfigs) -> list[Difference]:
    """The requested configs that differ from an entity's own values; other forms of a number, Boolean or list count as
    equal. Raises KafkaError."""
    last = dict(requested)
    before = present_settings(admin, entities, list(last))
    return [Difference(name, before[name], new) for name, new in last.items() if differs(before[name], new)]


def differs(before: Setting, new: Value | None) -> bool:
    """Return whether a new value (None: removed) differs from the present one. Other forms of a number, Boolean or list
    count as equal."""
    if new is None or not before.is_set:
        return before.is_set or new is not None
    if before.is_hidden or before.value is None:
        return True
    # Brokers may write the same value in another form: numbers, true and false, and lists without blanks.
    return before.value != new and _parts(before.value) != _parts(new)


def _parts(value: Value) -> list[float | str]:
    return [_part(text.strip()) for text in str(value).split(",")]


def _part(text: str) -> float | int | str:
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    return text.lower() if text.lower() in ("true", "false") else text


def present_settings(admin: AdminClient, entities: Entities, names: Sequence[str]) -> Mapping[str, Setting]:
    """An entity's own values of these configs or quotas. Raises KafkaError."""
    if entities.kind in QUOTA_KINDS:
        from kafkatools.core.admin.quotas import describe_client_quotas

        quotas = describe_client_quotas(admin, quota_filter(entities))
        values = quotas[0].values if quotas else {}
        return {name: Setting(values.get(name), name in values) for name in names}
    entries = _entries(admin, entities, names)
    source = own_source(entities.kind, entities.names[0])
    return {name: setting_of(entities, name, entries.get(name), source) for name in names}


def setting_of(entities: Entities, name: str, entry: ConfigEntry | None, source: int | None) -> Setting:
    """An entity's own value of a config. `entry`: the described config, None if there is none; `source`: that of the
    entity's own values (`own_source`)."""
    if entry is None:
        return Setting(is_hidden=entities.kind == BROKERS and _may_be_secret(name))
    is_set = source is None or entry.source == source
    return Setting(entry.value if is_set else None, is_set, entry.is_sensitive)


def _may_be_secret(name: str) -> bool:
    """Return whether a broker config without a reported value may be a password: any that is not known to be another
    type."""
    if name in (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE):
        return False
    return name not in BROKER or BROKER[name].type == PASSWORD


def _entries(admin: AdminClient, entities: Entities, names: Sequence[str] | None) -> dict[str, ConfigEntry]:
    resource = (resource_type(entities.kind), entities.names[0])
    config = describe_configs(admin, [resource], names=names)[resource]
    if config.error is not None:
        raise config.error
    return {entry.name: entry for entry in config.entries}
