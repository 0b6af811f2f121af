"""Handlers for groups of every type, ListGroups, DescribeGroups and DeleteGroups, and functions that they share."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TypeVar

from kafkatools.core.broker.apis.contexts import GroupContext
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.requests import Client, ResponseCallback
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DELETE, DESCRIBE, GROUP, TOPIC
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import CoordinatorLoadInProgress, GroupIdNotFound, KafkaError, TopicAuthorizationFailed
from kafkatools.core.java.hash_order import topic_order
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.slices import paced

# DescribeGroups
FIRST_VERSION_OF_NOT_FOUND = 6
Refuse = Callable[[int], Fields]
HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


def handle_list_groups(node: GroupContext, request: Request) -> Response:
    """Answer ListGroups: the groups that match the filters by state (KIP-518) and type (KIP-848); empty: all.

    A client that may not describe the cluster sees only groups that it may describe. Raises CoordinatorLoadInProgress.
    """
    entity = request.decode()
    states = {state.lower() for state in entity.states_filter}
    types = {kind.lower() for kind in entity.types_filter}
    if node.coordination.groups.is_loading:
        raise CoordinatorLoadInProgress()
    is_all_shown = node.authorize(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
    groups = [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_name_of_type,
            "group_state": group.state_name,
            "group_type": group.group_type,
        }
        for group in paced(list(node.groups.replicated.all()))
        if (not states or group.state_name.lower() in states)
        and (not types or group.group_type in types)
        and (is_all_shown or node.authorize(request, DESCRIBE, GROUP, group.group_id))
    ]
    return request.respond({"groups": groups})


def handle_describe_groups(node: GroupContext, request: Request) -> Response:
    """Answer DescribeGroups: state and members of classic groups, one result per distinct group.

    A group that is unknown or of another type has the state "Dead", and from version 6 on GROUP_ID_NOT_FOUND
    (KIP-1043). A group with another error has an empty state.
    """
    entity = request.decode()
    return describe_each(node, request, entity, entity.groups, _description)


def _description(node: GroupContext, request: Request, group_id: str) -> Fields:
    try:
        node.authorize_or_raise(request, DESCRIBE, GROUP, group_id)
        node.groups.ensure_active(group_id)
        return _describe(node, request.version, group_id)
    except KafkaError as error:
        return _not_described(group_id, error.code)


def _not_described(group_id: str, error_code: int, message: str | None = None, state: str = "") -> Fields:
    return {**refusal(group_id, error_code, message), "group_state": state}


def _describe(node: GroupContext, version: int, group_id: str) -> Fields:
    group = node.groups.replicated.of(group_id)
    if not isinstance(group, Group):
        dead = GroupState.DEAD.value
        if version < FIRST_VERSION_OF_NOT_FOUND:
            return _not_described(group_id, 0, state=dead)
        problem = "not found" if group is None else "is not a classic group"
        return _not_described(group_id, GroupIdNotFound.code, f"Group {group_id} {problem}.", dead)
    is_stable = group.is_in(GroupState.STABLE)
    # A rebalance between two slices changes members and protocol: all rows are of the time of the state.
    rows = [
        # What members reported holds only while the group is stable.
        (member, member.member_id, member.metadata(group.protocol_name or "") if is_stable else b"", member.assignment)
        for member in group.members.values()
    ]
    return {
        "group_id": group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol_name or "") if is_stable else "",
        "members": [
            {
                "member_id": member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client.client_id,
                "client_host": member.client.host,
                "member_metadata": metadata,
                "member_assignment": assignment,
            }
            for member, member_id, metadata, assignment in paced(rows)
        ],
    }


def handle_delete_groups(node: GroupContext, request: Request) -> Response:
    """Answer DeleteGroups: delete empty groups with their offsets, one result per group; a group that is named twice is
    deleted once. Other groups have an error, such as NON_EMPTY_GROUP. The response is sent when the deletions are
    committed."""
    entity = request.decode()
    names = list(dict.fromkeys(entity.groups_names))
    response = Deferred(request)
    codes: dict[str, int] = {}

    def committed(failed: dict[str, int]) -> None:
        results = [{"group_id": name, "error_code": failed.get(name, codes[name])} for name in names]
        response.respond({"results": results})

    def note(name: str, error: KafkaError | None) -> None:
        codes[name] = 0 if error is None else coordinator_error_code(error)
        if len(codes) == len(names):
            deleted = [name for name, code in codes.items() if not code]
            node.coordination.groups.when_all_committed(deleted, committed)

    for name in names:
        try:
            node.authorize_or_raise(request, DELETE, GROUP, name)
        except KafkaError as error:
            note(name, error)
        else:
            node.groups.delete_group_and_states(name, partial(note, name))
    if not names:
        committed({})
    node.groups.send_responses()
    return response.result()


C = TypeVar("C", bound=GroupContext)


def describe_each(
    node: C,
    request: Request,
    entity: Entity,
    group_ids: Iterable[str],
    describe: Callable[[C, Request, str], Fields],
) -> Response:
    """Respond with `describe(node, request, group_id)` of each distinct group. If the request asks for authorized
    operations, a group that the client may describe has them."""
    groups = []
    for group_id in paced(dict.fromkeys(group_ids)):
        fields = describe(node, request, group_id)
        if entity.include_authorized_operations and node.authorize(request, DESCRIBE, GROUP, group_id):
            fields["authorized_operations"] = node.authorized_operations(request, GROUP, group_id)
        groups.append(fields)
    return request.respond({"groups": groups})


def ensure_may_see(node: GroupContext, request: Request, topics: Iterable[str]) -> None:
    """Raise TopicAuthorizationFailed unless the client may describe all these topics of a group."""
    if node.authorizer is not None and not all(node.authorize(request, DESCRIBE, TOPIC, name) for name in topics):
        raise TopicAuthorizationFailed(HIDDEN)


def refusal(group_id: str, error_code: int, message: str | None = None) -> Fields:
    """The fields of a group that could not be described."""
    return {"error_code": error_code, "error_message": message, "group_id": group_id}


def topics_of(topics: GroupTopics, assignment: Mapping[uuid.UUID, Collection[int]]) -> Fields:
    """The field with a member's assignment: topic id, topic name and partitions. Deleted topics are left out."""
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": topic.name, "partitions": sorted(assignment[topic_id])}
            for topic_id in topic_order(assignment)
            if (topic := topics.by_id(topic_id)) is not None
        ]
    }


