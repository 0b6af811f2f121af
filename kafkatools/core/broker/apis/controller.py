"""What nodes of the cluster ask of the active controller: registrations, heartbeats, ISR changes, producer ids and
directories of replicas. All need CLUSTER_ACTION.
"""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import ControllerContext
from kafkatools.core.broker.server.apis import ensure_permitted
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.protocol.entities import Entity


def _permitted(node: ControllerContext, request: Request) -> Entity:
    """The request of a node of the cluster; raises ClusterAuthorizationFailed."""
    entity: Entity = request.decode()
    ensure_permitted(node, request)
    return entity


def handle_broker_registration(node: ControllerContext, request: Request) -> Response:
    """BrokerRegistration: a broker tells the active controller that it starts, and gets its epoch."""
    entity = _permitted(node, request)
    return request.respond({"broker_epoch": node.controller.register_broker(entity, node.clock.now_ms())})


def handle_broker_heartbeat(node: ControllerContext, request: Request) -> Response:
    """BrokerHeartbeat: a broker lives, and wants to be unfenced or to stop."""
    entity = _permitted(node, request)
    return request.respond(node.controller.heartbeat(entity, node.clock.now_ms()))


def handle_controller_registration(node: ControllerContext, request: Request) -> Response:
    """ControllerRegistration: a controller says where it listens and what it supports (KIP-919)."""
    entity = _permitted(node, request)
    node.controller.register_controller(entity)
    return request.respond({})


def handle_alter_partition(node: ControllerContext, request: Request) -> Response:
    """AlterPartition: a leader changes the ISR of its partitions. One result per partition."""
    entity = _permitted(node, request)
    return request.respond(node.controller.alter_partitions(entity))


def handle_allocate_producer_ids(node: ControllerContext, request: Request) -> Response:
    """AllocateProducerIds: a block of producer ids for a broker."""
    entity = _permitted(node, request)
    block = node.controller.take_producer_ids(entity.broker_id, entity.broker_epoch)
    return request.respond({"producer_id_start": block.start, "producer_id_len": len(block)})


def handle_assign_replicas_to_dirs(node: ControllerContext, request: Request) -> Response:
    """AssignReplicasToDirs: a broker says in which directories its replicas are (KIP-858). One result per
    partition."""
    entity = _permitted(node, request)
    return request.respond(node.controller.assign_directories(entity))
