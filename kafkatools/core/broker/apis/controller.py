"""Handlers of the active controller for requests of brokers and other controllers. All need CLUSTER_ACTION."""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import ControllerContext
from kafkatools.core.broker.server.apis import decode_permitted
from kafkatools.core.broker.server.requests import Request, Response


def handle_broker_registration(node: ControllerContext, request: Request) -> Response:
    """Answer BrokerRegistration: register a broker that starts, and return its broker epoch. Raises
    ClusterAuthorizationFailed and the errors of `Controller.register_broker`, such as DuplicateBrokerRegistration."""
    entity = decode_permitted(node, request)
    return request.respond({"broker_epoch": node.controller.register_broker(entity, node.clock.now_ms())})


def handle_broker_heartbeat(node: ControllerContext, request: Request) -> Response:
    """Answer BrokerHeartbeat: extend a broker's session, and unfence it or let it shut down when it asks for that and
    may. Raises ClusterAuthorizationFailed and StaleBrokerEpoch."""
    entity = decode_permitted(node, request)
    return request.respond(node.controller.heartbeat(entity, node.clock.now_ms()))


def handle_controller_registration(node: ControllerContext, request: Request) -> Response:
    """Answer ControllerRegistration: store the listeners and supported features of a controller (KIP-919). Raises
    ClusterAuthorizationFailed and UnsupportedVersion."""
    entity = decode_permitted(node, request)
    node.controller.register_controller(entity)
    return request.respond({})


def handle_alter_partition(node: ControllerContext, request: Request) -> Response:
    """Answer AlterPartition: change the ISR of partitions for their leader, one result per partition. Raises
    ClusterAuthorizationFailed and StaleBrokerEpoch."""
    entity = decode_permitted(node, request)
    return request.respond(node.controller.alter_partitions(entity))


def handle_allocate_producer_ids(node: ControllerContext, request: Request) -> Response:
    """Answer AllocateProducerIds: reserve a block of producer ids for a broker. Raises ClusterAuthorizationFailed,
    StaleBrokerEpoch, and UnknownServerError when the ids are exhausted."""
    entity = decode_permitted(node, request)
    block = node.controller.take_producer_ids(entity.broker_id, entity.broker_epoch)
    return request.respond({"producer_id_start": block.start, "producer_id_len": len(block)})


def handle_assign_replicas_to_dirs(node: ControllerContext, request: Request) -> Response:
    """Answer AssignReplicasToDirs: store the log directories of a broker's replicas, one result each (KIP-858). Raises
    ClusterAuthorizationFailed, StaleBrokerEpoch, and UnsupportedVersion for an old metadata.version."""
    entity = decode_permitted(node, request)
    return request.respond(node.controller.assign_directories(entity))
