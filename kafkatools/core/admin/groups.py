"""List, describe and delete classic, consumer and share groups (KafkaAdminClient).

Each requested group or broker ends with a result or its own error. Members of both protocols are described alike, as in
DescribeConsumerGroupsHandler: first ConsumerGroupDescribe, then DescribeGroups for groups of the classic protocol.
State names are Kafka's, such as `Stable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.coordinators import (
    GROUP,
    Coordinator,
    CoordinatorRequest,
    listing_errors,
    one_key_each,
    send_to_coordinators,
)
from kafkatools.core.admin.results import refusals
from kafkatools.core.errors import DecodeError, GroupIdNotFound, KafkaError, UnsupportedVersion
from kafkatools.core.net.requests import BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields

TopicPartition = tuple[str, int]

CLASSIC = "Classic"
CONSUMER = "Consumer"
SHARE = "Share"
STREAMS = "Streams"
UNKNOWN = "Unknown"

EMPTY = "Empty"
DEAD = "Dead"
STABLE = "Stable"

CONSUMER_PROTOCOL = "consumer"
CONSUMER_PROTOCOLS = ("", CONSUMER_PROTOCOL)
"""Protocol types of groups of consumers: without a type are those that only commit offsets."""

_FIRST_LIST_WITH_STATES = 4
_FIRST_LIST_WITH_TYPES = 5
_FIRST_REMOVAL = 3
_FIRST_REMOVAL_WITH_REASON = 5
_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


class GroupListing(NamedTuple):
    """A listed group. `type` and `state` are "Unknown" from brokers too old to report them."""

    group_id: str
    type: str
    protocol_type: str
    state: str


class GroupListings(NamedTuple):
    """Groups in the brokers' order, and errors by broker id. The error under NOBODY means that groups may be missing,
    because __consumer_offsets partitions have no leader. `has_responses`: at least one broker answered."""

    groups: list[GroupListing]
    errors: dict[int, KafkaError]
    has_responses: bool = True


class MemberDescription(NamedTuple):
    """A group member. Epoch, target assignment and `is_upgraded` are None in classic groups."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    is_upgraded: bool | None = None
    rack_id: str | None = None


class GroupDescription(NamedTuple):
    """A described group, or its error. Epochs are None for classic groups. With an error, type and state are "Unknown"
    and the coordinator is -1. `is_simple`: a classic group without a protocol type, which has committed offsets and
    never had a member (ConsumerGroupDescription.isSimpleConsumerGroup)."""

    group_id: str
    type: str
    state: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: Coordinator
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None
    error: KafkaError | None = None
    is_simple: bool = False


class NotConsumers(KafkaError, name="NOT_A_CONSUMER_GROUP"):
    """The group's members are not consumers but, for example, Kafka Connect workers."""


_NO_COORDINATOR = Coordinator(-1, "", -1)


def list_groups(
    admin: AdminClient,
    *,
    states: Collection[str] = (),
    types: Collection[str] = (),
    protocol_types: Collection[str] | None = None,
) -> GroupListings:
    """Return the groups of all brokers, and errors by broker; empty filters and `protocol_types` None match all. A
    broker too old for the `states` filter has the error UnsupportedVersion. Raises KafkaError when the brokers cannot
    be listed."""

    def fields(version: int) -> Fields:
        filters: Fields = {}
        if version >= _FIRST_LIST_WITH_STATES:
            filters["states_filter"] = tuple(states)
        elif states:
            raise UnsupportedVersion("The broker is too old to list groups by state")
        if version >= _FIRST_LIST_WITH_TYPES:
            filters["types_filter"] = tuple(types)
        return filters

    def read(response: BrokerResponse) -> Sequence[Entity] | KafkaError:
        return error_in(response.entity) or response.entity.groups

    results = admin.send_to_brokers(admin.brokers(), ApiKey.LIST_GROUPS, fields, read)
    groups: dict[str, GroupListing] = {}
    for result in results.values():
        for group in () if isinstance(result, KafkaError) else result:
            listing = _listing(group)
            is_match = protocol_types is None or listing.protocol_type in protocol_types
            if is_match and _has_type(listing, types):
                groups.setdefault(listing.group_id, listing)
    return GroupListings(list(groups.values()), *listing_errors(admin, results, GROUP))


