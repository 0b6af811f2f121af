"""Restore ACLs and quotas: missing ones are added, and quotas with other values are changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.acls import LITERAL, Acl
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.manifest import Manifest
from kafkatools.tools.declared.carry_out import DONE, carry_out
from kafkatools.tools.declared.model import ACLS, QUOTAS, Declaration, DeclaredQuotas, Place, ordered_entity
from kafkatools.tools.declared.plan import Plan, make_plan
from kafkatools.tools.declared.present import read_present
from kafkatools.tools.rights import CHANGE_ACLS, CHANGE_QUOTAS, READ_ACLS, READ_QUOTAS, naming

KINDS = {"acls": "ACLs", "quotas": "quotas"}
"""The kinds of access rights by the name of their option, with their name in sentences."""


class AccessOutcome(NamedTuple):
    """A kind with the number of changes that were made, or would be, and lines about those that failed."""

    kind: str
    changes: int
    failures: Sequence[str] = ()


def check_access(
    admin: AdminClient, manifest: Manifest, names: Mapping[str, str], kinds: Sequence[str], owner: str
) -> None:
    """Raise CommandError if access rights of these kinds cannot be read or changed. `owner`: whose rights the manifest
    has, such as "The backup"."""
    for kind in kinds:
        if kind in manifest.unknown:
            raise CommandError(
                f"{owner} has no {KINDS[kind]}: {manifest.unknown[kind]}", hint=f"Run the command without --{kind}."
            )
        try:
            plan_access(admin, manifest, names, kind)
        except KafkaError as failure:
            error = naming(failure, READ_ACLS if kind == "acls" else READ_QUOTAS)
            raise CommandError(
                f"{KINDS[kind]} cannot be set in the target: {error}",
                hint=f"Run the command without --{kind}.",
                kind=error.name,
            ) from error


def plan_access(admin: AdminClient, manifest: Manifest, names: Mapping[str, str], kind: str) -> Plan:
    """Return the changes of a kind. `names`: target names by source name; literal ACLs of a renamed topic get its new
    name. Raises KafkaError, also SecurityDisabled for ACLs in a cluster without an authorizer."""
    declaration = Declaration()
    place = Place("the backup", None, "")
    if kind == "acls":
        declaration.kinds.add(ACLS)
        for tree in manifest.acls:
            acl = Acl(**tree)
            if (acl.resource_type, acl.pattern_type) == ("TOPIC", LITERAL):
                acl = acl._replace(resource_name=names.get(acl.resource_name, acl.resource_name))
            declaration.acls[acl] = place
    else:
        declaration.kinds.add(QUOTAS)
        for item in manifest.quotas:
            entity = ordered_entity(tuple(item.entity))
            declaration.quotas[entity] = DeclaredQuotas(entity, item.values, place)
    return make_plan(declaration, read_present(admin, declaration.kinds))


def planned_access(
    admin: AdminClient, manifest: Manifest, names: Mapping[str, str], kinds: Sequence[str]
) -> Iterator[AccessOutcome]:
    """Yield the number of changes of each kind. Raises KafkaError."""
    for kind in kinds:
        yield AccessOutcome(kind, len(plan_access(admin, manifest, names, kind).changes))


def restore_access(
    admin: AdminClient, manifest: Manifest, names: Mapping[str, str], kinds: Sequence[str]
) -> Iterator[AccessOutcome]:
    """Make the changes of each kind, and yield its outcome. A kind that the manifest lacks has failed. Raises
    KafkaError."""
    for kind in kinds:
        if kind in manifest.unknown:
            yield AccessOutcome(kind, 0, [f"{KINDS[kind]} could not be read: {manifest.unknown[kind]}"])
            continue
        outcomes = list(carry_out(admin, plan_access(admin, manifest, names, kind).changes, _no_password))
        failed = [outcome for outcome in outcomes if outcome.state != DONE]
        right = CHANGE_ACLS if kind == "acls" else CHANGE_QUOTAS
        errors = [None if outcome.error is None else naming(outcome.error, right) for outcome in failed]
        lines = [
            f"{outcome.change.label}: {error or outcome.state}" for outcome, error in zip(failed, errors, strict=True)
        ]
        yield AccessOutcome(kind, len(outcomes) - len(failed), lines)


def _no_password(credential: object) -> str:
    raise CommandError("a backup has no passwords")
