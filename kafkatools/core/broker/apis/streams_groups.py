"""Handlers for streams groups (KIP-1071): StreamsGroupHeartbeat, StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafkatools.core.broker.apis.consumer_groups import message_of
from kafkatools.core.broker.apis.contexts import StreamsContext
from kafkatools.core.broker.apis.groups import client_of, committed_response, describe_each, refusal
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.streams.configured import Status
from kafkatools.core.broker.coordinators.groups.streams.group import STREAMS
from kafkatools.core.broker.coordinators.groups.streams.heartbeats import StreamsHeartbeat
from kafkatools.core.broker.coordinators.groups.streams.member import Endpoint, StreamsMember
from kafkatools.core.broker.coordinators.groups.streams.tasks import OwnedTasks, Tasks, read_tasks, task_ids
from kafkatools.core.broker.coordinators.groups.streams.topology import InternalTopic, Topology
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, CREATE, DESCRIBE, GROUP, READ, TOPIC
from kafkatools.core.broker.metadata.controller.topics import NewTopic, validate_name
from kafkatools.core.broker.metadata.image import INTERNAL_TOPICS
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    GroupAuthorizationFailed,
    InvalidGroupId,
    InvalidTopic,
    KafkaError,
    StreamsInvalidTopology,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnsupportedVersion,
)
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.slices import paced, pausing

FEATURE = "streams.version"
HIDDEN = "The described group uses topics that the client is not authorized to describe."
_SHOWN_ERRORS = 3


def handle_streams_group_heartbeat(node: StreamsContext, request: Request) -> Response:
    """Answer StreamsGroupHeartbeat: a member of a streams group joins, stays or leaves (KIP-1071).

    The response has the member's epoch, its tasks when they changed, and a status for what keeps the group from
    running. Missing internal topics are created with the rights of the member. It is sent once the group's records are
    committed; a KafkaError is its error code, at once.
    """
    entity = request.decode()
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, READ, GROUP, entity.group_id)
        heartbeat = _read(entity, request)
        if heartbeat.topology is not None:
            _ensure_topics(node, request, heartbeat.topology.topics)
        result = node.groups.streams_heartbeat(heartbeat)
        fields = result.fields
        if result.missing_topics:
            _create_topics(node, request, entity.group_id, result.missing_topics, fields["status"])
    except KafkaError as error:
        fields = _heartbeat_refusal(coordinator_error_code(error), message_of(error))
    return committed_response(node, request, entity.group_id, fields, _heartbeat_refusal)


def _heartbeat_refusal(code: int, message: str | None = None) -> Fields:
    return {"error_code": code, "error_message": message, "status": []}


def ensure_enabled(node: StreamsContext) -> None:
    """Raise UnsupportedVersion if streams.version or group.coordinator.rebalance.protocols rules streams groups out."""
    is_offered = STREAMS in node.config.group_coordinator_rebalance_protocols
    if not is_offered or node.image.features.get(FEATURE, 0) < 1:
        raise UnsupportedVersion()


def _read(entity: Entity, request: Request) -> StreamsHeartbeat:
    endpoint, tags = entity.user_endpoint, entity.client_tags
    return StreamsHeartbeat(
        group_id=entity.group_id,
        member_id=entity.member_id,
        member_epoch=entity.member_epoch,
        client=client_of(request),
        endpoint_epoch=entity.endpoint_information_epoch,
        instance_id=entity.instance_id,
        rack_id=entity.rack_id,
        rebalance_timeout_ms=entity.rebalance_timeout,
        topology=None if entity.topology is None else Topology.read(entity.topology),
        active=None if entity.active_tasks is None else read_tasks(entity.active_tasks),
        standby=None if entity.standby_tasks is None else read_tasks(entity.standby_tasks),
        warmup=None if entity.warmup_tasks is None else read_tasks(entity.warmup_tasks),
        process_id=entity.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=None if tags is None else {tag.key: tag.value for tag in tags},
        has_task_offsets=entity.task_offsets is not None,
        has_task_end_offsets=entity.task_end_offsets is not None,
        is_shutdown=entity.shutdown_application,
    )


def _ensure_topics(node: StreamsContext, request: Request, topics: Collection[str]) -> None:
    """Raise StreamsInvalidTopology for internal or invalid names, TopicAuthorizationFailed unless the client may
    describe all topics."""
    prohibited = [name for name in topics if name in INTERNAL_TOPICS]
    if prohibited:
        raise StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    invalid = [name for name in topics if not _is_valid(name)]
    if invalid:
        raise StreamsInvalidTopology(f"Topic names {','.join(invalid)} are not valid topic names.")
    for name in paced(topics):
        node.authorize_or_raise(request, DESCRIBE, TOPIC, name)


def _is_valid(name: str) -> bool:
    try:
        validate_name(name)
    except InvalidTopic:
        return False
    return True


# -- internal topics ---------------------------------------------------------------------------------------------------
def _create_topics(
    node: StreamsContext, request: Request, group_id: str, topics: Iterable[InternalTopic], statuses: list[Fields]
) -> None:
    """Create internal topics if the client may. The status of missing topics tells what prevents it."""
    topics = list(topics)
    status = next((row for row in statuses if row["status_code"] == Status.MISSING_INTERNAL_TOPICS), None)
    assert status is not None
    if not node.authorize(request, CREATE, CLUSTER, CLUSTER_NAME):
        refused = [topic.name for topic in topics if not node.authorize(request, CREATE, TOPIC, topic.name)]
        if refused:
            status["status_detail"] += f"; Unauthorized to CREATE on topics {', '.join(refused)}."
            return
    groups, now_ms = node.groups.streams, node.clock.now_ms()
    failures = groups.failures
    until_ms = now_ms + 2 * groups.settings.heartbeat_interval_ms(group_id)
    known = failures.of((topic.name for topic in topics), now_ms)
    for topic in topics:
        if topic.name in known:
            continue
        with pausing(None):
            new = NewTopic(topic.name, topic.partitions, topic.replication_factor or -1, (), dict(topic.configs))
            result = node.create_topic_later(new)
        if isinstance(result, KafkaError) and not isinstance(result, TopicAlreadyExists):
            failures.note(topic.name, str(result), until_ms)
    found = failures.of((topic.name for topic in topics), now_ms)
    if found:
        shown = ", ".join(f"{name} ({message})" for name, message in list(found.items())[:_SHOWN_ERRORS])
        more = f" and {len(found) - _SHOWN_ERRORS} more" if len(found) > _SHOWN_ERRORS else ""
        status["status_detail"] += f"; Creation failed: {shown}{more}."


# -- describe ----------------------------------------------------------------------------------------------------------
def handle_streams_group_describe(node: StreamsContext, request: Request) -> Response:
    """Answer StreamsGroupDescribe: state, topology, members and tasks of streams groups, one result or error per
    distinct group (KIP-1071)."""
    entity = request.decode()
    return describe_each(node, request, entity, entity.group_ids, _description)


def _description(node: StreamsContext, request: Request, group_id: str) -> Fields:
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DESCRIBE, GROUP, group_id)
        if not group_id:
            raise InvalidGroupId()
        node.groups.ensure_active(group_id)
        return _describe(node, request, group_id)
    except KafkaError as error:
        is_plain = isinstance(error, GroupAuthorizationFailed | InvalidGroupId) or not str(error)
        return refusal(group_id, error.code, None if is_plain else str(error))


def _describe(node: StreamsContext, request: Request, group_id: str) -> Fields:
    group = node.groups.streams.checked(group_id, node.groups.replicated.of(group_id))
    topology, configured = group.topology, group.configured
    described: Fields | None = None
    if topology is not None:
        if not all(node.authorize(request, DESCRIBE, TOPIC, name) for name in topology.topics):
            raise TopicAuthorizationFailed(HIDDEN)
        if configured is not None and configured.is_ready:
            described = configured.described()
        else:
            parts = [topology.subtopologies[key].described() for key in sorted(topology.subtopologies)]
            described = {"epoch": topology.epoch, "subtopologies": parts}
    return {
        "group_id": group_id,
        "group_state": group.state_name,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "topology": described,
        "members": [
            _member(member, group.target_of(member.member_id)) for member in paced(list(group.members.values()))
        ],
    }


def _member(member: StreamsMember, target: Tasks) -> Fields:
    endpoint = member.endpoint
    return {
        "member_id": member.member_id,
        "member_epoch": member.member_epoch,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": None if endpoint is None else {"host": endpoint.host, "port": endpoint.port},
        "client_tags": [{"key": key, "value": value} for key, value in member.client_tags.items()],
        "task_offsets": [],
        "task_end_offsets": [],
        "assignment": _tasks(member.assigned),
        "target_assignment": _tasks(target),
        "is_classic": False,
    }


def _tasks(tasks: Tasks | OwnedTasks) -> Fields:
    return {
        "active_tasks": task_ids(tasks.active),
        "standby_tasks": task_ids(tasks.standby),
        "warmup_tasks": task_ids(tasks.warmup),
    }
