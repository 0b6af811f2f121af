"""The entities of kt configs, and what the APIs of settings and quotas call them."""

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
    """Types and names in their order; a name may be missing at the end (all of that type), "" is the default one."""

    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The first type: what decides how the command is carried out."""
        return self.types[0]

    @property
    def name(self) -> str | None:
        return self.names[0] if self.names else None


def singular(entity_type: str) -> str:
    """`topics` -> `topic`, `client-metrics` -> `client-metric`, as Kafka's messages say it."""
    return entity_type[:-1]


def quota_kind(entity_type: str) -> str:
    """`users` -> `user`, as the quota APIs call it."""
    return {USERS: "user", CLIENTS: "client-id", IPS: "ip"}[entity_type]


def quota_entity(entities: Entities) -> tuple[tuple[str, str | None], ...]:
    """The entity of the quota APIs."""
    pairs = zip(entities.types, entities.names, strict=True)
    return tuple((quota_kind(kind), name or None) for kind, name in pairs)


def word_of(entity_type: str) -> str:
    """A type as the key of an entity in JSON: `topic`, `client-id`."""
    return quota_kind(entity_type) if entity_type in (USERS, CLIENTS, IPS) else singular(entity_type)


def entity_types_by_word() -> dict[str, str]:
    """The types by those keys; a user goes before a client."""
    return {
        word_of(kind): kind for kind in (TOPICS, USERS, CLIENTS, IPS, BROKERS, BROKER_LOGGERS, CLIENT_METRICS, GROUPS)
    }


def row_of(entities: Entities) -> dict[str, str | None]:
    """The entity in JSON: `{"user": "alice", "client-id": null}`, null for the default one."""
    return {word_of(kind): name or None for kind, name in zip(entities.types, entities.names, strict=True)}


def resource_type(kind: str) -> int:
    """The wire's number of an entity type that is a ConfigResource."""
    from kafkatools.core.admin import configs

    return {
        TOPICS: configs.TOPIC,
        BROKERS: configs.BROKER,
        BROKER_LOGGERS: configs.BROKER_LOGGER,
        CLIENT_METRICS: configs.CLIENT_METRICS,
        GROUPS: configs.GROUP,
    }[kind]


def own_source(kind: str, name: str) -> int | None:
    """Where an entity's own settings come from; None: everything that the broker says."""
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
    """The filter that takes exactly the entities of a command line."""
    from kafkatools.core.admin.quotas import QuotaComponent

    names: list[str | None] = [*entities.names, *[None] * (len(entities.types) - len(entities.names))]
    return [QuotaComponent(quota_kind(kind), name) for kind, name in zip(entities.types, names, strict=True)]


def entity_words(entity: Entity) -> str:
    """`user-principal 'alice', the default client-id`."""
    names = dict(entity)
    return ", ".join(
        f"the default {words}" if names[kind] is None else f"{words} '{names[kind]}'"
        for kind, words in _KIND_WORDS.items()
        if kind in names
    )


def words_of(entities: Entities) -> str:
    """An entity as the lines of a dry run and of failures name it."""
    if entities.kind in QUOTA_KINDS:
        return entity_words(quota_entity(entities))
    name = entities.names[0]
    return f"{singular(entities.kind)} {name}" if name else f"default of {entities.kind}"
