"""Client of the share coordinators on this and other brokers (Kafka's DefaultStatePersister and PersisterStateManager).

Rules (KIP-932):
- Requests about one share partition are done in order, one after the other.
- A request to another broker carries up to MOST_PARTITIONS queued requests of one API and one group.
- In a cluster, requests to a coordinator that is missing, not ready or unreachable are retried for
  share.coordinator.write.timeout.ms.
- Each request is answered exactly once. This happens at once if no earlier request of the share partition is
  unanswered, this broker is the coordinator, and the write is replicated.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.request_queue import RequestQueue
from kafkatools.core.broker.coordinators.shards import Shards
from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import (
    ShareKey,
    ShareState,
    ShareUpdate,
    batches_of,
    name_of,
)
from kafkatools.core.broker.coordinators.share_state.share_state_topic import ShareStateTopic
from kafkatools.core.broker.metadata.image import NO_LEADER
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.protocol.api_versions import ApiKey

INITIALIZE, DELETE = ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE
READ, SUMMARY = ApiKey.READ_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
WRITE = ApiKey.WRITE_SHARE_GROUP_STATE
RETRY_MS = 100
MOST_PARTITIONS = 1000
RETRIED = (
    errors.CoordinatorNotAvailable,
    errors.CoordinatorLoadInProgress,
    errors.NotCoordinator,
    errors.NetworkException,
)
PASSED_ON = (errors.UnknownTopicOrPartition, errors.GroupIdNotFound, errors.CoordinatorNotAvailable)
Fields = dict[str, Any]
OnResult = Callable[[errors.KafkaError | None, ShareState | None], None]


@dataclass(slots=True)
class _Request:
    api_key: int
    key: ShareKey
    fields: Fields
    handle_locally: Callable[[ShareCoordinator], tuple[ShareState | None, ProduceStatus | None]]
    on_result: OnResult
    until_ms: int


@dataclass(eq=False, repr=False)
class StatePersister:
    """Sends share partition requests to share coordinators and calls back with the result.

    `states` returns the share coordinator of this broker, `shards` its partitions of `__share_group_state`; both are
    called for requests that this broker coordinates. Every `on_result` gets an error and a state. The error is None
    after success. The state is None after an error, after requests other than `read` and `summary`, and for a `summary`
    on this broker without a state. A state from another broker has only the fields of the response.
    """

    host: Host
    topic: ShareStateTopic
    states: Callable[[], ShareCoordinator]
    shards: Callable[[], Shards]
    _lanes: dict[ShareKey, deque[_Request]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        timeout_ms = self.host.config.share_coordinator_write_timeout_ms
        self._queue = RequestQueue(self.host, timeout_ms, _of_one_group, _fields, self._handle_response)

    # -- requests --------------------------------------------------------------------------------------------------
    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, on_result: OnResult) -> None:
        """Reset the state of a share partition to a start offset (InitializeShareGroupState)."""
        fields = {"state_epoch": state_epoch, "start_offset": start_offset}
        self._enqueue(
            INITIALIZE, key, fields, lambda states: (None, states.initialize(key, state_epoch, start_offset)), on_result
        )

    def initialize_all(
        self,
        start_offsets: Mapping[ShareKey, int],
        state_epoch: int,
        on_end: Callable[[errors.KafkaError | None], None],
    ) -> None:
        """Reset the states of share partitions to their start offsets, in any order. After the last result call
        `on_end` with the first error to arrive, or with None; at once with None without share partitions."""
        _send_all(
            list(start_offsets),
            lambda key, on_result: self.initialize(key, state_epoch, start_offsets[key], on_result),
            on_end,
        )

    def read(self, key: ShareKey, leader_epoch: int, on_result: OnResult) -> None:
        """Read the state of a share partition for its leader (ReadShareGroupState). The share coordinator stores a
        newer leader epoch."""
        self._enqueue(
            READ, key, {"leader_epoch": leader_epoch}, lambda states: (states.read(key, leader_epoch), None), on_result
        )

    def summary(self, key: ShareKey, on_result: OnResult) -> None:
        """Read epochs and start offset of a share partition (ReadShareGroupStateSummary)."""
        self._enqueue(SUMMARY, key, {"leader_epoch": -1}, lambda states: (states.summary(key), None), on_result)

    def write(self, key: ShareKey, update: ShareUpdate, on_result: OnResult) -> None:
        """Write an update of a share partition's state (WriteShareGroupState)."""
        fields = {**update._asdict(), "state_batches": [batch._asdict() for batch in update.batches]}
        del fields["batches"]
        self._enqueue(WRITE, key, fields, lambda states: (None, states.write(key, update)), on_result)

    def delete(self, key: ShareKey, on_result: OnResult) -> None:
        """Delete the state of a share partition (DeleteShareGroupState)."""
        self._enqueue(DELETE, key, {}, lambda states: (None, states.delete(key)), on_result)

    def delete_all(self, keys: Sequence[ShareKey], on_end: Callable[[errors.KafkaError | None], None]) -> None:
        """Delete the states of share partitions, in any order; `on_end` as for `initialize_all`."""
        _send_all(keys, self.delete, on_end)

    def _enqueue(
        self,
        api_key: int,
        key: ShareKey,
        fields: Fields,
        handle_locally: Callable[[ShareCoordinator], tuple[ShareState | None, ProduceStatus | None]],
        on_result: OnResult,
    ) -> None:
        host = self.host
        until_ms = host.clock.now_ms() + host.config.share_coordinator_write_timeout_ms
        request = _Request(api_key, key, fields, handle_locally, on_result, until_ms)
        lane = self._lanes.setdefault(key, deque())
        lane.append(request)
        if len(lane) == 1:
            self._dispatch(request)

    # -- dispatch --------------------------------------------------------------------------------------------------
    def _dispatch(self, request: _Request) -> None:
        leader = self._coordinator(request.key)
        if leader == self.host.node_id:
            self._handle_here(request)
        elif leader == NO_LEADER:
            self._finish_or_retry(request, errors.CoordinatorNotAvailable(), None)
        else:
            self._queue.add(leader, request.api_key, [request])

    def _coordinator(self, key: ShareKey) -> int:
        if not self.host.is_clustered:
            return self.host.node_id
        try:
            return self.topic.leader_of(name_of(key))
        except errors.CoordinatorNotAvailable:
            return NO_LEADER

    def _finish_or_retry(self, request: _Request, error: errors.KafkaError | None, state: ShareState | None) -> None:
        """Schedule a retry after RETRY_MS if the error is retriable, the broker is in a cluster and `until_ms` is not
        reached. Otherwise call `on_result` with the result and send the share partition's next request."""
        host = self.host
        now_ms = host.clock.now_ms()
        if isinstance(error, RETRIED) and host.is_clustered and now_ms < request.until_ms:
            host.timer.schedule(RETRY_MS, lambda _now_ms: self._dispatch(request), now_ms)
            return
        lane = self._lanes[request.key]
        lane.popleft()
        if not lane:
            del self._lanes[request.key]
        request.on_result(error, state)
        if lane:
            self._dispatch(lane[0])

    def _handle_here(self, request: _Request) -> None:
        try:
            state, status = request.handle_locally(self.states())
        except errors.KafkaError as error:
            self._finish_or_retry(request, error, None)
            return

        def finish(code: int) -> None:
            self._finish_or_retry(request, errors.error_for_code(code)() if code else None, None if code else state)

        if self.host.is_clustered:
            self.shards().when_committed(name_of(request.key), finish)
        else:
            self.host.when_durable([status], finish)

    def _handle_response(self, batch: Sequence[_Request], response: Any | None) -> None:
        results = _results(response)
        for request in batch:
            result = results.get((request.key.topic_id, request.key.partition))
            if response is None:
                self._finish_or_retry(request, errors.NetworkException(), None)
            elif result is None:
                self._finish_or_retry(request, errors.UnknownServerError(), None)
            elif result.error_code:
                self._finish_or_retry(
                    request, errors.error_for_code(int(result.error_code))(result.error_message or ""), None
                )
            else:
                self._finish_or_retry(request, None, _state(request.api_key, result))


