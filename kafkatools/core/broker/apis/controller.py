"""What nodes of the cluster ask of the active controller: registrations, heartbeats, ISR changes, producer ids and
directories of replicas. All need CLUSTER_ACTION.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.contexts import ControllerContext
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.apis import ensure_permitted
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity, Fields


def answered(
    node: ControllerContext,
    request: Request,
    ask: Callable[[Any], Fields],
    refused: Mapping[str, Any] | Callable[[KafkaError], Fields],
) -> Response:
    """The answer to a node of the cluster: the fields that `ask` makes of the request, or the error's code and
    `refused`, which may be made of the error as a whole."""
    entity = request.decode()
    try:
        ensure_permitted(node, request)
        fields = ask(entity)
    except KafkaError as error:
        fields = refused(error) if callable(refused) else {"error_code": error.code, **refused}
    return request.respond(fields)


def handle_broker_registration(node: ControllerContext, request: Request) -> Response:
    """BrokerRegistration: a broker tells the active controller that it starts, and gets its epoch."""

    def register(entity: Entity) -> Fields:
        return {"error_code": 0, "broker_epoch": node.controller.register_broker(entity, node.clock.now_ms())}

    return answered(node, request, register, {"broker_epoch": -1})


def handle_broker_heartbeat(node: ControllerContext, request: Request) -> Response:
    """BrokerHeartbeat: a broker lives, and wants to be unfenced or to stop."""
    now_ms = node.clock.now_ms()
    return answered(node, request, lambda entity: node.controller.heartbeat(entity, now_ms), {"is_fenced": True})


def handle_controller_registration(node: ControllerContext, request: Request) -> Response:
    """ControllerRegistration: a controller says where it listens and what it supports (KIP-919)."""

    def register(entity: Entity) -> Fields:
        node.controller.register_controller(entity)
        return {"error_code": 0, "error_message": None}

    return answered(node, request, register, error_fields)


def handle_alter_partition(node: ControllerContext, request: Request) -> Response:
    """AlterPartition: a leader changes the ISR of its partitions. One result per partition."""
    return answered(node, request, node.controller.alter_partitions, {"topics": []})


def handle_allocate_producer_ids(node: ControllerContext, request: Request) -> Response:
    """AllocateProducerIds: a block of producer ids for a broker."""

    def allocate(entity: Entity) -> Fields:
        block = node.controller.take_producer_ids(entity.broker_id, entity.broker_epoch)
        return {"error_code": 0, "producer_id_start": block.start, "producer_id_len": len(block)}

    return answered(node, request, allocate, {"producer_id_start": 0, "producer_id_len": 0})


def handle_assign_replicas_to_dirs(node: ControllerContext, request: Request) -> Response:
    """AssignReplicasToDirs: a broker says in which directories its replicas are (KIP-858). One result per
    partition."""
    return answered(node, request, node.controller.assign_directories, {"directories": []})
