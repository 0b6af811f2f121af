"""Authorization by the ACLs of the metadata log (Kafka's StandardAuthorizer).

Rules: a super user may do everything. Otherwise a matching DENY decides, then a matching ALLOW; without either the
answer is no. A resource without ACLs is forbidden, or with allow.everyone.if.no.acl.found allowed. An ACL matches by
principal (or `User:*`), host (or `*`) and operation (or ALL). READ, WRITE, DELETE and ALTER imply DESCRIBE, and
ALTER_CONFIGS implies DESCRIBE_CONFIGS; a DENY implies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core.broker.metadata.controller.acls import (
    ALL,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CREATE,
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOKENS,
    GROUP,
    IDEMPOTENT_WRITE,
    LITERAL,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    TWO_PHASE_COMMIT,
    USER,
    WILDCARD,
    WRITE,
    Acl,
    AclFilter,
    Acls,
)
from kafkatools.core.broker.server.requests import Request
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    ConfigError,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)

AUTHORIZATION_ERRORS: dict[int, type[KafkaError]] = {
    TOPIC: TopicAuthorizationFailed,
    GROUP: GroupAuthorizationFailed,
    CLUSTER: ClusterAuthorizationFailed,
    TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
EVERYBODY = "User:*"
IMPLIED_BY = {
    DESCRIBE: frozenset((DESCRIBE, READ, WRITE, DELETE, ALTER, ALL)),
    DESCRIBE_CONFIGS: frozenset((DESCRIBE_CONFIGS, ALTER_CONFIGS, ALL)),
}
SUPPORTED_OPERATIONS = {
    TOPIC: (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    GROUP: (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
    CLUSTER: (CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE),
    TRANSACTIONAL_ID: (DESCRIBE, WRITE, TWO_PHASE_COMMIT),
    DELEGATION_TOKEN: (DESCRIBE,),
    USER: (CREATE_TOKENS, DESCRIBE_TOKENS),
}


class StandardAuthorizer:
    """Decides by the current ACLs what a principal may do."""

    def __init__(self, acls: Acls, super_users: Iterable[str], *, allow_if_no_acl: bool) -> None:
        self.acls = acls
        self.super_users = frozenset(super_users)
        self.allow_if_no_acl = allow_if_no_acl

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Return whether a principal may do an operation on a resource from a host. For a resource that no ACL covers:
        whether allow.everyone.if.no.acl.found is set."""
        if principal in self.super_users:
            return True
        is_covered = is_allowed = False
        allowing = IMPLIED_BY.get(operation, (operation, ALL))
        for acls in self.acls.covering(resource_type, name):
            is_covered = True
            for acl in acls:
                if not _is_about(acl, principal, host):
                    continue
                if acl.permission_type == DENY:
                    if acl.operation in (operation, ALL):
                        return False
                elif acl.operation in allowing:
                    is_allowed = True
        return is_allowed if is_covered else self.allow_if_no_acl

    def authorize_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether a principal may do an operation on at least one resource of a type
        (Authorizer.authorizeByResourceType)."""
        if self.authorize(principal, host, operation, resource_type, "hardcode"):
            return True
        acls = [
            acl
            for acl in self.acls.matching(AclFilter(resource_type=resource_type))
            if _is_about(acl, principal, host) and acl.operation in (operation, ALL)
        ]
        denied = [acl for acl in acls if acl.permission_type == DENY]
        if any(acl.pattern_type == LITERAL and acl.resource_name == WILDCARD for acl in denied):
            return False
        return any(acl.permission_type != DENY and not _is_dominated(acl, denied) for acl in acls)


def _is_about(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, EVERYBODY) and acl.host in (host, WILDCARD)


def _is_dominated(acl: Acl, denied: Iterable[Acl]) -> bool:
    """Return whether a DENY covers every resource of an ALLOW; False for an ALLOW of `*`, which the caller has
    checked."""
    if acl.pattern_type == LITERAL and acl.resource_name == WILDCARD:
        return False
    for deny in denied:
        if deny.pattern_type == LITERAL:
            if acl.pattern_type == LITERAL and acl.resource_name == deny.resource_name:
                return True
        elif acl.resource_name.startswith(deny.resource_name):
            return True
    return False


def open_authorizer(config: Config, acls: Acls) -> StandardAuthorizer | None:
    """Create the authorizer of authorizer.class.name, None without one. Raises ConfigError for a wrong class or super
    user."""
    name = config.authorizer_class_name
    if not name:
        return None
    if name != STANDARD_AUTHORIZER:
        raise ConfigError(f"authorizer.class.name is {name}, but kt supports only {STANDARD_AUTHORIZER}")
    users = [user.strip() for user in (config["super.users"] or "").split(";") if user.strip()]
    invalid_user = next((user for user in users if ":" not in user), None)
    if invalid_user is not None:
        raise ConfigError(f"expected a string in format principalType:principalName but got {invalid_user}")
    return StandardAuthorizer(acls, users, allow_if_no_acl=config["allow.everyone.if.no.acl.found"])


class Authorizing:
    """The part of a node that checks its clients' rights; without an `authorizer` clients may do everything."""

    authorizer: StandardAuthorizer | None

    def authorize(self, request: Request, operation: int, resource_type: int, name: str) -> bool:
        """Return whether the client of a request may do an operation on a resource; the numbers are those of `acls`."""
        if self.authorizer is None:
            return True
        return self.authorizer.authorize(
            request.principal, request.connection.client_host, operation, resource_type, name
        )

    def authorize_or_raise(self, request: Request, operation: int, resource_type: int, name: str) -> None:
        """Raise the authorization error of the resource type unless the client of a request may do the operation."""
        if not self.authorize(request, operation, resource_type, name):
            raise AUTHORIZATION_ERRORS[resource_type]()

    def authorize_any(self, request: Request, operation: int, resource_type: int) -> bool:
        """Return whether the client may do an operation on at least one resource of a type
        (authorizeByResourceType)."""
        if self.authorizer is None:
            return True
        return self.authorizer.authorize_any(
            request.principal, request.connection.client_host, operation, resource_type
        )

    def authorized_operations(self, request: Request, resource_type: int, name: str) -> int:
        """The operations that the client may do on a resource, as a number with one bit per operation (1 << operation
        code)."""
        operations = SUPPORTED_OPERATIONS[resource_type]
        return sum(
            1 << operation for operation in operations if self.authorize(request, operation, resource_type, name)
        )
