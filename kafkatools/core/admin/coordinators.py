"""Requests about groups and transactional ids, sent to their coordinators (CoordinatorStrategy, AdminApiDriver).

Keys are looked up together (FindCoordinator batches from version 4 on, KIP-699). Then each coordinator gets one request
for all its keys if the API allows it, else one per key, all in parallel. Every key ends with a result or its own error.
A key whose coordinator moved or is loading is looked up again and retried until the deadline. While the coordinator is
missing or unreachable, retries last request.timeout.ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.errors import CoordinatorNotAvailable, InvalidGroupId, KafkaError, Timeout, UnsupportedVersion
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import NEVER, ApiKey
from kafkatools.core.protocol.entities import Entity, Fields

R = TypeVar("R")
Result = TypeVar("Result", covariant=True)

GROUP = 0
TRANSACTION = 1

_FIRST_VERSION_OF_MANY = 4
_NOT_BATCHED = NEVER


NOBODY = -1
_TOPICS = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}


class Coordinator(NamedTuple):
    """The broker that coordinates a group or transactional id."""

    node: int
    host: str
    port: int


class CoordinatorRequest(NamedTuple, Generic[Result]):
    """Builder of a request for some keys of one coordinator, and reader of its response. `build(keys, version)` returns
    the fields, `read(response, keys)` a result or error for each key. Versions below `first_batched` take one key per
    request. With `decode` False, `response.entity` is the undecoded body."""

    api_key: int
    build: Callable[[list[str], int], Fields]
    read: Callable[[BrokerResponse, list[str]], Mapping[str, Result | KafkaError]]
    first_batched: int = 0
    min_version: int = 0
    max_version: int = NEVER
    decode: bool = True


def without_coordinator(admin: AdminClient, kind: int) -> dict[int, KafkaError]:
    """Return CoordinatorNotAvailable under the key NOBODY when partitions of the coordinator topic have no leader, else
    nothing. Groups or transactions of those partitions are missing from every broker's list. Raises KafkaError."""
    metadata = admin.metadata_of([_TOPICS[kind]], admin.deadline_ms())
    partitions = [part for topic in metadata.topics for part in topic.partitions]
    missing = sorted(part.partition_index for part in partitions if part.leader_id < 0)
    if not missing:
        return {}
    problem = f"{len(missing)} of {len(partitions)} partitions of {_TOPICS[kind]} have no leader"
    numbers = ", ".join(map(str, missing))
    return {NOBODY: CoordinatorNotAvailable(f"{problem} ({numbers}): what belongs to them is not shown")}


def listing_errors(admin: AdminClient, results: Mapping[int, object], kind: int) -> tuple[dict[int, KafkaError], bool]:
    """Return the errors of a list that all brokers were asked for, by broker, and whether any broker responded. If so,
    `without_coordinator` is among the errors. Raises KafkaError."""
    errors = {node: result for node, result in results.items() if isinstance(result, KafkaError)}
    has_responses = len(errors) < len(results)
    return errors | (without_coordinator(admin, kind) if has_responses else {}), has_responses


def one_key_each(
    api_key: int,
    build: Callable[[str, int], Fields],
    read: Callable[[BrokerResponse, str], R | KafkaError],
    min_version: int = 0,
    max_version: int = NEVER,
) -> CoordinatorRequest[R]:
    """Return a CoordinatorRequest for an API that takes one key per request."""
    return CoordinatorRequest(
        api_key,
        lambda keys, version: build(keys[0], version),
        lambda response, keys: {keys[0]: read(response, keys[0])},
        _NOT_BATCHED,
        min_version,
        max_version,
    )


def send_to_coordinators(
    admin: AdminClient,
    keys: Iterable[str],
    request: CoordinatorRequest[R],
    kind: int = GROUP,
    timeout_ms: int | None = None,
) -> dict[str, R | KafkaError]:
    """Return a result or KafkaError for every key, with retries. `kind`: GROUP or TRANSACTION. A failure of
    FindCoordinator itself is not retried. An empty group id gets InvalidGroupId."""
    coordinators: dict[str, Coordinator] = {}
    final: set[KafkaError] = set()
    reasons: dict[str, KafkaError] = {}

    def once(pending: list[str], deadline_ms: int) -> dict[str, R | KafkaError]:
        unknown = [key for key in pending if key not in coordinators]
        results: dict[str, R | KafkaError] = {}
        try:
            results.update(_add_coordinators(admin, unknown, kind, coordinators, deadline_ms))
        except KafkaError as error:
            final.add(error)
            results.update(dict.fromkeys(unknown, error))
        nodes: dict[int, list[str]] = {}
        for key in pending:
            if key in coordinators:
                nodes.setdefault(coordinators[key].node, []).append(key)
        results.update(_send(admin, list(nodes.items()), request, deadline_ms))
        for key, result in results.items():
            if isinstance(result, KafkaError):
                coordinators.pop(key, None)
                # A broker's earlier error says more than the timeout of a retry.
                reason = reasons.get(key, result) if isinstance(result, Timeout) else result
                results[key] = reasons[key] = reason
                if isinstance(result, Timeout):
                    final.add(reason)
        return results

    may_move = admin.may_move()
    return admin.retry_items(keys, once, timeout_ms, lambda error: error not in final and may_move(error))


