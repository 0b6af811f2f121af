"""Decides what a share consumer sends to which node, and handles responses; no I/O (ShareConsumeRequestManager).

Rules:

- One request to a node is in flight at a time, since each carries the next epoch of the share session.
- Records are fetched only while a poll waits for them: what is acquired ahead of the application ages in its lock.
- Acknowledgements go to the node that delivered the records. They ride on the next ShareFetch of their partition;
  renewals, acknowledgements of other partitions, and those of a commit take a ShareAcknowledge.
- When that node no longer leads the partition or its session is lost, the broker has released the records: the
  acknowledgements fail at once.
- In the mode record_limit, one node at a time is asked, so that no poll has more than max.poll.records (KIP-1206).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.consumer.errors import FetchFailed
from kafkatools.core.consumer.fetch_messages import CurrentLeader
from kafkatools.core.consumer.share.acknowledgements import (
    AcknowledgedRange,
    Acknowledgements,
    AcknowledgeType,
    contiguous,
)
from kafkatools.core.consumer.share.acquired import AcquiredRange, AcquiredRecords, decode_acquired
from kafkatools.core.consumer.share.messages import (
    RECORD_LIMIT,
    PendingAcknowledgement,
    ShareRequest,
    ShareSettings,
    acknowledge_request,
    fetch_request,
)
from kafkatools.core.consumer.share.session import FINAL_EPOCH, PartitionId, ShareSession
from kafkatools.core.consumer.subscription import LeaderAndEpoch
from kafkatools.core.errors import (
    DecodeError,
    FencedLeaderEpoch,
    InvalidMetadata,
    InvalidRecordState,
    InvalidShareSessionEpoch,
    KafkaError,
    NotLeaderOrFollower,
    RetriableError,
    ShareSessionLimitReached,
    ShareSessionNotFound,
    Timeout,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    error_for_code,
    unauthorized_topics,
)
from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

_SESSION_LOST = (ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached)
_LEADER_CHANGED = (NotLeaderOrFollower, FencedLeaderEpoch, UnknownTopicOrPartition, UnknownTopicId)
_STALE_METADATA = (InvalidMetadata, *_LEADER_CHANGED)
INVALID_RESPONSE = "Acknowledgement not successful due to invalid response from broker"


class Leaders(Protocol):
    """Leaders and metadata updates."""

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        """Return the partition's leader (-1 = none), None when it is missing from metadata."""

    def request_update(self) -> int:
        """Request fresh metadata."""

    def update_leadership(
        self, partition: TopicPartition, leader: CurrentLeader, endpoints: tuple[NodeEndpoint, ...]
    ) -> bool:
        """Apply a leader from a response (KIP-951)."""


class _NodeLink:
    """One node's session, its request in flight, and the acknowledgements that wait for it."""

    def __init__(self) -> None:
        self.session = ShareSession()
        self.in_flight: ShareRequest | None = None
        self.retry_ms = 0
        self.waiting: list[PendingAcknowledgement] = []