def _of_one_group(queued: Sequence[_Request]) -> Sequence[_Request]:
    group_id = queued[0].key.group_id
    return [request for request in queued if request.key.group_id == group_id][:MOST_PARTITIONS]


def _fields(batch: Sequence[_Request]) -> Fields:
    topics: dict[uuid.UUID, list[Fields]] = {}
    for request in batch:
        topics.setdefault(request.key.topic_id, []).append({"partition": request.key.partition, **request.fields})
    return {
        "group_id": batch[0].key.group_id,
        "topics": [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
    }


def _results(response: Any | None) -> Mapping[tuple[uuid.UUID, int], Any]:
    if response is None:
        return {}
    return {
        (topic.topic_id, partition.partition): partition for topic in response.results for partition in topic.partitions
    }


def _state(api_key: int, result: Any) -> ShareState | None:
    if api_key == READ:
        return ShareState(
            state_epoch=result.state_epoch,
            start_offset=result.start_offset,
            batches=batches_of(result.state_batches),
        )
    if api_key == SUMMARY:
        return ShareState(
            state_epoch=result.state_epoch,
            leader_epoch=result.leader_epoch,
            start_offset=result.start_offset,
            delivery_complete_count=result.delivery_complete_count,
        )
    return None


def error_for_members(error: errors.KafkaError) -> errors.KafkaError:
    """The error that a share group member gets for a persister error (SharePartition.fetchPersisterError). Retriable
    errors become CoordinatorNotAvailable, fenced epochs NotLeaderOrFollower. PASSED_ON errors stay, others become
    UnknownServerError."""
    if isinstance(error, RETRIED):
        return errors.CoordinatorNotAvailable(str(error))
    if isinstance(error, errors.FencedLeaderEpoch | errors.FencedStateEpoch):
        return errors.NotLeaderOrFollower(str(error))
    return error if isinstance(error, PASSED_ON) else errors.UnknownServerError(str(error))


def _send_all(
    keys: Sequence[ShareKey],
    send: Callable[[ShareKey, OnResult], None],
    on_end: Callable[[errors.KafkaError | None], None],
) -> None:
    """Call `send` for each key, in any order. After all have called back, call `on_end` with the first error to arrive,
    or with None. Without keys, call `on_end` with None at once."""
    pending_keys = set(keys)
    failures: list[errors.KafkaError] = []
    if not pending_keys:
        on_end(None)

    def note(key: ShareKey, error: errors.KafkaError | None) -> None:
        pending_keys.discard(key)
        if error is not None:
            failures.append(error)
        if not pending_keys:
            on_end(failures[0] if failures else None)

    for key in list(pending_keys):
        send(key, lambda error, _state, key=key: note(key, error))  # type: ignore[misc]
