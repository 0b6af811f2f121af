"""What files declare for a cluster: topics, ACLs, client quotas and SCRAM credentials, each with its place in a file.

Values are in the form in which Kafka stores them: config values are text, quotas are numbers, ACLs have Kafka's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core.admin.acls import Acl
from kafkatools.core.admin.quotas import Entity

TOPICS, ACLS, QUOTAS, USERS = "topics", "acls", "quotas", "users"
KINDS = (TOPICS, ACLS, QUOTAS, USERS)
"""The sections of a file, in the order of a plan."""

RESOURCES = {
    "topic": "TOPIC",
    "group": "GROUP",
    "cluster": "CLUSTER",
    "transactional-id": "TRANSACTIONAL_ID",
    "delegation-token": "DELEGATION_TOKEN",
    "user-principal": "USER",
}
"""Key of a resource in a file -> Kafka's name of its type."""
ENTITIES = {
    "user": ("user", False),
    "user-defaults": ("user", True),
    "client-id": ("client-id", False),
    "client-defaults": ("client-id", True),
    "ip": ("ip", False),
    "ip-defaults": ("ip", True),
}
"""Key of a quota entity in a file -> its type, and whether it is the default entity."""
USER_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_QUOTAS = ("connection_creation_rate",)

Credential = tuple[str, str]
"""A user and a SCRAM mechanism."""


class Place(NamedTuple):
    """Where something is declared: file, line from 1 (None: unknown) and the keys that lead to it."""

    file: str
    line: int | None
    path: str

    def __str__(self) -> str:
        """The place as errors name it: `topics.yaml, line 4, topics.orders.partitions`."""
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.file}{line}" + (f", {self.path}" if self.path else "")


class DeclaredTopic(NamedTuple):
    """A topic. `partitions` and `replication` None: not compared, and the broker's default for a new topic."""

    name: str
    partitions: int | None
    replication: int | None
    configs: Mapping[str, str]
    config_places: Mapping[str, Place]
    place: Place


class DeclaredQuotas(NamedTuple):
    """The quotas of one entity by name."""

    entity: Entity
    values: Mapping[str, float]
    place: Place


class PasswordSource(NamedTuple):
    """Where a password is read from when it is needed: an environment variable or a file. One of both is None."""

    variable: str | None
    path: str | None


class DeclaredCredential(NamedTuple):
    """A SCRAM credential. `iterations` None: not compared, and Kafka's 4096 for a new one."""

    user: str
    mechanism: str
    iterations: int | None
    password: PasswordSource | None
    place: Place


@dataclass
class Declaration:
    """The content of all files. `kinds`: the sections that they have, also if empty."""

    kinds: set[str] = field(default_factory=set)
    topics: dict[str, DeclaredTopic] = field(default_factory=dict)
    acls: dict[Acl, Place] = field(default_factory=dict)
    quotas: dict[Entity, DeclaredQuotas] = field(default_factory=dict)
    users: dict[Credential, DeclaredCredential] = field(default_factory=dict)


def ordered_entity(entity: Entity) -> Entity:
    """A quota entity with the user before the client id, whatever the order of the broker."""
    return tuple(sorted(entity, key=lambda part: part[0], reverse=True))


def operation_word(name: str) -> str:
    """An operation of an ACL as Kafka's tools write it: `DESCRIBE_CONFIGS` -> `DescribeConfigs`."""
    return "".join(part.capitalize() for part in name.split("_"))
