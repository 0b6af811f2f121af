"""Handlers for the cluster: ApiVersions, DescribeCluster, FindCoordinator, UnregisterBroker, UpdateFeatures."""

from __future__ import annotations

from struct import pack

from kafkatools.core.broker.apis.contexts import ChangeContext, ClusterContext
from kafkatools.core.broker.coordinators.internal_topic import InternalTopic
from kafkatools.core.broker.metadata.controller import acls
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.metadata.controller.features import FeatureUpdate
from kafkatools.core.broker.server.alive_brokers import AliveBrokers, endpoint
from kafkatools.core.broker.server.apis import decode_permitted
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    CoordinatorNotAvailable,
    DecodeError,
    InvalidRequest,
    KafkaError,
    MismatchedEndpointType,
    UnsupportedEndpointType,
)
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.slices import paced, pausing
from kafkatools.core.protocol.uuids import uuid_from_text

UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
# DescribeCluster
BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS = 1, 2
NAMES = {BROKER_ENDPOINTS: "BROKER", CONTROLLER_ENDPOINTS: "CONTROLLER"}
NOT_ASKED = -(2**31)
# FindCoordinator
GROUP, TRANSACTION, SHARE = 0, 1, 2
COORDINATOR_NEEDS = {
    GROUP: (acls.DESCRIBE, acls.GROUP),
    TRANSACTION: (acls.DESCRIBE, acls.TRANSACTIONAL_ID),
    SHARE: (acls.CLUSTER_ACTION, acls.CLUSTER),
}
FIRST_VERSION_OF_BATCHES = 4
FIRST_VERSION_OF_SHARE = 6


def listed_apis(request: Request) -> list[dict[str, int]]:
    """The APIs of the client's listener with their version ranges, as ApiVersions lists them: Produce from version 0
    on, all others from the lowest served version on."""
    return [
        {"api_key": api.key, "min_version": 0 if api.key is ApiKey.PRODUCE else api.lowest, "max_version": api.highest}
        for api in request.connection.acceptor.dispatch.apis.values()
    ]


def handle_api_versions(node: ClusterContext, request: Request) -> Response:
    """Answer ApiVersions: the APIs of the client's listener with their versions, and from version 3 on the feature
    levels.

    An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the APIs, as in Kafka. A malformed client
    software name or version is answered with INVALID_REQUEST. Produce is listed from version 0 on, although version 3
    is the lowest served: old librdkafka reads its features from it (KAFKA-18659). Finalized features are those of the
    metadata log. The APIs of client metrics are listed if the node has a place for them (client.metrics.file).
    """
    if request.version not in ApiKey.API_VERSIONS.versions:
        return [_unsupported_version(request)]
    if request.version >= 3:
        entity = request.decode()
        if not (_is_valid(entity.client_software_name) and _is_valid(entity.client_software_version)):
            return _respond_versions(request, {"error_code": INVALID_REQUEST})
        request.connection.software = (entity.client_software_name, entity.client_software_version)
    fields: Fields = {"api_keys": listed_apis(request)}
    if request.version >= 3:
        from kafkatools.core.broker.metadata.batches import SUPPORTED_FEATURES

        lowest = 0 if request.version >= 4 else 1  # older clients reject a minimum version of 0
        fields["supported_features"] = [
            {"name": name, "min_version": low, "max_version": high}
            for name, (low, high) in SUPPORTED_FEATURES.items()
            if low >= lowest
        ]
        fields["finalized_features"] = [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in {**node.image.features, "kraft.version": node.quorum.kraft_version}.items()
            if level > 0
        ]
        fields["finalized_features_epoch"] = node.metadata_offset - 1
    return _respond_versions(request, fields)


def _respond_versions(request: Request, fields: Fields) -> Response:
    """Respond without a flexible header: a client reads ApiVersions before it knows the broker's versions."""
    request.is_flexible = False
    return request.respond(fields)


def _is_valid(text: str) -> bool:
    """Return whether a client's software name or version is letters, digits, dots and dashes
    (ApiVersionsRequest.isValid)."""
    plain = text.replace(".", "").replace("-", "")
    return bool(text) and plain.isascii() and plain.isalnum() and text[0].isalnum() and text[-1].isalnum()


def _unsupported_version(request: Request) -> bytes:
    keys = listed_apis(request)
    body = pack(">hi", UNSUPPORTED_VERSION, len(keys))
    body += b"".join(pack(">hhh", key["api_key"], key["min_version"], key["max_version"]) for key in keys)
    return pack(">ii", len(body) + 4, request.correlation_id) + body


