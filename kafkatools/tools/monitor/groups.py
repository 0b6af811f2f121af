"""The requests about groups in one snapshot of a cluster. The broker that lists a group coordinates it, so none is
looked up.

Each coordinator gets its groups in one request per kind: a description by type, OffsetFetch, and
DescribeShareGroupOffsets for share groups. Only states, member counts, offsets and, if
requested, assignments are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.group_offsets import GroupOffsets, TopicPartition, fetch_offsets, read_offset_fetch
from kafkatools.core.admin.groups import CLASSIC, CONSUMER, SHARE, STREAMS, UNKNOWN, read_members
from kafkatools.core.admin.share_groups import ShareOffsets, read_offsets
from kafkatools.core.errors import DecodeError, KafkaError, UnsupportedVersion
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.tools.monitor.view import GroupPartition, GroupView, Owner
from kafkatools.tools.rights import GROUP, Right, naming

_Result = Entity | GroupOffsets | ShareOffsets | KafkaError

# Versions of OffsetFetch with several groups per request and topic names.
_FIRST_FETCH, _LAST_FETCH = 8, 9


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it."""

    group_id: str
    type: str
    state: str
    coordinator: int


class GroupRequests:
    """Builds the requests about groups and collects their responses; `complain(node, what, error)` gets errors.
    `with_owners`: also read the assignments of consumers."""

    def __init__(
        self,
        groups: Iterable[ListedGroup],
        complain: Callable[[int, str, KafkaError], None],
        *,
        with_owners: bool = False,
    ) -> None:
        self._groups = list(groups)
        self._complain = complain
        self._with_owners = with_owners
        self._kinds: list[tuple[_Kind, int, list[str]]] = []
        self._states: dict[str, str] = {}
        self._members: dict[str, int] = {}
        self._owners: dict[str, dict[TopicPartition, Owner]] = {}
        self._offsets: dict[str, dict[TopicPartition, tuple[int, int | None]]] = {}

    def requests(self) -> list[BrokerRequest]:
        """Return the requests: one per coordinator and kind of data. Call it once: it also records their order for
        `late_requests` and `take`."""
        requests: list[BrokerRequest] = []
        for kind in _KINDS:
            by_node: dict[int, list[str]] = {}
            for group in self._groups:
                if group.type in kind.types:
                    by_node.setdefault(group.coordinator, []).append(group.group_id)
            for node, names in by_node.items():
                self._kinds.append((kind, node, names))
                requests.append(kind.build(node, names))
        return requests

    def late_requests(self) -> list[bool]:
        """Return for each request whether its response may be late: OffsetFetch waits for pending commits."""
        return [kind.is_late for kind, _, _ in self._kinds]

    def take(self, responses: list[BrokerResponse], admin: AdminClient, timeout_ms: int) -> None:
        """Process the responses, in request order. `admin` fetches offsets from brokers too old for several groups per
        request, within `timeout_ms`. Errors go to `complain`."""
        for (kind, node, names), response in zip(self._kinds, responses, strict=True):
            if kind is _OFFSETS and isinstance(response.error, UnsupportedVersion):
                results: Mapping[str, _Result] = fetch_offsets(admin, names, timeout_ms=timeout_ms)
            elif response.error is not None:
                self._complain(node, kind.label, response.error)
                continue
            else:
                results = kind.read(response)
            self._store(kind.label, node, results)

    def _store(self, label: str, node: int, results: Mapping[str, _Result]) -> None:
        for group_id, result in results.items():
            if isinstance(result, GroupOffsets) and result.error is not None:
                result = result.error
            if isinstance(result, KafkaError):
                self._complain(node, f"{label} {group_id}", naming(result, Right("DESCRIBE", GROUP, group_id)))
            elif isinstance(result, GroupOffsets):
                self._offsets[group_id] = {key: (at.offset, None) for key, at in result.offsets.items()}
            elif isinstance(result, ShareOffsets):
                offsets = result.offsets.items()
                self._offsets[group_id] = {
                    key: (at.start_offset, at.lag) for key, at in offsets if at.start_offset is not None
                }
            else:
                self._states[group_id], self._members[group_id] = result.group_state, len(result.members)
                if self._with_owners and label != _STREAMS.label:  # their members have tasks, not partitions
                    self._store_owners(node, result)

    def _store_owners(self, node: int, group: Entity) -> None:
        """Store the member that each partition is assigned to. A damaged assignment is a problem."""
        try:
            members = read_members(group)
        except DecodeError as error:
            self._complain(node, f"assignments of group {group.group_id}", error)
            return
        self._owners[group.group_id] = {
            key: Owner(member.member_id, member.client_id, member.host)
            for member in members
            for key in member.assignment
        }

    def views(self, ends: Mapping[TopicPartition, int], takes_topic: Callable[[str], bool]) -> list[GroupView]:
        """Return the listed groups sorted by name, with the lag to these end offsets in the topics that `takes_topic`
        accepts. Members and partitions that were not reported are None."""
        views = []
        for group in sorted(self._groups):
            offsets = self._offsets.get(group.group_id)
            partitions = None
            if offsets is not None:
                partitions = tuple(
                    GroupPartition(*key, at, _lag(lag, ends.get(key), at))
                    for key, (at, lag) in sorted(offsets.items())
                    if takes_topic(key[0])
                )
            state = self._states.get(group.group_id, group.state)
            members = self._members.get(group.group_id)
            owners = self._owners.get(group.group_id) if group.type != SHARE else None  # members share partitions there
            views.append(
                GroupView(group.group_id, group.type, state, group.coordinator, members, partitions, owners=owners)
            )
        return views