class ShareRequests:
    """The share sessions of one member: requests to send, and acquired records to return."""

    def __init__(self, settings: ShareSettings, leaders: Leaders) -> None:
        self._settings = settings
        self._leaders = leaders
        self._links: dict[int, _NodeLink] = {}
        self._last_node = -1
        self._failure: KafkaError | None = None
        self.buffered: deque[AcquiredRecords] = deque()
        self.completed: list[PendingAcknowledgement] = []
        self.lock_ms: int | None = None

    def take_failure(self) -> KafkaError | None:
        """Return and clear an error that no retry can cure, or None."""
        failure, self._failure = self._failure, None
        return failure

    def release_buffered(self, deadline_ms: int) -> None:
        """Release the records that no poll has returned, to be delivered to other members."""
        for acquired in self.buffered:
            offsets = (offset for item in acquired.columns for offset in item.columns.offsets)
            released = [AcknowledgedRange(*part, AcknowledgeType.RELEASE) for part in contiguous(offsets)]
            content = Acknowledgements([*acquired.settled, *released])
            place = acquired.id, acquired.partition
            self.queue([PendingAcknowledgement(acquired.node, place, content, deadline_ms)])
        self.buffered.clear()

    def take_buffered(self) -> list[AcquiredRecords]:
        """Remove and return buffered records: whole partitions, until there are max.poll.records. A damaged partition
        without sound records is returned alone, for its error."""
        taken: list[AcquiredRecords] = []
        count = 0
        while self.buffered and count < self._settings.max_records:
            if self.buffered[0].error is not None and taken:
                break
            acquired = self.buffered.popleft()
            count += acquired.record_count
            taken.append(acquired)
            if acquired.error is not None:
                break
        return taken

    # --- what to send

    def queue(self, pending: Iterable[PendingAcknowledgement]) -> None:
        """Add acknowledgements to be sent."""
        for item in pending:
            self._link(item.node).waiting.append(item)

    def _link(self, node: int) -> _NodeLink:
        return self._links.setdefault(node, _NodeLink())

    def prepare(
        self,
        now_ms: int,
        assigned: Mapping[PartitionId, TopicPartition],
        can_send: Callable[[int], bool],
        *,
        wants_records: bool,
    ) -> list[ShareRequest]:
        """Return the requests to send now and note them as in flight. `can_send` says whether a node is connected, and
        starts connecting otherwise."""
        targets = self._targets(assigned) if wants_records else {}
        requests: list[ShareRequest] = []
        for node in sorted({*targets, *(node for node, link in self._links.items() if link.waiting)}):
            link = self._link(node)
            self._fail_hopeless(link, now_ms)
            if link.in_flight is not None or now_ms < link.retry_ms or not can_send(node):
                continue
            request = self._acknowledge(node, link, targets.get(node, {}), now_ms)
            if request is None and node in self._fetched_nodes(targets):
                request = self._fetch(node, link, targets[node])
            if request is not None:
                link.in_flight = request
                requests.append(request)
        return requests

    def _targets(self, assigned: Mapping[PartitionId, TopicPartition]) -> dict[int, dict[PartitionId, TopicPartition]]:
        """Return the assigned partitions by leader; requests fresh metadata when a leader is unknown."""
        targets: dict[int, dict[PartitionId, TopicPartition]] = {}
        for key, partition in assigned.items():
            leader = self._leaders.leader(partition)
            if leader is None or leader.leader < 0:
                self._leaders.request_update()
            else:
                targets.setdefault(leader.leader, {})[key] = partition
        return targets

    def _fetched_nodes(self, targets: Mapping[int, object]) -> Iterable[int]:
        """Return the nodes that may be asked for records now: all of them, or one in the mode record_limit."""
        if self._settings.acquire_mode != RECORD_LIMIT:
            return targets
        if any(link.in_flight is not None and link.in_flight.is_fetch for link in self._links.values()):
            return ()
        nodes = sorted(targets)
        later = [node for node in nodes if node > self._last_node]
        return (later or nodes)[:1]

    def _fail_hopeless(self, link: _NodeLink, now_ms: int) -> None:
        """Fail waiting acknowledgements whose deadline passed, whose leader changed, or whose session is lost."""
        waiting, link.waiting = link.waiting, []
        for item in waiting:
            leader = self._leaders.leader(item.partition)
            if now_ms >= item.deadline_ms:
                self._finish(item, Timeout(f"Acknowledgements of {item.partition} were not confirmed in time"))
            elif leader is None or leader.leader != item.node:
                self._finish(item, NotLeaderOrFollower())
            elif link.session.is_new and link.in_flight is None:
                self._finish(item, ShareSessionNotFound())
            else:
                link.waiting.append(item)

    def _acknowledge(
        self, node: int, link: _NodeLink, fetched: Mapping[PartitionId, TopicPartition], now_ms: int
    ) -> ShareRequest | None:
        """Return a ShareAcknowledge of what cannot ride on the node's next ShareFetch, or None."""
        apart = [item for item in link.waiting if item.content.has_renewals or item.id not in fetched]
        due = [item for item in apart if now_ms >= item.retry_ms]
        if not due:
            return None
        link.waiting = [item for item in link.waiting if item not in due]
        return acknowledge_request(self._settings, node, link.session.epoch, due)

    def _fetch(self, node: int, link: _NodeLink, partitions: Mapping[PartitionId, TopicPartition]) -> ShareRequest:
        carried = [item for item in link.waiting if item.id in partitions and not item.content.has_renewals]
        link.waiting = [item for item in link.waiting if item not in carried]
        epoch = link.session.epoch
        self._last_node = node
        return fetch_request(self._settings, node, epoch, link.session.change_to(partitions), carried)

    def close_requests(self, now_ms: int, can_send: Callable[[int], bool]) -> list[ShareRequest]:
        """Return the requests that close all sessions, with the acknowledgements that wait. Nodes with a request in
        flight are left out: call again after its response. A lost connection has closed its session."""
        requests = []
        for node, link in self._links.items():
            if link.in_flight is None and not link.session.is_new and not can_send(node):
                link.session.reset()
            self._fail_hopeless(link, now_ms)
            if link.in_flight is None and not link.session.is_new:
                carried, link.waiting = link.waiting, []
                link.in_flight = acknowledge_request(self._settings, node, FINAL_EPOCH, carried)
                link.session.reset()
                requests.append(link.in_flight)
        return requests

    @property
    def is_idle(self) -> bool:
        """Return whether no request is in flight and no session is open."""
        return all(link.in_flight is None and link.session.is_new for link in self._links.values())

    # --- responses

    def handle_response(self, request: ShareRequest, entity: Entity, now_ms: int) -> None:
        """Handle the response to a request of `prepare` or `close_requests`."""
        link = self._link(request.node)
        link.in_flight = None
        code = int(entity.error_code)
        if code:
            self._handle_refusal(link, request, error_for_code(code)(entity.error_message or None), now_ms)
            return
        if not link.session.is_new or request.is_fetch:
            link.session.note_success()
        lock_ms = int(getattr(entity, "acquisition_lock_timeout", 0))
        if lock_ms > 0:
            self.lock_ms = lock_ms
        remaining = _by_partition(request.carried)
        endpoints = tuple(NodeEndpoint(at.node_id, at.host, at.port, at.rack) for at in entity.node_endpoints)
        for topic in entity.responses:
            for data in topic.partitions:
                key = PartitionId(topic.topic_id, int(data.partition_index))
                items = remaining.pop(key, [])
                for item in items:
                    self._handle_outcome(link, request, item, data, now_ms)
                partition = link.session.partitions.get(key) or next((item.partition for item in items), None)
                if partition is not None:
                    self._note_leader(partition, data, endpoints)
                    if request.is_fetch:
                        self._handle_records(request.node, (key, partition), data, now_ms)
        for item in chain.from_iterable(remaining.values()):
            self._finish(item, InvalidRecordState(INVALID_RESPONSE))

    def _handle_refusal(self, link: _NodeLink, request: ShareRequest, error: KafkaError, now_ms: int) -> None:
        """Handle an error of the whole request: a lost session begins anew, other errors back off."""
        if isinstance(error, _SESSION_LOST):
            link.session.reset()
        else:
            link.session.note_success()
            link.retry_ms = now_ms + self._settings.retry_backoff_ms
        if isinstance(error, _LEADER_CHANGED):
            self._leaders.request_update()
        elif request.is_fetch and not isinstance(error, RetriableError):
            self._failure = error
        for item in request.carried:
            if request.is_fetch or not self._retry(link, item, error, now_ms):
                self._finish(item, error)

    def _retry(self, link: _NodeLink, item: PendingAcknowledgement, error: KafkaError, now_ms: int) -> bool:
        """Queue acknowledgements again after a retriable error, until their deadline."""
        item.retry_ms = now_ms + self._settings.retry_backoff_ms
        if not isinstance(error, RetriableError) or item.retry_ms >= item.deadline_ms:
            return False
        link.waiting.append(item)
        return True

    def _handle_outcome(
        self, link: _NodeLink, request: ShareRequest, item: PendingAcknowledgement, data: Entity, now_ms: int
    ) -> None:
        code = int(data.acknowledge_error_code if request.is_fetch else data.error_code)
        message = data.acknowledge_error_message if request.is_fetch else data.error_message
        error = error_for_code(code)(message or None) if code else None
        may_retry = error is not None and not request.is_fetch and not isinstance(error, _LEADER_CHANGED)
        if error is None or not may_retry or not self._retry(link, item, error, now_ms):
            self._finish(item, error)

    def _note_leader(self, partition: TopicPartition, data: Entity, endpoints: tuple[NodeEndpoint, ...]) -> None:
        code = int(data.error_code)
        if not code or not issubclass(error_for_code(code), _STALE_METADATA):
            return
        leader = CurrentLeader(int(data.current_leader.leader_id), int(data.current_leader.leader_epoch))
        is_named = leader.leader_id >= 0 and leader.leader_epoch >= 0
        if not is_named or not self._leaders.update_leadership(partition, leader, endpoints):
            self._leaders.request_update()

    def _handle_records(self, node: int, place: tuple[PartitionId, TopicPartition], data: Entity, now_ms: int) -> None:
        code, partition = int(data.error_code), place[1]
        if code:
            self._link(node).retry_ms = now_ms + self._settings.retry_backoff_ms
            error = error_for_code(code)(data.error_message or None)
            if isinstance(error, TopicAuthorizationFailed):
                self._failure = unauthorized_topics([partition.topic])
            elif not isinstance(error, RetriableError):
                self._failure = FetchFailed(f"Fetching from {partition} failed: {error}")
            return
        acquired = [AcquiredRange(at.first_offset, at.last_offset, at.delivery_count) for at in data.acquired_records]
        if acquired:
            records = memoryview(data.records or b"")
            self.buffered.append(decode_acquired(node, place, records, acquired, self._settings.options))

    def handle_failure(self, request: ShareRequest, error: KafkaError, now_ms: int) -> None:
        """Handle a request without a response: its session is lost, and its acknowledgements fail."""
        link = self._link(request.node)
        link.in_flight = None
        link.session.reset()
        link.retry_ms = now_ms + self._settings.retry_backoff_ms
        if request.is_fetch and isinstance(error, (DecodeError, UnsupportedVersion)):
            self._failure = error  # a retry would fail alike
        for item in request.carried:
            self._finish(item, error)

    def _finish(self, item: PendingAcknowledgement, error: KafkaError | None) -> None:
        item.is_done, item.error = True, error
        self.completed.append(item)


def _by_partition(pending: Iterable[PendingAcknowledgement]) -> dict[PartitionId, list[PendingAcknowledgement]]:
    items: dict[PartitionId, list[PendingAcknowledgement]] = {}
    for item in pending:
        items.setdefault(item.id, []).append(item)
    return items
