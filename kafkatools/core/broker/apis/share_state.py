"""The state of share partitions, for their leaders and for coordinators of share groups (KIP-932): topics with
partitions in, a result for each out."""

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
    """InitializeShareGroupState: the state of share partitions begins (KIP-932). One answer for each partition."""
    return _answer(node, request, _initialize)


def _initialize(states: ShareCoordinator, key: ShareKey, asked: Entity) -> Outcome:
    return {}, states.initialize(key, asked.state_epoch, asked.start_offset)


def handle_read_share_group_state(node: ShareContext, request: Request) -> Response:
    """ReadShareGroupState: the state of share partitions, for their leader (KIP-932). One answer for each partition."""
    return _answer(node, request, _read_state)


def _read_state(states: ShareCoordinator, key: ShareKey, asked: Entity) -> Outcome:
    state = states.read(key, asked.leader_epoch)
    fields = {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": [batch._asdict() for batch in state.batches],
    }
    return fields, None


def handle_write_share_group_state(node: ShareContext, request: Request) -> Response:
    """WriteShareGroupState: what changed in share partitions (KIP-932, KIP-1226). One answer for each partition."""
    return _answer(node, request, _write)


def _write(states: ShareCoordinator, key: ShareKey, asked: Entity) -> Outcome:
    count, batches = asked.delivery_complete_count, batches_of(asked.state_batches)
    update = ShareUpdate(asked.state_epoch, asked.leader_epoch, asked.start_offset, count, batches)
    return {}, states.write(key, update)


def handle_delete_share_group_state(node: ShareContext, request: Request) -> Response:
    """DeleteShareGroupState: the state of share partitions ends (KIP-932). One answer for each partition."""
    return _answer(node, request, _delete)


def _delete(states: ShareCoordinator, key: ShareKey, _asked: Any) -> Outcome:
    return {}, states.delete(key)


def handle_read_share_group_state_summary(node: ShareContext, request: Request) -> Response:
    """ReadShareGroupStateSummary: where share partitions begin, for their group's coordinator (KIP-932, KIP-1226). One
    answer for each partition."""
    return _answer(node, request, _read_summary)


def _read_summary(states: ShareCoordinator, key: ShareKey, _asked: Any) -> Outcome:
    state = states.summary(key) or ShareState()
    fields = {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.delivery_complete_count,
    }
    return fields, None


def _answer(node: ShareContext, request: Request, do: Do) -> Response:
    """Do it for every partition, if the client is allowed to."""
    entity = request.decode()
    is_allowed, coordination = is_permitted(node, request), node.coordination
    statuses: list[ProduceStatus | None] = []
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
                outcome, status = do(coordination.share_states, key, partition)
                statuses.append(status)
                outcomes[name_of(key)] = outcome
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

    coordination.when_states_committed(outcomes, statuses, committed)
    return later.result()
