"""kt configs --alter (kafka.admin.ConfigCommand.alterConfig).

Names of quotas, SCRAM credentials and the form of settings are checked before a change. Passwords never appear in
messages or JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kafkatools.commands.configs.changes import change, report, show
from kafkatools.commands.configs.entities import check_topic_name
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.quotas import describe_client_quotas
from kafkatools.core.admin.scram import (
    DEFAULT_ITERATIONS,
    MIN_ITERATIONS,
    ScramUpsertion,
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from kafkatools.core.errors import InvalidConfig, ResourceNotFound
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.secrets import HIDDEN, remember
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, java_double
from kafkatools.options.hints import did_you_mean_name, topic_config_hint
from kafkatools.options.properties import read_properties
from kafkatools.options.quantities import plain_settings
from kafkatools.tools.configs.changes import Difference, Plan, RequestedConfigs, Setting, Value
from kafkatools.tools.configs.entities import CLIENTS, IPS, TOPICS, USERS, Entities, quota_filter

_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_COMMA = re.compile("," + _OUTSIDE_BRACKETS)
_EQUALS = re.compile(r"\s*=\s*" + _OUTSIDE_BRACKETS)
_KEY = re.compile(r"[$a-zA-Z0-9._-]*")
_NOT_KEY_VALUE = (
    'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  '
    '"key=[val1,val2]" to group values which contain commas.'
)
_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
USER_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_QUOTAS = ("connection_creation_rate",)


def alter(console: Console, args: Args, admin: AdminClient, entities: Entities) -> ExitStatus:
    """Apply --add-config, --add-config-file and --delete-config, or with --dry-run print the differences. Returns OK.
    Raises UsageError, CommandError or KafkaError."""
    added = plain_settings(_added_configs(args), console.note)
    deleted = [] if args.delete_config is None else [name.strip() for name in args.delete_config.split(",")]
    if entities.kind in (USERS, CLIENTS):
        if _is_about_credentials(entities, added, deleted):
            return _alter_scram(console, args, admin, entities, added, deleted)
        requested = _quotas(admin, entities, added, deleted)
    elif entities.kind == IPS:
        unknown = [key for key in (*added, *deleted) if key not in IP_QUOTAS]
        if unknown:
            raise UsageError(
                f"Only connection quota configs can be added for '{IPS}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        requested = _quotas(admin, entities, added, deleted)
    else:
        if entities.kind == TOPICS:
            check_topic_name(entities.names[0])
        requested = [*((name, None) for name in deleted), *added.items()]
    try:
        return change(console, args, admin, entities, requested)
    except InvalidConfig as error:
        hint = topic_config_hint([*deleted, *added]) if entities.kind == TOPICS else ""
        if not hint:
            raise
        raise CommandError(str(error), hint=hint, kind=error.name) from None


def _added_configs(args: Args) -> dict[str, str]:
    """Return the settings of --add-config or --add-config-file, in the order of Kafka's tool. Raises UsageError."""
    added: dict[str, str] = read_properties(args.add_config_file) if args.add_config_file is not None else {}
    if args.add_config is not None:
        parts = _COMMA.split(args.add_config)
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        for part in parts:
            pair = _EQUALS.split(part)
            if len(pair) != 2:
                raise UsageError(_NOT_KEY_VALUE)
            added[pair[0].strip()] = pair[1].replace("[", "").replace("]", "").strip()
    for key in added:
        if not _KEY.fullmatch(key):
            raise UsageError(f"Invalid character found for config key: {key}")
    return {key: added[key] for key in hash_order(added)}


def _is_about_credentials(entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> bool:
    """Return whether SCRAM credentials change, not quotas. Raises UsageError in Kafka's words."""
    if entities.kind == CLIENTS or len(entities.types) == 2:
        _refuse_unknown(f"Only quota configs can be {{}} for '{CLIENTS}'", added, deleted, USER_QUOTAS)
        return False
    allowed = (*USER_QUOTAS, *_MECHANISMS)
    _refuse_unknown(f"Only quota and SCRAM credential configs can be {{}} for '{USERS}'", added, deleted, allowed)
    scram = [key for key in (*added, *deleted) if key in _MECHANISMS]
    if scram and "" in entities.names:
        raise UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
            "using --bootstrap-server."
        )
    if scram and len(scram) < len(added) + len(deleted):
        raise UsageError(
            f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}' "
            "using --bootstrap-server."
        )
    return bool(scram)


