"""Restore ACLs and quotas: missing ones are added, and quotas with other values are changed."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.admin.acls import LITERAL, Acl
from kafkatools.core.admin.client import AdminClient
from kafkatools.tools.backup.manifest import Manifest
from kafkatools.tools.declared.model import ACLS, QUOTAS, Declaration, DeclaredQuotas, Place, ordered_entity
from kafkatools.tools.declared.plan import Plan, make_plan
from kafkatools.tools.declared.present import read_present


def plan_access(admin: AdminClient, manifest: Manifest, names: Mapping[str, str], *, acls: bool, quotas: bool) -> Plan:
    """Return the changes. `names`: target names by source name; literal ACLs of a renamed topic get its new name.
    Raises KafkaError, also SecurityDisabled for ACLs in a cluster without an authorizer."""
    declaration = Declaration()
    place = Place("the backup", None, "")
    if acls:
        declaration.kinds.add(ACLS)
        for tree in manifest.acls:
            acl = Acl(**tree)
            if (acl.resource_type, acl.pattern_type) == ("TOPIC", LITERAL):
                acl = acl._replace(resource_name=names.get(acl.resource_name, acl.resource_name))
            declaration.acls[acl] = place
    if quotas:
        declaration.kinds.add(QUOTAS)
        for item in manifest.quotas:
            entity = ordered_entity(tuple(item.entity))
            declaration.quotas[entity] = DeclaredQuotas(entity, item.values, place)
    return make_plan(declaration, read_present(admin, declaration.kinds))
