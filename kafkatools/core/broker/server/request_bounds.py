"""Limits on the size of requests, and the choice of requests that are handled in slices.

A request costs a few microseconds for each element of its arrays, so a frame of a few kilobytes is handled at once and
a larger one goes to the slow lane. There its elements are counted first, without decoding a value: a request with more
elements than its API may have is refused. A small request may have a large response (all topics, all groups): on a
broker with many partitions, groups or offsets those APIs go to the slow lane too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkatools.core.broker.server.requests import CloseConnection, Request, Response
from kafkatools.core.errors import InvalidRequest, UnsupportedVersion
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import response_header_version
from kafkatools.core.protocol.entity_bounds import is_sound_within
from kafkatools.core.protocol.plans import plan_of
from kafkatools.core.protocol.slices import pausing

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

PRODUCE, FETCH, OFFSET_COMMIT, OFFSET_FETCH, DESCRIBE_CONFIGS = 0, 1, 8, 9, 32
# A request of this size takes at most about 15 ms. A partition of a Fetch request has at least 61 bytes.
MOST_BYTES_AT_ONCE: Final = 8 * 1024
MOST_FETCH_BYTES_AT_ONCE: Final = 128 * 1024
# A broker or a group has hundreds of settings.
MOST_DESCRIBED_BYTES_AT_ONCE: Final = 256
# Elements of all arrays together: enough for every partition of a large cluster. A quarter of a million elements take
# some 100 MiB while they are decoded.
MOST_READ: Final = 250_000
# Decoding and responding is done in slices; the change in between is one batch and cannot be interrupted.
MOST_CHANGED: Final = 20_000
MOST_OF: Final = {
    FETCH: 50_000,
    OFFSET_COMMIT: 50_000,  # a batch of 1 MiB has about 16,000 offsets
    19: 50_000,  # CreateTopics: 10,000 partitions with their replicas
    21: 50_000,  # DeleteRecords
    28: 100_000,  # TxnOffsetCommit
    DESCRIBE_CONFIGS: 50_000,
    34: 50_000,  # AlterReplicaLogDirs
    37: 50_000,  # CreatePartitions
    43: 50_000,  # ElectLeaders
    45: 50_000,  # AlterPartitionReassignments
    46: 50_000,  # ListPartitionReassignments
    55: 1000,  # DescribeQuorum: one partition
    66: 20_000,  # ListTransactions: filters
}
# Handlers that only read, and may be interrupted between two elements of a request or of a response.
READ_ONLY: Final = frozenset(
    (
        2,  # ListOffsets
        3,  # Metadata
        9,  # OffsetFetch
        10,  # FindCoordinator
        15,  # DescribeGroups
        16,  # ListGroups
        23,  # OffsetForLeaderEpoch
        29,  # DescribeAcls
        32,  # DescribeConfigs
        35,  # DescribeLogDirs
        46,  # ListPartitionReassignments
        50,  # DescribeUserScramCredentials
        61,  # DescribeProducers
        66,  # ListTransactions
        69,  # ConsumerGroupDescribe
        75,  # DescribeTopicPartitions
        77,  # ShareGroupDescribe
    )
)
# Handlers that pause until they make their change, and check again what it depends on.
PAUSING: Final = READ_ONLY | {OFFSET_COMMIT}
# APIs whose responses have all members of groups, all replicas of a broker or all transactions.
LARGE_ANSWERS: Final = frozenset((15, 35, 66, 69, 77))
MANY: Final = 2000


def may_take_long(node: Node, request: Request) -> bool:
    """Whether a request goes to the slow lane."""
    key, size = request.api_key, len(request.frame)
    if key == PRODUCE:
        return False
    if key == FETCH:
        return size > MOST_FETCH_BYTES_AT_ONCE
    if key == DESCRIBE_CONFIGS and size > MOST_DESCRIBED_BYTES_AT_ONCE:
        return True
    if size > MOST_BYTES_AT_ONCE or key in LARGE_ANSWERS or (key in READ_ONLY and node.has_many_entries(MANY)):
        return True
    return key == OFFSET_FETCH and node.groups.offsets.has_more_than(MANY)


def ensure_bounded(request: Request) -> None:
    """Count the elements of the body. Raises TooManyElements, or CloseConnection for a malformed body."""
    try:
        entity_type = messages.request_type(request.api_key, request.version)
    except UnsupportedVersion:
        return  # ApiVersions of a client from the future, whose body nobody reads
    with pausing(request.pause):
        is_sound = is_sound_within(entity_type, request.frame, request.body_offset, most_elements(request.api_key))
    if not is_sound:
        raise CloseConnection(
            f"malformed request (api key {request.api_key}, version {request.version}): its arrays do not end"
        )


def most_elements(api_key: int) -> int:
    """The most elements that the arrays of a request may have."""
    return MOST_OF.get(api_key, MOST_READ if api_key in READ_ONLY else MOST_CHANGED)


def refused(node: Node, request: Request, name: str) -> Response:
    """The response to a request with too many elements: INVALID_REQUEST if the response has an error code for the whole
    request; else the connection is closed, as after Kafka's InvalidRequestException. The broker reports it."""
    most = most_elements(request.api_key)
    client = request.connection.client_host
    node.report_refusal(f"A {name} request from {client} with more than {most} elements was refused")
    response_type: Any = messages.response_type(request.api_key, request.version)
    if any(field.name == "error_code" for field in plan_of(response_type).fields):
        request.is_flexible = response_header_version(request.api_key, request.version) > 0
        return request.respond({"error_code": InvalidRequest.code})
    raise CloseConnection(f"{name} with more than {most} elements")