def _refuse_unknown(words: str, added: Iterable[str], deleted: Iterable[str], allowed: Sequence[str]) -> None:
    """Raise UsageError for unknown names. Kafka's message shows them as a Scala Set or ArrayBuffer."""
    for verb, form, keys in (("added", "Set", added), ("deleted", "ArrayBuffer", deleted)):
        unknown = [key if "=" not in key else f"{key.partition('=')[0]}={HIDDEN}" for key in keys if key not in allowed]
        if unknown:
            names = f"{form}({', '.join(unknown)})"
            raise UsageError(
                f"{words.format(verb)} using --bootstrap-server. Unexpected config names: {names}",
                did_you_mean_name(unknown[0], allowed),
            )


def _quotas(
    admin: AdminClient, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]
) -> RequestedConfigs:
    requested: dict[str, Value | None] = {key: _quota(key, text) for key, text in added.items()}
    if deleted:
        quotas = describe_client_quotas(admin, quota_filter(entities))
        present = quotas[0].values if quotas else {}
        missing = [key for key in deleted if key not in present]
        if missing:
            raise CommandError(f"Invalid config(s): {','.join(missing)}")
    return list((requested | dict.fromkeys(deleted)).items())


def _quota(key: str, text: str) -> float:
    try:
        return java_double(text.strip())
    except ValueError:
        raise UsageError(f"Cannot parse quota configuration value for {key}: {text}") from None


def _alter_scram(
    console: Console,
    args: Args,
    admin: AdminClient,
    entities: Entities,
    added: Mapping[str, str],
    deleted: Sequence[str],
) -> ExitStatus:
    if args.undo_file is not None:
        raise UsageError(
            "--undo-file cannot save SCRAM credentials, because brokers do not reveal them",
            "Omit --undo-file to change them without a way back.",
        )
    upsertions = [_credential(mechanism, text) for mechanism, text in added.items()]
    if args.dry_run:
        new = {upsertion.mechanism: f"iterations={upsertion.iterations}" for upsertion in upsertions}
        show(console, args, [Plan(entities, (), _scram_differences(admin, entities.names[0], new, deleted))])
        return ExitStatus.OK
    alter_user_scram_credentials(admin, entities.names[0], upsertions, deleted)
    report(console, args, entities)
    return ExitStatus.OK


def _scram_differences(
    admin: AdminClient, user: str, added: Mapping[str, str], deleted: Sequence[str]
) -> list[Difference]:
    """Return the changed credentials of a user. A new credential always differs: passwords cannot be compared. Raises
    ResourceNotFound when a deleted credential does not exist, else KafkaError."""
    before: dict[str, Setting] = {}
    for credentials in describe_user_scram_credentials(admin, [user]):
        if credentials.error is not None:
            raise credentials.error
        before = {name: Setting(f"iterations={count}", True) for name, count in credentials.iterations.items()}
    if any(mechanism not in before for mechanism in deleted):
        raise ResourceNotFound("Attempt to delete a user credential that does not exist")
    requested: dict[str, str | None] = {**added, **dict.fromkeys(deleted)}
    return [Difference(mechanism, before.get(mechanism, Setting()), new) for mechanism, new in requested.items()]


def _without_password(text: str) -> str:
    """Return a malformed credential for an error message: only the parts that are surely no password are shown."""
    iterations, comma, password = text.rpartition(",password=")
    if comma and re.fullmatch(r"iterations=\w*", iterations):
        return f"{iterations},password=..."
    match = re.match(r"iterations=-?[0-9]{1,9}(?=,|\Z)", text)
    iterations = match[0] if match is not None else ""
    password = text[len(iterations) :]
    return f"{iterations},{HIDDEN}" if iterations and password else iterations or HIDDEN


def _credential(mechanism: str, text: str) -> ScramUpsertion:
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        redacted_text = _without_password(text)
        hint = f"Write {mechanism}=[iterations=8192,password=...]; iterations= may be omitted."
        if text.startswith("["):
            hint += " In --add-config-file omit the brackets."
        raise UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={redacted_text}", hint)
    iterations = DEFAULT_ITERATIONS if match[1] in (None, "-1") else int(match[1] or 0)
    if iterations < MIN_ITERATIONS:
        message = f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism}"
        raise UsageError(message)
    remember(match[2])
    return ScramUpsertion(mechanism, iterations, match[2])