def handle_describe_cluster(node: ClusterContext, request: Request) -> Response:
    """Answer DescribeCluster: the brokers on a broker's listener, the controllers on a controller's listener.

    On a controller's listener the controller id is the active controller's, -1 without one. On a broker's listener it
    is this broker's: it forwards requests to the active controller. Raises UnsupportedEndpointType, or
    MismatchedEndpointType when the request asks for the other kind of endpoint.
    """
    entity = request.decode()
    endpoint_type = CONTROLLER_ENDPOINTS if node.is_controller_listener(request.listener_name) else BROKER_ENDPOINTS
    if entity.endpoint_type not in NAMES:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {entity.endpoint_type}")
    if entity.endpoint_type != endpoint_type:
        raise MismatchedEndpointType(
            f"The request was sent to an endpoint of type {NAMES[endpoint_type]}, but we wanted an endpoint of type "
            f"{NAMES[entity.endpoint_type]}"
        )
    operations = NOT_ASKED
    if entity.include_cluster_authorized_operations:
        is_allowed = node.authorize(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
        operations = node.authorized_operations(request, CLUSTER, CLUSTER_NAME) if is_allowed else 0
    if endpoint_type == CONTROLLER_ENDPOINTS:
        controller_id, voters = node.controller_id, sorted(node.controllers.items())
        nodes = [{"broker_id": voter, "host": host, "port": port} for voter, (host, port) in voters]
    else:
        controller_id, nodes = node.node_id, _brokers(node, request, entity)
    return request.respond(
        {
            "endpoint_type": endpoint_type,
            "cluster_id": node.cluster_id,
            "controller_id": controller_id,
            "brokers": nodes,
            "cluster_authorized_operations": operations,
        }
    )


def _brokers(node: ClusterContext, request: Request, entity: Entity) -> list[Fields]:
    alive = AliveBrokers(node.image, request.listener_name)
    brokers = []
    for broker in alive.nodes(with_fenced=entity.include_fenced_brokers):
        host, port = alive.addresses[broker.broker_id]
        fields = {"broker_id": broker.broker_id, "host": host, "port": port, "rack": broker.rack}
        brokers.append({**fields, "is_fenced": broker.is_fenced})
    return brokers


def handle_find_coordinator(node: ClusterContext, request: Request) -> Response:
    """Answer FindCoordinator: the broker that coordinates each group, transactional id or share partition; before
    version 4 of one key.

    That is the leader of the partition of `__consumer_offsets`, `__transaction_state` or `__share_group_state` that
    holds the key. The first request for one of these topics creates it. Each key has an error code of its own; with an
    error its node id is -1. As in Apache Kafka, error messages are those of the error code (NONE without an error)
    before version 4, and from then on only that of an unknown key type.
    """
    entity = request.decode()
    if request.pause is not None and node.creates_partitions():
        # This creates the topic of the coordinators, which must have its partitions before the response.
        node.change_in_slices(request.pause, lambda: _coordinators(node, request, entity))
    return _coordinators(node, request, entity)


def _coordinators(node: ClusterContext, request: Request, entity: Entity) -> Response:
    kind = entity.key_type
    if request.version < FIRST_VERSION_OF_BATCHES:
        with pausing(None):
            return request.respond(_find_coordinator(node, request, kind, entity.key))
    coordinators = []
    for key in paced(entity.coordinator_keys):
        with pausing(None):  # the first one may create the topic of the coordinators
            coordinators.append(_find_coordinator(node, request, kind, key))
    return request.respond({"coordinators": coordinators})


def _find_coordinator(node: ClusterContext, request: Request, kind: int, key: str) -> Fields:
    is_single = request.version < FIRST_VERSION_OF_BATCHES
    try:
        if kind not in COORDINATOR_NEEDS or (kind == SHARE and request.version < FIRST_VERSION_OF_SHARE):
            raise InvalidRequest()
        node.authorize_or_raise(request, *COORDINATOR_NEEDS[kind], CLUSTER_NAME if kind == SHARE else key)
        topic: InternalTopic = node.coordination.offsets_topic
        if kind == TRANSACTION:
            topic = node.coordination.transaction_log
        elif kind == SHARE:
            _ensure_share_key(key)
            topic = node.coordination.share_state_topic
        node_id, host, port = _endpoint(node, request, topic.leader_of(key))
    except KafkaError as error:
        message = error.message if is_single or kind not in COORDINATOR_NEEDS else ""
        return {"key": key, "error_code": error.code, "error_message": message, "node_id": -1, "port": -1}
    return {"key": key, "error_message": "NONE" if is_single else "", "node_id": node_id, "host": host, "port": port}


def _endpoint(node: ClusterContext, request: Request, node_id: int) -> tuple[int, str, int]:
    """The (id, host, port) of a broker on the client's listener. Raises CoordinatorNotAvailable for a broker that is
    unknown, fenced or without this listener."""
    broker = node.image.brokers.get(node_id)
    address = None if broker is None or broker.is_fenced else endpoint(broker, request.listener_name)
    if address is None:
        raise CoordinatorNotAvailable()
    return node_id, *address


def _ensure_share_key(key: str) -> None:
    """Raise InvalidRequest unless the key is `group:topic id:partition`; a group id may contain colons."""
    parts = key.rsplit(":", 2)
    try:
        uuid_from_text(parts[1])
        if len(parts) == 3 and parts[0] and int(parts[2]) >= 0:
            return
    except (IndexError, ValueError, DecodeError):
        pass
    raise InvalidRequest()


def handle_unregister_broker(node: ChangeContext, request: Request) -> Response:
    """Answer UnregisterBroker: remove a broker's registration.

    Unlike Apache Kafka it raises InvalidRequest on a node alone, whose only broker would then serve nothing. Raises
    ClusterAuthorizationFailed and BrokerIdNotRegistered.
    """
    broker_id = decode_permitted(node, request).broker_id
    node.controller.unregister_broker(broker_id)
    return request.respond({"error_message": ""})


def handle_update_features(node: ChangeContext, request: Request) -> Response:
    """Answer UpdateFeatures: change feature levels, all that the request names or none; with `validate_only` only check
    them.

    As in Apache Kafka, `allow_downgrade` of version 0 is ignored. Raises ClusterAuthorizationFailed and
    InvalidUpdateVersion.
    """
    entity = decode_permitted(node, request)
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)
        for update in entity.feature_updates
    ]
    node.controller.update_features(updates, validate_only=entity.validate_only)
    # Responses from version 2 on have no field for the results.
    return request.respond({"results": [{"feature": update.name, "error_message": "NONE"} for update in updates]})
