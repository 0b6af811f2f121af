"""The texts of metadata in Kafka's shell: toString of its registrations, ACLs, tokens and credentials.

Secrets are `[redacted]`, as in Kafka's MetadataNodeRedactionCriteria, unless they are asked for.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from kafkatools.core.admin.acls import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from kafkatools.core.broker.metadata.controller.acls import Acl
from kafkatools.core.broker.metadata.feature_levels import METADATA_LEVELS
from kafkatools.core.broker.metadata.image import BrokerState, PartitionState
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.uuids import uuid_text
from kafkatools.tools.metadata_shell.loading import Provenance

REDACTED = "[redacted]"
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_RECOVERY_STATES = ("RECOVERED", "RECOVERING")


def partition_text(partition: PartitionState) -> str:
    """Format a partition (PartitionRegistration.toString)."""
    directories = [*partition.directories, *[None] * (len(partition.replicas) - len(partition.directories))]
    recovery = _RECOVERY_STATES[partition.leader_recovery_state]
    return (
        f"PartitionRegistration(replicas={_list(partition.replicas)}, directories={_uuids(directories)}, "
        f"isr={_list(partition.isr)}, removingReplicas={_list(partition.removing_replicas)}, "
        f"addingReplicas={_list(partition.adding_replicas)}, elr={_list(partition.elr)}, "
        f"lastKnownElr={_list(partition.last_known_elr or ())}, leader={partition.leader}, "
        f"leaderRecoveryState={recovery}, leaderEpoch={partition.leader_epoch}, "
        f"partitionEpoch={partition.partition_epoch})"
    )


def broker_text(broker: BrokerState, registration: Entity) -> str:
    """Format a broker (BrokerRegistration.toString); `registration` is its record."""
    rack = "Optional.empty" if broker.rack is None else f"Optional[{broker.rack}]"
    migrating = getattr(registration, "is_migrating_zk_broker", False)
    return (
        f"BrokerRegistration(id={broker.broker_id}, epoch={broker.epoch}, "
        f"incarnationId={uuid_text(broker.incarnation_id)}, listeners={_listeners(registration)}, "
        f"supportedFeatures={_features(registration)}, rack={rack}, fenced={_flag(broker.is_fenced)}, "
        f"inControlledShutdown={_flag(broker.in_controlled_shutdown)}, isMigratingZkBroker={_flag(migrating)}, "
        f"directories={_uuids(broker.log_dirs)}, cordonedDirectories={_uuids(broker.cordoned_log_dirs)})"
    )


def controller_text(registration: Entity) -> str:
    """Format a controller (ControllerRegistration.toString)."""
    return (
        f"ControllerRegistration(id={registration.controller_id}, "
        f"incarnationId={uuid_text(registration.incarnation_id)}, "
        f"zkMigrationReady={_flag(registration.zk_migration_ready)}, listeners={_listeners(registration)}, "
        f"supportedFeatures={_features(registration)})"
    )


def acl_text(acl: Acl) -> str:
    """Format an ACL (StandardAcl.toString)."""
    return (
        f"StandardAcl[resourceType={RESOURCE_TYPES[acl.resource_type]}, resourceName={acl.resource_name}, "
        f"patternType={PATTERN_TYPES[acl.pattern_type]}, principal={acl.principal}, host={acl.host}, "
        f"operation={OPERATIONS[acl.operation]}, permissionType={PERMISSIONS[acl.permission_type]}]"
    )


def token_text(token: Entity, with_secrets: bool) -> str:
    """Format a delegation token (DelegationTokenDataNode)."""

    def shown(value: object) -> object:
        return value if with_secrets else REDACTED

    return (
        f"DelegationTokenDatatokenId={shown(token.token_id)}(owner={shown(token.owner)}"
        f"(tokenRequester={shown(token.requester)}(renewers={shown(' '.join(token.renewers))}, "
        f"issueTimestamp={shown(token.issue_timestamp)}, maxTimestamp={shown(token.max_timestamp)}), "
        f"expiryTimestamp={shown(token.expiration_timestamp)}"
    )


def credential_text(credential: Entity, with_secrets: bool) -> str:
    """Format a SCRAM credential (ScramCredentialDataNode)."""

    def shown(value: object) -> object:
        return value if with_secrets else REDACTED

    return (
        f"ScramCredentialData(salt={shown(bytes(credential.salt).hex())}, "
        f"storedKey={shown(bytes(credential.stored_key).hex())}, "
        f"serverKey={shown(bytes(credential.server_key).hex())}, iterations={shown(credential.iterations)})"
    )


def metadata_version_text(level: int | None) -> str:
    """Format the level of metadata.version; the number for a level of a newer Kafka."""
    if level is None:
        return "Optional.empty"
    names = {number: name for name, number in METADATA_LEVELS.items()}
    return f"Optional[{names.get(level, level)}]"


def provenance_text(provenance: Provenance) -> str:
    """Format the last record of an image (ProvenanceNode)."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=provenance.timestamp_ms)
    milliseconds = provenance.timestamp_ms % 1000
    fraction = f".{milliseconds:03}".rstrip("0") if milliseconds else ""
    time = f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"
    return f"offset {provenance.offset}, epoch {provenance.epoch}, time {time}"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _list(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _uuids(values: Iterable[uuid.UUID | None]) -> str:
    return _list(map(uuid_text, values))


def _listeners(registration: Entity) -> str:
    points = sorted(registration.end_points, key=lambda point: point.name)
    return _list(
        f"Endpoint(listenerName='{point.name}', securityProtocol={_SECURITY_PROTOCOLS[point.security_protocol]}, "
        f"host='{point.host}', port={point.port})"
        for point in points
    )


def _features(registration: Entity) -> str:
    features = sorted(registration.features, key=lambda feature: feature.name)
    ranges = (
        f"{feature.name}: {feature.min_supported_version}-{feature.max_supported_version}"
        if feature.min_supported_version != feature.max_supported_version
        else f"{feature.name}: {feature.min_supported_version}"
        for feature in features
    )
    return "{" + ", ".join(ranges) + "}"
