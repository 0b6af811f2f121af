"""The resources and ACL entries that the options of kt acls name (AclCommand).

Kafka's tool prints a HashSet of enums in varying order; here the order is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.exit_status import UsageError
from kafkatools.options import Args
from kafkatools.options.hints import did_you_mean_name

if TYPE_CHECKING:
    from kafkatools.core.admin.acls import Acl

_PATTERNS = ("ANY", "MATCH", "LITERAL", "PREFIXED")
_SPECIFIC = ("LITERAL", "PREFIXED")
_NO_RESOURCE = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)
_NO_PRINCIPAL = "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
_OPERATIONS = (
    "ALTER_CONFIGS", "WRITE", "ALL", "DESCRIBE", "ALTER", "CREATE", "READ", "DESCRIBE_CONFIGS", "DELETE",
    "CLUSTER_ACTION", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
)  # fmt: skip
_PRODUCER_TOPIC = ("WRITE", "CREATE", "DESCRIBE")
_PRODUCER_TRANSACTION = ("WRITE", "DESCRIBE")
_PRODUCER_CLUSTER = ("IDEMPOTENT_WRITE",)
_CONSUMER_TOPIC = ("READ", "DESCRIBE")
_CONSUMER_GROUP = ("READ",)


class Pattern(NamedTuple):
    """A resource pattern, or a filter of patterns, with Kafka's text."""

    resource_type: str
    name: str
    pattern_type: str

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.resource_type}, name={self.name}, patternType={self.pattern_type})"


class Entry(NamedTuple):
    """An access control entry: principal, host, operation and permission, with Kafka's text."""

    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation}, "
            f"permissionType={self.permission})"
        )


def pattern_of(acl: Acl) -> Pattern:
    """Return the resource pattern of an ACL."""
    return Pattern(acl.resource_type, acl.resource_name, acl.pattern_type)


def entry_of(acl: Acl) -> Entry:
    """Return the access control entry of an ACL."""
    return Entry(acl.principal, acl.host, acl.operation, acl.permission)


CLUSTER = Pattern("CLUSTER", "kafka-cluster", "LITERAL")
EntriesByPattern = dict[Pattern, list[Entry]]


def pattern_type(args: Args) -> str:
    """Return the value of --resource-pattern-type in capitals. Raises UsageError for an unknown one."""
    text: str = args.resource_pattern_type
    if text.upper() == "UNKNOWN":
        raise UsageError(f"Unknown resource-pattern-type: {text}")
    if text.upper() not in _PATTERNS:
        raise UsageError(f"Cannot parse argument '{text}' of option resource-pattern-type")
    return text.upper()


def patterns(args: Args, *, is_needed: bool) -> list[Pattern]:
    """Return the resources that the options name. Raises UsageError when there is none and `is_needed`."""
    kind = pattern_type(args)
    resources = [Pattern("TOPIC", name.strip(), kind) for name in args.topic]
    if kind == "LITERAL" and (args.cluster or args.idempotent):
        resources.append(CLUSTER)
    resources += [Pattern("GROUP", name.strip(), kind) for name in args.group]
    resources += [Pattern("TRANSACTIONAL_ID", name, kind) for name in args.transactional_id]
    resources += [Pattern("DELEGATION_TOKEN", name.strip(), kind) for name in args.delegation_token]
    resources += [Pattern("USER", name.strip(), kind) for name in args.user_principal]
    if is_needed and not resources:
        raise UsageError(_NO_RESOURCE)
    return list(dict.fromkeys(resources))


def principals(texts: Iterable[str]) -> list[str]:
    """Return the distinct principals, Type:name (SecurityUtils.parseKafkaPrincipal). Raises UsageError."""
    names = [text.strip() for text in texts]
    for principal in names:
        kind, colon, _ = principal.partition(":")
        if not kind or not colon:
            raise UsageError(f"expected a string in format principalType:principalName but got {principal}")
    return list(dict.fromkeys(names))


def to_add(args: Args) -> EntriesByPattern:
    """Return the entries that --add creates, by resource. Raises UsageError."""
    kind = pattern_type(args)
    if kind not in _SPECIFIC:
        raise UsageError(f"A '--resource-pattern-type' value of '{kind}' is not valid when adding acls.")
    requested = to_remove(args)
    if not all(requested.values()):
        raise UsageError(_NO_PRINCIPAL)
    return requested


def to_remove(args: Args) -> EntriesByPattern:
    """Return the entries that --remove removes, by resource; an empty list stands for all. Raises UsageError."""
    requested: EntriesByPattern = {}
    if not args.producer and not args.consumer:
        operations = [_operation(text.strip()) for text in args.operation or ["All"]]
        entries = _entries(args, list(dict.fromkeys(operations)))
        requested = {pattern: list(entries) for pattern in patterns(args, is_needed=True)}
    if args.producer:
        _add_operations(args, requested, {"TOPIC": _PRODUCER_TOPIC, "TRANSACTIONAL_ID": _PRODUCER_TRANSACTION})
        if args.idempotent:
            requested[CLUSTER] = _entries(args, _PRODUCER_CLUSTER)
    if args.consumer:
        _add_operations(args, requested, {"TOPIC": _CONSUMER_TOPIC, "GROUP": _CONSUMER_GROUP})
    _check_operations(requested)
    return requested


def _add_operations(args: Args, requested: EntriesByPattern, operations: Mapping[str, tuple[str, ...]]) -> None:
    for pattern in patterns(args, is_needed=True):
        if pattern.resource_type in operations:
            entries = requested.get(pattern, []) + _entries(args, operations[pattern.resource_type])
            requested[pattern] = list(dict.fromkeys(entries))


def _operation(text: str) -> str:
    """Return the name of an operation written in any case, with or without underscores; other text unchanged."""
    letters = text.replace("_", "").upper()
    return next((name for name in _OPERATIONS if name.replace("_", "") == letters), text)


def _entries(args: Args, operations: Iterable[str]) -> list[Entry]:
    entries: list[Entry] = []
    for permission, people, hosts in (
        ("ALLOW", args.allow_principal, args.allow_host),
        ("DENY", args.deny_principal, args.deny_host),
    ):
        entries += [
            Entry(principal, host, operation, permission)
            for principal in principals(people)
            for operation in operations
            for host in dict.fromkeys([host.strip() for host in hosts] or ["*"])
        ]
    return entries


def _check_operations(requested: EntriesByPattern) -> None:
    """Raise UsageError for an operation that its resource type does not support (AclEntry.supportedOperations)."""
    from kafkatools.core.admin.acls import OPERATIONS, RESOURCE_TYPES
    from kafkatools.core.broker.server.authorizer import SUPPORTED_OPERATIONS

    for pattern, entries in requested.items():
        numbers = SUPPORTED_OPERATIONS[RESOURCE_TYPES.index(pattern.resource_type)]
        supported = {"ALL", *(OPERATIONS[number] for number in numbers)}
        unsupported = next((entry.operation for entry in entries if entry.operation not in supported), None)
        if unsupported is not None:
            names = ", ".join(name for name in _OPERATIONS if name in supported)
            hint = f"{unsupported} is not among them. {did_you_mean_name(unsupported.upper(), supported)}".rstrip()
            raise UsageError(f"ResourceType {pattern.resource_type} only supports operations [{names}]", hint)
