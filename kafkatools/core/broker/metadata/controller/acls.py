"""ACLs in the metadata log: their index, creation, search and deletion.

Source: AclControlManager, AclsImage, AclBindingFilter and ResourcePatternFilter of Apache Kafka 4.3. Functions are
pure: they take the ACLs and return records. The authorizer decides what an ACL allows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kafkatools.core.errors import InvalidRequest, KafkaError, SecurityDisabled, UnknownServerError
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord

UNKNOWN, ANY = 0, 1
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = 2, 3, 4, 5, 6, 7
MATCH, LITERAL, PREFIXED = 2, 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT = range(10, 16)
WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"


class Acl(NamedTuple):
    """An ACL (StandardAcl); the numbers are those of the wire format."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """An ACL filter: None and ANY match everything, MATCH matches every pattern that covers the resource name."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission_type: int = ANY

    @property
    def has_unknown(self) -> bool:
        """Return whether a field is UNKNOWN, so that the request is invalid."""
        return UNKNOWN in (self.resource_type, self.pattern_type, self.operation, self.permission_type)

    def fits(self, acl: Acl) -> bool:
        """Return whether the filter matches an ACL (AclBindingFilter.matches)."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._fits_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )

    def _fits_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        name = self.resource_name
        if name is None:
            return True
        if self.pattern_type != MATCH:
            return name == acl.resource_name
        if acl.pattern_type == LITERAL:
            return acl.resource_name in (name, WILDCARD)
        return name.startswith(acl.resource_name)


class Acls:
    """All ACLs by id, and by resource for the authorizer."""

    def __init__(self) -> None:
        self.by_id: dict[uuid.UUID, Acl] = {}
        self.ids: dict[Acl, uuid.UUID] = {}
        self.by_resource: dict[tuple[int, int, str], list[Acl]] = {}
        self.prefix_lengths: dict[int, dict[int, int]] = {}

    def add(self, record: Entity) -> None:
        """Replay an AccessControlEntryRecord; an ACL that exists under another id is ignored."""
        acl = Acl(*(getattr(record, name) for name in Acl._fields))
        if acl in self.ids:
            return
        self.by_id[record.id] = acl
        self.ids[acl] = record.id
        self.by_resource.setdefault((acl.resource_type, acl.pattern_type, acl.resource_name), []).append(acl)
        if acl.pattern_type == PREFIXED:
            lengths = self.prefix_lengths.setdefault(acl.resource_type, {})
            lengths[len(acl.resource_name)] = lengths.get(len(acl.resource_name), 0) + 1

    def remove(self, record: Entity) -> None:
        """Replay a RemoveAccessControlEntryRecord."""
        acl = self.by_id.pop(record.id, None)
        if acl is None:
            return
        del self.ids[acl]
        key = (acl.resource_type, acl.pattern_type, acl.resource_name)
        self.by_resource[key].remove(acl)
        if not self.by_resource[key]:
            del self.by_resource[key]
        if acl.pattern_type == PREFIXED:
            lengths = self.prefix_lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def covering(self, resource_type: int, name: str) -> Iterator[list[Acl]]:
        """Yield, for each pattern that covers a resource name, the list of its ACLs: literal, `*` and prefixed
        patterns."""
        for literal in (name, WILDCARD):
            acls = self.by_resource.get((resource_type, LITERAL, literal))
            if acls is not None:
                yield acls
        for length in self.prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                acls = self.by_resource.get((resource_type, PREFIXED, name[:length]))
                if acls is not None:
                    yield acls

    def matching(self, acl_filter: AclFilter) -> list[Acl]:
        """Return the ACLs that match a filter."""
        return [acl for acl in self.ids if acl_filter.fits(acl)]

    def records(self) -> Iterator[Any]:
        """Yield the records of all ACLs for a snapshot."""
        for acl, acl_id in self.ids.items():
            yield record_of(acl_id, acl)


def record_of(acl_id: uuid.UUID, acl: Acl) -> Any:
    """Return the AccessControlEntryRecord of an ACL."""
    return AccessControlEntryRecord(id=acl_id, **acl._asdict())


def ensure_enabled(has_authorizer: bool, message: str) -> None:
    """Raise SecurityDisabled with `message` on a broker without an authorizer (AclApis)."""
    if not has_authorizer:
        raise SecurityDisabled(message)


def check_new_acl(acl: Acl) -> None:
    """Check that an ACL is valid (AclControlManager.validateNewAcl). Raises InvalidRequest, UnknownServerError."""
    if acl.resource_type == CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if ANY in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type) or acl.pattern_type == MATCH:
        raise UnknownServerError()  # Kafka rejects such an ACL with an exception without an error code
    for value, highest, label in (
        (acl.resource_type, USER, "resourceType"),
        (acl.pattern_type, PREFIXED, "patternType"),
        (acl.operation, TWO_PHASE_COMMIT, "operation"),
        (acl.permission_type, ALLOW, "permissionType"),
    ):
        if not 0 < value <= highest:
            raise InvalidRequest(f"Invalid {label} UNKNOWN")
    if ":" not in acl.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )


def create(acls: Acls, new_acls: Sequence[Acl], make_id: Any) -> tuple[list[KafkaError | None], list[Any]]:
    """Return an error or None for each ACL, and the records of the valid ones that do not exist yet."""
    results: list[KafkaError | None] = []
    records: list[Any] = []
    created: set[Acl] = set()
    for acl in new_acls:
        try:
            check_new_acl(acl)
        except KafkaError as error:
            results.append(error)
            continue
        results.append(None)
        if acl not in acls.ids and acl not in created:
            created.add(acl)
            records.append(record_of(make_id(), acl))
    return results, records


def delete(acls: Acls, filters: Iterable[AclFilter]) -> tuple[list[list[Acl]], list[Any]]:
    """Return the ACLs that each filter matches, and the records that delete them."""
    results = [acls.matching(acl_filter) for acl_filter in filters]
    deleted_ids = {acls.ids[acl]: None for matches in results for acl in matches}
    return results, [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in deleted_ids]