def client_of(request: Request) -> Client:
    """The client id and the host of a request, as group members have them: an empty id if there is none, and the host
    after a slash."""
    return Client(request.client_id or "", f"/{request.connection.client_host}")


def delayed_response(
    node: GroupContext, request: Request, group_id: str, run_request: Callable[[ResponseCallback], None], refuse: Refuse
) -> Response:
    """Call `run_request` with a function that takes the response's fields, now or later. Return the response or
    DELAYED.

    A response with an error is sent at once, another when all records of the group are committed. If that fails,
    `refuse` makes the fields of the response from the error code.
    """
    groups, shards = node.groups, node.coordination.groups
    deferred = Deferred(request)
    responses: list[Fields] = []

    def send(fields: Fields) -> None:
        if fields["error_code"]:
            deferred.respond(fields)
        else:
            shards.when_committed(group_id, lambda code: deferred.respond(refuse(code) if code else fields))

    def respond(fields: Fields) -> None:
        if deferred.is_delayed:
            groups.later(lambda: send(fields))
        else:
            responses.append(fields)

    run_request(respond)
    groups.send_responses()
    if responses:
        send(responses[-1])
    return deferred.result()


def committed_response(node: GroupContext, request: Request, group_id: str, fields: Fields, refuse: Refuse) -> Response:
    """Respond with these fields: at once if they have an error, else when the group's records are committed, or with
    `refuse(error code)` if that fails."""
    return delayed_response(node, request, group_id, lambda respond: respond(fields), refuse)
