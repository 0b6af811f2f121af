"""The entity types of `kt configs`, and their names in the config and quota APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkatools.core.admin.quotas import Entity, QuotaComponent

TOPICS = "topics"
CLIENTS = "clients"
USERS = "users"
BROKERS = "brokers"
IPS = "ips"
CLIENT_METRICS = "client-metrics"
GROUPS = "groups"
BROKER_LOGGERS = "broker-loggers"
QUOTA_KINDS = (USERS, CLIENTS, IPS)
_KIND_WORDS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


class Entities(NamedTuple):
    """Entity types with the names of their entities. The last name may be missing, for all entities of that type. A
    name of "" is the default entity."""

    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The first entity type, which decides between the config and the quota API."""
        return self.types[0]

    @property
    def name(self) -> str | None:
        """The first entity name; None for all entities of the type."""
        return self.names[0] if self.names else None


def singular(entity_type: str) -> str:
    """An entity type without its last letter, as in Kafka's messages: `topics` -> `topic`."""
    return entity_type[:-1]


def quota_kind(entity_type: str) -> str:
    """An entity type in the quota APIs: `users` -> `user`, `clients` -> `client-id`. Raises KeyError for others."""
    return {USERS: "user", CLIENTS: "client-id", IPS: "ip"}[entity_type]


def quota_entity(entities: Entities) -> tuple[tuple[str, str | None], ...]:
    """The entity as pairs of type and name for the quota APIs; a name of None is the default entity."""
    pairs = zip(entities.types, entities.names, strict=True)
    return tuple((quota_kind(kind), name or None) for kind, name in pairs)


def word_of(entity_type: str) -> str:
    """An entity type as a key in JSON: `topic`, `client-id`."""
    return quota_kind(entity_type) if entity_type in (USERS, CLIENTS, IPS) else singular(entity_type)


def entity_types_by_word() -> dict[str, str]:
    """All entity types by their JSON key, in the order that a command line has them: users before clients."""
    return {
        word_of(kind): kind for kind in (TOPICS, USERS, CLIENTS, IPS, BROKERS, BROKER_LOGGERS, CLIENT_METRICS, GROUPS)
    }


def row_of(entities: Entities) -> dict[str, str | None]:
    """The entity as a JSON object: `{"user": "alice", "client-id": null}`, null for the default entity."""
    return {word_of(kind): name or None for kind, name in zip(entities.types, entities.names, strict=True)}


def resource_type(kind: str) -> int:
    """The ConfigResource type number of an entity type. Raises KeyError for types with quotas only."""
    from kafkatools.core.admin import configs

    return {
        TOPICS: configs.TOPIC,
        BROKERS: configs.BROKER,
        BROKER_LOGGERS: configs.BROKER_LOGGER,
        CLIENT_METRICS: configs.CLIENT_METRICS,
        GROUPS: configs.GROUP,
    }[kind]


def own_source(kind: str, name: str) -> int | None:
    """The ConfigEntry source of an entity's own values; None for broker loggers, whose values are all their own."""
    from kafkatools.core.admin import configs

    if kind == BROKERS and not name:
        return configs.DYNAMIC_DEFAULT_BROKER_CONFIG
    return {
        TOPICS: configs.TOPIC_CONFIG,
        BROKERS: configs.DYNAMIC_BROKER_CONFIG,
        CLIENT_METRICS: configs.CLIENT_METRICS_CONFIG,
        GROUPS: configs.GROUP_CONFIG,
    }.get(kind)


def quota_filter(entities: Entities) -> list[QuotaComponent]:
    """The DescribeClientQuotas filter for these entities. A name of "" matches the default entity, a missing name every
    entity of its type."""
    from kafkatools.core.admin.quotas import QuotaComponent

    names: list[str | None] = [*entities.names, *[None] * (len(entities.types) - len(entities.names))]
    return [QuotaComponent(quota_kind(kind), name) for kind, name in zip(entities.types, names, strict=True)]


def entity_words(entity: Entity) -> str:
    """A quota entity in Kafka's words: `user-principal 'alice', the default client-id`."""
    names = dict(entity)
    return ", ".join(
        f"the default {words}" if names[kind] is None else f"{words} '{names[kind]}'"
        for kind, words in _KIND_WORDS.items()
        if kind in names
    )


def words_of(entities: Entities) -> str:
    """An entity as dry runs and errors name it: `topic orders`, `default of brokers`."""
    if entities.kind in QUOTA_KINDS:
        return entity_words(quota_entity(entities))
    name = entities.names[0]
    return f"{singular(entities.kind)} {name}" if name else f"default of {entities.kind}"