def _listing(group: Entity) -> GroupListing:
    kind = getattr(group, "group_type", None)
    return GroupListing(
        group.group_id,
        (kind.capitalize() if kind else UNKNOWN),
        group.protocol_type,
        getattr(group, "group_state", "") or UNKNOWN,
    )


def _has_type(listing: GroupListing, types: Collection[str]) -> bool:
    """Return whether a listed group has one of the types; groups of unknown type are classic."""
    kind = CLASSIC if listing.type == UNKNOWN else listing.type
    return not types or kind.lower() in {name.lower() for name in types}


def describe_groups(
    admin: AdminClient, group_ids: Iterable[str], timeout_ms: int | None = None
) -> dict[str, GroupDescription]:
    """Return descriptions of classic and consumer groups by id, or with `error` set. A missing group has the error
    GroupIdNotFound, a classic group of another protocol type NotConsumers."""
    requested = list(dict.fromkeys(group_ids))
    deadline_ms = admin.deadline_ms(timeout_ms)
    results = send_to_coordinators(admin, requested, _CONSUMER_REQUEST, timeout_ms=admin.remaining_ms(deadline_ms))
    remaining = [key for key, result in results.items() if isinstance(result, (GroupIdNotFound, UnsupportedVersion))]
    if remaining:
        results.update(
            send_to_coordinators(admin, remaining, _CLASSIC_REQUEST, timeout_ms=admin.remaining_ms(deadline_ms))
        )
    return {key: _described(admin, key, results[key]) for key in requested}


def _described(admin: AdminClient, group_id: str, result: GroupDescription | KafkaError) -> GroupDescription:
    if isinstance(result, KafkaError):
        return GroupDescription(group_id, UNKNOWN, UNKNOWN, "", (), _NO_COORDINATOR, error=result)
    description: GroupDescription = result
    node = admin.client.metadata.cluster.nodes.get(description.coordinator.node)
    if node is None:
        return description
    return description._replace(coordinator=Coordinator(node.id, node.host, node.port))


def _reader(kind: str) -> Callable[[BrokerResponse, list[str]], dict[str, GroupDescription | KafkaError]]:

    def read_groups(response: BrokerResponse, _keys: list[str]) -> dict[str, GroupDescription | KafkaError]:
        return {
            group.group_id: error_in(group) or _modern_group(kind, group, response.node)
            for group in response.entity.groups
        }

    return read_groups


def read_members(group: Entity) -> tuple[MemberDescription, ...]:
    """Return the members of a group in a DescribeGroups, ConsumerGroupDescribe or ShareGroupDescribe response; none of
    a group whose members are no consumers. Raises DecodeError for a damaged assignment."""
    protocol_type = getattr(group, "protocol_type", None)
    if protocol_type is None:
        return tuple(_modern_member(member) for member in group.members)
    is_of_consumers = protocol_type in CONSUMER_PROTOCOLS
    return tuple(_classic_member(member) for member in group.members) if is_of_consumers else ()


def _modern_group(kind: str, group: Entity, node: int) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        kind,
        group.group_state,
        group.assignor_name,
        read_members(group),
        Coordinator(node, "", -1),
        group.group_epoch,
        group.assignment_epoch,
    )


def _modern_member(member: Entity) -> MemberDescription:
    """Convert a member of a consumer or share group, whose members lack instance id, target and member type."""
    target = getattr(member, "target_assignment", None)
    return MemberDescription(
        member.member_id,
        getattr(member, "instance_id", None),
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        None if target is None else _partitions(target),
        member.member_epoch,
        {_CLASSIC_MEMBER: False, _CONSUMER_MEMBER: True}.get(getattr(member, "member_type", -1)),
        member.rack_id,
    )


