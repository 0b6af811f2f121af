"""Handlers for replicas and leaders: AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat

from kafkatools.core.broker.apis.contexts import ChangeContext
from kafkatools.core.broker.server.apis import decode_permitted, ensure_permitted
from kafkatools.core.broker.server.requests import Request, Response, outcome_fields
from kafkatools.core.errors import KafkaError, NoReassignmentInProgress
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.slices import paced


def handle_alter_partition_reassignments(node: ChangeContext, request: Request) -> Response:
    """Answer AlterPartitionReassignments: begin reassignments, and cancel them for partitions without target replicas,
    one result per partition.

    A reassignment to the current replicas is complete at once. When the whole request fails, as without ALTER on the
    cluster, the response and every partition have the error.
    """
    entity = request.decode()
    allow_change = entity.allow_replication_factor_change
    changes = [
        (topic.name, partition.partition_index, partition.replicas)
        for topic in entity.topics
        for partition in paced(topic.partitions)
    ]
    failure: KafkaError | None = None
    outcomes: Iterator[KafkaError | None]
    try:
        ensure_permitted(node, request)
        outcomes = iter(node.controller.alter_reassignments(changes, may_change_factor=allow_change))
    except KafkaError as error:
        failure, outcomes = error, repeat(error)
    responses = [
        {
            "name": topic.name,
            "partitions": [
                _reassigned(partition.partition_index, next(outcomes)) for partition in paced(topic.partitions)
            ],
        }
        for topic in entity.topics
    ]
    fields = {
        "allow_replication_factor_change": allow_change or (failure is None and not responses),
        "error_message": None if responses else "",
        "responses": responses,
    }
    return request.respond({**fields, **outcome_fields(failure)})


def _reassigned(index: int, error: KafkaError | None) -> Fields:
    if isinstance(error, NoReassignmentInProgress):
        return {"partition_index": index, "error_code": error.code}
    return {"partition_index": index, **outcome_fields(error)}


def handle_list_partition_reassignments(node: ChangeContext, request: Request) -> Response:
    """Answer ListPartitionReassignments: current, adding and removing replicas of the partitions under reassignment, of
    the named ones or of all. Raises ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    requested = None
    if entity.topics is not None:
        requested = [(topic.name, list(topic.partition_indexes)) for topic in paced(entity.topics)]
    topics = []
    for name, partitions in node.controller.list_reassignments(requested):
        fields = [
            {
                "partition_index": partition.partition_id,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding_replicas,
                "removing_replicas": partition.removing_replicas,
            }
            for partition in partitions
        ]
        topics.append({"name": name, "partitions": fields})
    return request.respond({"topics": topics})


def handle_elect_leaders(node: ChangeContext, request: Request) -> Response:
    """Answer ElectLeaders: preferred or unclean elections, one result per partition.

    A request for all partitions leaves out those that need no election, as in Kafka. When the whole request fails, as
    without ALTER on the cluster, the response and every named partition have the error.
    """
    entity = request.decode()
    requested = None
    if entity.topic_partitions is not None:
        requested = [(topic.topic, list(topic.partitions)) for topic in entity.topic_partitions]
    error_code = 0
    outcomes: Iterable[tuple[str, Iterable[tuple[int, KafkaError | None]]]]
    try:
        ensure_permitted(node, request)
        outcomes = node.controller.elect_leaders(int(entity.election_type), requested)
    except KafkaError as error:
        error_code = error.code
        outcomes = [(name, [(index, error) for index in partitions]) for name, partitions in requested or ()]
    results = [
        {
            "topic": name,
            "partition_result": [
                {"partition_id": index, **outcome_fields(error)} for index, error in paced(partitions)
            ],
        }
        for name, partitions in outcomes
    ]
    return request.respond({"error_code": error_code, "replica_election_results": results})
