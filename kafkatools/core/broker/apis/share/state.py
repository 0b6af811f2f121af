"""Handlers for the persisted state of share partitions (KIP-932), called by their leaders and by group coordinators.
Requests name partitions by topic; the response has one result per partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkatools.core.broker.apis.contexts import ShareContext
from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import (
    ShareKey,
    ShareState,
    ShareUpdate,
    batches_of,
    name_of,
)
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.server.apis import is_permitted
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed, InvalidRequest, KafkaError
from kafkatools.core.protocol.entities import Entity, Fields

Outcome = tuple[Fields, ProduceStatus | None]
Do = Callable[[ShareCoordinator, ShareKey, Any], Outcome]


def handle_initialize_share_group_state(node: ShareContext, request: Request) -> Response:
    """Answer InitializeShareGroupState: create the state of share partitions with their start offset, or reset it
    (KIP-932). Each partition has an error code, such as FENCED_STATE_EPOCH."""

    def initialize(states: ShareCoordinator, key: ShareKey, requested: Entity) -> Outcome:
        return {}, states.initialize(key, requested.state_epoch, requested.start_offset)

    return _respond(node, request, initialize)


def handle_read_share_group_state(node: ShareContext, request: Request) -> Response:
    """Answer ReadShareGroupState: the state of share partitions, for the broker that leads them (KIP-932). A newer
    leader epoch in the request is stored. A partition without state has INVALID_REQUEST."""

    def read(states: ShareCoordinator, key: ShareKey, requested: Entity) -> Outcome:
        state = states.read(key, requested.leader_epoch)
        batches = [batch._asdict() for batch in state.batches]
        return {"state_epoch": state.state_epoch, "start_offset": state.start_offset, "state_batches": batches}, None

    return _respond(node, request, read)


def handle_write_share_group_state(node: ShareContext, request: Request) -> Response:
    """Answer WriteShareGroupState: update the state of share partitions (KIP-932, KIP-1226). Each partition has an
    error code: INVALID_REQUEST without state, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH for an older epoch."""

    def write(states: ShareCoordinator, key: ShareKey, requested: Entity) -> Outcome:
        count, batches = requested.delivery_complete_count, batches_of(requested.state_batches)
        epochs = requested.state_epoch, requested.leader_epoch
        return {}, states.write(key, ShareUpdate(*epochs, requested.start_offset, count, batches))

    return _respond(node, request, write)


def handle_delete_share_group_state(node: ShareContext, request: Request) -> Response:
    """Answer DeleteShareGroupState: delete the state of share partitions (KIP-932)."""
    return _respond(node, request, lambda states, key, _requested: ({}, states.delete(key)))


def handle_read_share_group_state_summary(node: ShareContext, request: Request) -> Response:
    """Answer ReadShareGroupStateSummary: epochs, start offset and delivery-complete count of share partitions (KIP-932,
    KIP-1226). A partition without state has the defaults of `ShareState`, not an error."""

    def summarize(states: ShareCoordinator, key: ShareKey, _requested: Entity) -> Outcome:
        state = states.summary(key) or ShareState()
        fields = {
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
        }
        return fields, None

    return _respond(node, request, summarize)


def _respond(node: ShareContext, request: Request, run_request: Do) -> Response:
    """Call `run_request` for every partition of the request, and respond with the results when the writes are committed
    or have failed. Without CLUSTER_ACTION every partition has CLUSTER_AUTHORIZATION_FAILED."""
    entity = request.decode()
    is_allowed, coordination = is_permitted(node, request), node.coordination
    statuses: dict[str, ProduceStatus | None] = {}
    outcomes: dict[str, Fields] = {}
    results = []
    for topic in entity.topics:
        partitions = []
        for partition in topic.partitions:
            try:
                if not is_allowed:
                    raise ClusterAuthorizationFailed()
                if not entity.group_id or topic.topic_id is None:
                    raise InvalidRequest()
                key = ShareKey(entity.group_id, topic.topic_id, partition.partition)
                outcome, status = run_request(coordination.share_states, key, partition)
                name = name_of(key)
                statuses[name], outcomes[name] = status, outcome
            except KafkaError as error:
                outcome = {"error_code": error.code, "error_message": str(error)}
            outcome["partition"] = partition.partition
            partitions.append(outcome)
        results.append({"topic_id": topic.topic_id, "partitions": partitions})
    later = Deferred(request)

    def committed(failed: dict[str, int]) -> None:
        for name, code in failed.items():
            partition = outcomes[name]["partition"]
            outcomes[name].clear()
            outcomes[name].update(partition=partition, error_code=code)
        later.respond({"results": results})

    coordination.when_states_committed(statuses, committed)
    return later.result()