def _add_coordinators(
    admin: AdminClient, keys: list[str], kind: int, coordinators: dict[str, Coordinator], deadline_ms: int
) -> dict[str, KafkaError]:
    """Add the keys' coordinators to `coordinators` and return the errors of the other keys. Raises KafkaError when
    FindCoordinator fails. Refreshes the broker list when it lacks a coordinator."""
    errors: dict[str, KafkaError] = {key: InvalidGroupId() for key in keys if kind == GROUP and not key}
    valid = [key for key in keys if key not in errors]
    if not valid:
        return errors
    for key, result in _find(admin, valid, kind, deadline_ms).items():
        if isinstance(result, KafkaError):
            errors[key] = result
        else:
            coordinators[key] = result
    nodes = admin.client.metadata.cluster.nodes
    if any(coordinator.node not in nodes for coordinator in coordinators.values()):
        admin.metadata_of((), deadline_ms)
        nodes = admin.client.metadata.cluster.nodes
        for key, coordinator in list(coordinators.items()):
            if coordinator.node not in nodes:
                del coordinators[key]
                errors[key] = CoordinatorNotAvailable(f"Coordinator {coordinator.node} is not in the cluster's view")
    return errors


def _find(admin: AdminClient, keys: list[str], kind: int, deadline_ms: int) -> dict[str, Coordinator | KafkaError]:
    fields = {"key_type": kind, "coordinator_keys": tuple(keys)}
    request = BrokerRequest(None, ApiKey.FIND_COORDINATOR, fields, min_version=_FIRST_VERSION_OF_MANY)
    response = admin.send_all([request], deadline_ms)[0]
    if response.error is None:
        return {coordinator.key: _coordinator(coordinator) for coordinator in response.entity.coordinators}
    if not isinstance(response.error, UnsupportedVersion):
        raise response.error
    requests = [
        BrokerRequest(
            None, ApiKey.FIND_COORDINATOR, partial(_single_key, key, kind), max_version=_FIRST_VERSION_OF_MANY - 1
        )
        for key in keys
    ]
    responses = admin.send_all(requests, deadline_ms)
    return {key: response.error or _coordinator(response.entity) for key, response in zip(keys, responses, strict=True)}


def _single_key(key: str, kind: int, version: int) -> Fields:
    return {"key": key} if version == 0 else {"key": key, "key_type": kind}


def _coordinator(entity: Entity) -> Coordinator | KafkaError:
    error = error_in(entity)
    return error or Coordinator(entity.node_id, entity.host, entity.port)


def _send(
    admin: AdminClient, groups: Sequence[tuple[int, list[str]]], request: CoordinatorRequest[R], deadline_ms: int
) -> dict[str, R | KafkaError]:
    """Send the requests to all coordinators in parallel; repeat key by key at brokers too old for batches."""
    is_batched = request.first_batched != _NOT_BATCHED
    oldest = max(request.min_version, request.first_batched) if is_batched else request.min_version
    if not is_batched:
        groups = [(node, [key]) for node, keys in groups for key in keys]
    requests = [
        BrokerRequest(node, request.api_key, partial(request.build, keys), oldest, request.max_version, request.decode)
        for node, keys in groups
    ]
    results: dict[str, R | KafkaError] = {}
    too_old: list[tuple[int, list[str]]] = []
    for (node, keys), response in zip(groups, admin.send_all(requests, deadline_ms), strict=True):
        if isinstance(response.error, UnsupportedVersion) and oldest > request.min_version:
            too_old.append((node, keys))
        elif response.error is not None:
            results.update(dict.fromkeys(keys, response.error))
        else:
            results.update(request.read(response, keys))
    if too_old:
        single = request._replace(first_batched=_NOT_BATCHED, max_version=request.first_batched - 1)
        results.update(_send(admin, too_old, single, deadline_ms))
    return results
