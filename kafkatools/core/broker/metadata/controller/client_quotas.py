"""Client quotas in the metadata log, by entity: users, client ids, IP addresses and their defaults.

Source: ClientQuotaControlManager, ClientQuotasImage and QuotaConfig of Apache Kafka 4.3. Functions are pure: they take
the quotas and return records. The quotas of an entity change all or none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafkatools.core.errors import InvalidRequest, KafkaError, UnsupportedVersion
from kafkatools.core.protocol.schemas.metadata import ClientQuotaRecord

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, SPECIFIED = range(3)
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE = "request_percentage", "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
_USER_KEYS = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: "DOUBLE",
    CONTROLLER_MUTATION_RATE: "DOUBLE",
}
_IP_KEYS = {CONNECTION_CREATION_RATE: "INT"}
_LIMITS = {"INT": 2.0**31 - 1, "LONG": float(2**63 - 1)}

Entity = tuple[tuple[str, str | None], ...]
"""Types and names, sorted by type; None stands for the default entity of a type."""


class Component(NamedTuple):
    """A component of a DescribeClientQuotas filter."""

    entity_type: str
    match_type: int
    match: str | None


class Alteration(NamedTuple):
    """The changes of an entity's quotas: (key, value) in order, where None removes a quota."""

    entity: Entity
    operations: Sequence[tuple[str, float | None]]


class ClientQuotas:
    """All client quotas by entity."""

    def __init__(self) -> None:
        self.by_entity: dict[Entity, dict[str, float]] = {}
        self.version = 0

    def replay(self, record: Any) -> None:
        """Apply a ClientQuotaRecord."""
        entity = entity_of({component.entity_type: component.entity_name for component in record.entity})
        self.version += 1
        if not record.remove:
            self.by_entity.setdefault(entity, {})[record.key] = record.value
            return
        quotas = self.by_entity.get(entity, {})
        quotas.pop(record.key, None)
        if not quotas:
            self.by_entity.pop(entity, None)

    def records(self) -> Iterator[Any]:
        """Yield the records of all quotas for a snapshot."""
        for entity, quotas in self.by_entity.items():
            for key, value in quotas.items():
                yield _record(entity, key, value)


def entity_of(names: Mapping[str, str | None]) -> Entity:
    """Return the quota entity for entity names by type: its (type, name) pairs, sorted."""
    return tuple(sorted(names.items()))


def _record(entity: Entity, key: str, value: float | None) -> Any:
    return ClientQuotaRecord(
        entity=[{"entity_type": kind, "entity_name": name} for kind, name in entity],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


def alter(quotas: ClientQuotas, alterations: Sequence[Alteration]) -> tuple[dict[Entity, KafkaError | None], list[Any]]:
    """Return an error or None for each entity, and the records of the changes. An entity or key that is named twice
    gets an error; the records of the entity's first alteration stay."""
    outcomes: dict[Entity, KafkaError | None] = {}
    records: list[Any] = []
    for entity, operations in alterations:
        keys = [key for key, _ in operations]
        if entity in outcomes or len(set(keys)) != len(keys):
            entries = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
            outcomes[entity] = InvalidRequest(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{entries}}})")
            continue
        try:
            records += _changes(quotas, entity, operations)
        except KafkaError as error:
            outcomes[entity] = error
        else:
            outcomes[entity] = None
    return outcomes, records


def _changes(quotas: ClientQuotas, entity: Entity, operations: Sequence[tuple[str, float | None]]) -> list[Any]:
    allowed = _keys_of(entity)
    current = quotas.by_entity.get(entity, {})
    records = []
    for key, value in operations:
        if value is None:
            if key in current:
                records.append(_record(entity, key, None))
            continue
        _check_value(allowed, key, value)
        if current.get(key) != value:
            records.append(_record(entity, key, value))
    return records


def _keys_of(entity: Entity) -> Mapping[str, str]:
    """Return the quota keys of an entity and their types. Raises InvalidRequest for an invalid entity."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    names = dict(entity)
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    if IP not in names:
        return _USER_KEYS
    if len(names) > 1:
        raise InvalidRequest("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names[IP]
    if address is not None and not _is_address(address):
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(text: str) -> bool:
    """Return whether a text is an IP address or `localhost`. Unlike Kafka, this resolves no host names, which may
    block."""
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost"
    return True


def _check_value(allowed: Mapping[str, str], key: str, value: float) -> None:
    """Check a quota's key and value (validateQuotaKeyValue). Raises InvalidRequest."""
    kind = allowed.get(key)
    if kind is None:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if value <= 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if kind == "DOUBLE" or math.isnan(value):
        return
    if value > _LIMITS[kind]:
        raise InvalidRequest(f"Proposed value for {key} is too large for {'an INT' if kind == 'INT' else 'a LONG'}.")
    if abs(math.fmod(value, 1.0)) > 1e-6:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


def describe(quotas: ClientQuotas, components: Sequence[Component], *, strict: bool) -> dict[Entity, dict[str, float]]:
    """Return the quotas of the entities that match every component; with `strict`, only entities without other types.
    Raises InvalidRequest, UnsupportedVersion."""
    _check_components(components)
    return {
        entity: values
        for entity, values in quotas.by_entity.items()
        if all(_fits(dict(entity), component) for component in components)
        and (not strict or len(entity) == len(components))
    }


def _fits(names: Mapping[str, str | None], component: Component) -> bool:
    if component.entity_type not in names:
        return False
    name = names[component.entity_type]
    if component.match_type == EXACT:
        return name == component.match
    return component.match_type == SPECIFIED or name is None


def _check_components(components: Sequence[Component]) -> None:
    """Validate the components of a filter (ClientQuotasImage.describe). Raises InvalidRequest, UnsupportedVersion."""
    kinds: set[str] = set()
    for kind, match_type, match in components:
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in kinds:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        kinds.add(kind)
        if match_type == EXACT and match is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if match_type in (DEFAULT, SPECIFIED) and match is not None:
            label = "MATCH_TYPE_DEFAULT" if match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise InvalidRequest(f"Request specified {label}, but also specified a match string.")
        if match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise InvalidRequest(f"Unknown match type {match_type}")
    if IP in kinds and len(kinds) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