def _lag(reported: int | None, end: int | None, committed: int) -> int | None:
    """Return the reported lag, else the end minus the committed offset, at least 0; None without an end. A commit may
    be newer than the end, since both are requested at the same time."""
    return reported if reported is not None or end is None else max(0, end - committed)


def read_listing(response: BrokerResponse) -> list[ListedGroup] | KafkaError:
    """Return the groups in a broker's ListGroups response, or its error."""
    return error_in(response.entity) or [
        ListedGroup(
            group.group_id,
            (getattr(group, "group_type", "") or UNKNOWN).capitalize(),
            getattr(group, "group_state", "") or UNKNOWN,
            response.node,
        )
        for group in response.entity.groups
    ]


def _read_descriptions(response: BrokerResponse) -> dict[str, Entity | KafkaError]:
    return {group.group_id: error_in(group) or group for group in response.entity.groups}


def _read_offsets(response: BrokerResponse) -> dict[str, GroupOffsets | KafkaError]:
    return read_offset_fetch(response.entity, response.api_version, "")


def _share_offsets(response: BrokerResponse) -> dict[str, ShareOffsets | KafkaError]:
    return {group.group_id: error_in(group) or read_offsets(group) for group in response.entity.groups}


def _describe_request(api_key: int, field: str) -> Callable[[int, list[str]], BrokerRequest]:
    return lambda node, names: BrokerRequest(node, api_key, {field: tuple(names)})


def _offsets_request(node: int, names: list[str]) -> BrokerRequest:
    fields = {"groups": [{"group_id": name, "topics": None} for name in names], "require_stable": False}
    return BrokerRequest(node, ApiKey.OFFSET_FETCH, fields, _FIRST_FETCH, _LAST_FETCH, decode=False)


def _share_request(node: int, names: list[str]) -> BrokerRequest:
    fields = {"groups": [{"group_id": name, "topics": None} for name in names]}
    return BrokerRequest(node, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, fields)


class _Kind(NamedTuple):
    """A kind of request: its group types, its name in problems, how to build it and to read its response.

    `is_late`: the response may wait for other brokers, as OffsetFetch does for pending commits.
    """

    types: tuple[str, ...]
    label: str
    build: Callable[[int, list[str]], BrokerRequest]
    read: Callable[[BrokerResponse], Mapping[str, _Result]]
    is_late: bool = False


_STREAMS = _Kind(
    (STREAMS,), "streams groups", _describe_request(ApiKey.STREAMS_GROUP_DESCRIBE, "group_ids"), _read_descriptions
)
_OFFSETS = _Kind((CONSUMER, CLASSIC, UNKNOWN, STREAMS), "offsets of groups", _offsets_request, _read_offsets, True)
_KINDS = (
    _Kind((CONSUMER,), "groups", _describe_request(ApiKey.CONSUMER_GROUP_DESCRIBE, "group_ids"), _read_descriptions),
    _Kind((CLASSIC, UNKNOWN), "groups", _describe_request(ApiKey.DESCRIBE_GROUPS, "groups"), _read_descriptions),
    _Kind((SHARE,), "share groups", _describe_request(ApiKey.SHARE_GROUP_DESCRIBE, "group_ids"), _read_descriptions),
    _STREAMS,
    _OFFSETS,
    _Kind((SHARE,), "offsets of share groups", _share_request, _share_offsets, True),
)
