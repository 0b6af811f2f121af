"""The rights that requests need, for errors that name a missing one.

A broker answers TOPIC_AUTHORIZATION_FAILED without the operation, and often without the topic. The caller knows both:
it sends a request within `needs`, or gives a result's error to `naming`. Sources of the rights: the table of
operations and resources in Kafka's documentation of authorization.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topic_rights import topic_operations
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"
_SUFFIX = "_AUTHORIZATION_FAILED"
ADVICE = "An administrator sees the rights with kt acls --list and adds one with kt acls --add."


class Right(NamedTuple):
    """An operation on a resource, in the words of ACLs. The cluster has no name."""

    operation: str
    resource_type: str
    name: str = ""

    def __str__(self) -> str:
        if self.resource_type == CLUSTER:
            return f"{self.operation} on the cluster"
        return f"{self.operation} on {self.resource_type.lower().replace('_', ' ')} {self.name}"


READ_ACLS, CHANGE_ACLS = Right("DESCRIBE", CLUSTER), Right("ALTER", CLUSTER)
READ_USERS, CHANGE_USERS = READ_ACLS, CHANGE_ACLS
READ_QUOTAS, CHANGE_QUOTAS = Right("DESCRIBE_CONFIGS", CLUSTER), Right("ALTER_CONFIGS", CLUSTER)


def is_missing_right(error: BaseException | None) -> bool:
    """Return whether a broker refused a request because the user lacks a right."""
    return isinstance(error, KafkaError) and error.name.endswith(_SUFFIX)


def naming(error: KafkaError, *rights: Right) -> KafkaError:
    """Return an authorization error with the missing right in its message: that of `rights` with the error's resource
    type. Any other error is returned unchanged."""
    if is_missing_right(error):
        kind = error.name.removesuffix(_SUFFIX)
        right = next((right for right in rights if right.resource_type == kind), None)
        if right is not None:
            return type(error)(f"Not authorized: the right {right} is missing")
    return error


@contextlib.contextmanager
def needs(*rights: Right) -> Iterator[None]:
    """Within it an authorization error that is raised names the missing right."""
    try:
        yield
    except KafkaError as error:
        named = naming(error, *rights)
        if named is error:
            raise
        raise named from error


def missing_topic_rights(admin: AdminClient, topics: Iterable[str], operations: Iterable[str]) -> Iterator[KafkaError]:
    """Yield an error for each topic and operation that the user is not authorized to. Brokers that do not report
    authorized operations, and topics that do not exist, give none. Raises KafkaError."""
    for name, found in topic_operations(admin, topics).items():
        for operation in operations:
            missing = TopicAuthorizationFailed()
            if isinstance(found, frozenset) and operation not in found:
                yield naming(missing, Right(operation, TOPIC, name))


def ensure_topic_rights(admin: AdminClient, topics: Iterable[str], *operations: str) -> None:
    """Raise TopicAuthorizationFailed with the first missing right. Raises other KafkaErrors, too."""
    for missing in missing_topic_rights(admin, topics, operations):
        raise missing
