"""Client quotas of users, client ids and IP addresses (KafkaAdminClient, KIP-546).

An entity is a tuple of (USER, CLIENT_ID or IP, name) pairs; the name None means the default entity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in, first_error
from kafkatools.core.protocol import entities
from kafkatools.core.protocol.api_versions import ApiKey

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

# How a component of a filter is matched (DescribeClientQuotasRequest).
_EXACT = 0
_DEFAULT = 1
_ANY = 2

Entity = tuple[tuple[str, str | None], ...]


class QuotaComponent(NamedTuple):
    """A filter component: entities of a kind with this name, the default entity (""), or any name (None)."""

    kind: str
    name: str | None = None


class EntityQuotas(NamedTuple):
    """The quotas of one entity by name, both in the broker's order."""

    entity: Entity
    values: Mapping[str, float]


def describe_client_quotas(
    admin: AdminClient, components: Sequence[QuotaComponent], *, strict: bool = True
) -> list[EntityQuotas]:
    """Return the quotas of entities that match all components; with `strict`, only of entities without further
    components. Raises KafkaError."""
    fields = {
        "components": [
            {"entity_type": component.kind, "match_type": _match_type(component.name), "match": component.name or None}
            for component in components
        ],
        "strict": strict,
    }
    response = admin.send(ApiKey.DESCRIBE_CLIENT_QUOTAS, fields, check=error_in)
    return [
        EntityQuotas(_entity(entry), {value.key: float(value.value) for value in entry.values})
        for entry in response.entries or ()
    ]


def _match_type(name: str | None) -> int:
    if name is None:
        return _ANY
    return _EXACT if name else _DEFAULT


def _entity(entry: entities.Entity) -> Entity:
    return tuple((part.entity_type, part.entity_name) for part in entry.entity)


def alter_client_quotas(
    admin: AdminClient, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
) -> None:
    """Set quotas of an entity, or remove those with None; all or nothing. With `validate_only`, only check. Raises
    KafkaError."""
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [
            {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
            for key, value in changes.items()
        ],
    }
    admin.change(
        ApiKey.ALTER_CLIENT_QUOTAS,
        {"entries": [entry], "validate_only": validate_only},
        lambda response: first_error(response.entries),
    )