def _partitions(assignment: Entity) -> tuple[TopicPartition, ...]:
    return tuple((topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions)


def describe_share_groups(
    admin: AdminClient, group_ids: Iterable[str], timeout_ms: int | None = None
) -> dict[str, GroupDescription]:
    """Return descriptions of share groups (KIP-932) by id; a missing or other group has the error GroupIdNotFound."""
    requested = list(dict.fromkeys(group_ids))
    results = send_to_coordinators(admin, requested, _SHARE_REQUEST, timeout_ms=timeout_ms)
    return {key: _described(admin, key, results[key]) for key in requested}


def _read_classic_groups(response: BrokerResponse, keys: list[str]) -> dict[str, GroupDescription | KafkaError]:
    return {group.group_id: _classic_group(group, response) for group in response.entity.groups}


def _classic_group(group: Entity, response: BrokerResponse) -> GroupDescription | KafkaError:
    error = error_in(group)
    if error is not None:
        return error
    if group.group_state == DEAD and not group.members:
        return GroupIdNotFound(f"Group {group.group_id} not found.")
    if group.protocol_type not in CONSUMER_PROTOCOLS:
        return NotConsumers(f"GroupId {group.group_id} is not a consumer group ({group.protocol_type}).")
    try:
        members = read_members(group)
    except DecodeError as damaged:
        return damaged
    coordinator = Coordinator(response.node, "", -1)
    return GroupDescription(
        group.group_id,
        CLASSIC,
        group.group_state,
        group.protocol_data,
        members,
        coordinator,
        is_simple=not group.protocol_type,
    )


def _classic_member(member: Entity) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        getattr(member, "group_instance_id", None),
        member.client_id,
        member.client_host,
        _assignment(member.member_assignment),
    )


def _assignment(data: bytes) -> tuple[TopicPartition, ...]:
    if not data:
        return ()
    from kafkatools.core.group.subscription_protocol import decode_assignment

    return decode_assignment(data).partitions


def _build(name: str) -> Callable[[list[str], int], Fields]:
    return lambda keys, version: {name: tuple(keys)}


_CONSUMER_REQUEST = CoordinatorRequest(ApiKey.CONSUMER_GROUP_DESCRIBE, _build("group_ids"), _reader(CONSUMER))
_SHARE_REQUEST = CoordinatorRequest(ApiKey.SHARE_GROUP_DESCRIBE, _build("group_ids"), _reader(SHARE))
_CLASSIC_REQUEST = CoordinatorRequest(ApiKey.DESCRIBE_GROUPS, _build("groups"), _read_classic_groups)


def delete_groups(
    admin: AdminClient, group_ids: Iterable[str], timeout_ms: int | None = None
) -> dict[str, KafkaError | None]:
    """Delete groups without members; return None or the error for each."""

    def read(response: BrokerResponse, keys: list[str]) -> dict[str, KafkaError | bool]:
        return {result.group_id: error_in(result) or True for result in response.entity.results}

    request = CoordinatorRequest(ApiKey.DELETE_GROUPS, _build("groups_names"), read)
    return refusals(send_to_coordinators(admin, group_ids, request, timeout_ms=timeout_ms))


def remove_members(
    admin: AdminClient, group_id: str, members: Sequence[MemberDescription], reason: str
) -> dict[str, KafkaError | None]:
    """Remove members from a group (LeaveGroup, KIP-345); return the outcome of each by member id. A static member is
    named by its instance id. Raises KafkaError when the request itself fails."""

    def build(key: str, version: int) -> Fields:
        return {"group_id": key, "members": [_identity(member, reason, version) for member in members]}

    def read(response: BrokerResponse, key: str) -> dict[str, KafkaError | None] | KafkaError:
        error = error_in(response.entity)
        return error or {
            member.member_id: error_in(result) for member, result in zip(members, response.entity.members, strict=True)
        }

    request = one_key_each(ApiKey.LEAVE_GROUP, build, read, min_version=_FIRST_REMOVAL)
    result = send_to_coordinators(admin, [group_id], request)[group_id]
    if isinstance(result, KafkaError):
        raise result
    return result


def _identity(member: MemberDescription, reason: str, version: int) -> Fields:
    member_id = "" if member.group_instance_id is not None else member.member_id
    identity: Fields = {"member_id": member_id, "group_instance_id": member.group_instance_id}
    return identity | ({"reason": reason} if version >= _FIRST_REMOVAL_WITH_REASON else {})
