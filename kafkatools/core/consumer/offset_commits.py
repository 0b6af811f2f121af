"""Commit offsets (sync, async, automatically) and fetch committed ones (the offset half of ConsumerCoordinator).

Rules:

- An automatic commit covers what previous polls returned: the positions at the start of a poll. No commit covers what
  an iterator has polled and not yielded.
- Callbacks of async commits run on the application's thread, in order of completion, during a later call.
  `commit_sync` first waits for earlier async commits, within its timeout, and runs their callbacks.
- A commit carries the generation in which the partitions were assigned. An unstable generation commits nothing:
  RebalanceInProgress or CommitFailed, without a request. So a member that was stopped and comes back cannot
  overwrite its successor's offsets.
- An async commit is not retried; a sync commit is after retriable errors, until its timeout. A topic that does not
  exist ends the tries: for 5 s in a sync commit, at once before closing or a rebalance.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from kafkatools.core.client_log import ClientLog
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer import offset_requests
from kafkatools.core.consumer.coordinator_channel import CoordinatorChannel
from kafkatools.core.consumer.errors import RetriableCommitFailed
from kafkatools.core.consumer.network import Steps
from kafkatools.core.consumer.offset_requests import BY_NAME, Fetched, Offsets, TopicIds
from kafkatools.core.consumer.subscription import SubscriptionState, TopicPartition
from kafkatools.core.errors import (
    CommitFailed,
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    RebalanceInProgress,
    StaleMemberEpoch,
    Timeout,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity

_log = logging.getLogger(__name__)

_MISSING_AFTER_MS = 5000

CommitCallback = Callable[[Offsets, KafkaError | None], None]
OnCommitted = Callable[[KafkaError | None], None]


class CommitIdentity(Protocol):
    """The group membership in whose name offsets are committed and fetched."""

    def commit_metadata(self) -> ConsumerGroupMetadata | KafkaError:
        """Return the member and generation for OffsetCommit, or the error that forbids committing now."""

    def note_commit_error(self, sent_metadata: ConsumerGroupMetadata, error: KafkaError) -> KafkaError:
        """Update the membership after a refused commit and return the error for the application."""

    def fetch_metadata(self) -> ConsumerGroupMetadata | None:
        """Return the member and epoch for OffsetFetch, None to send neither."""


class _Waiting(NamedTuple):
    offsets: dict[TopicPartition, OffsetAndMetadata]
    on_done: OnCommitted


class _Sent(NamedTuple):
    member: ConsumerGroupMetadata
    offsets: Offsets
    topic_ids: TopicIds


class Attempt:
    """The outcome of one OffsetCommit request."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: KafkaError | None = None

    def finish(self, error: KafkaError | None) -> None:
        """Store the outcome: an error, or None for success."""
        self.is_done, self.error = True, error


class OffsetCommits:
    """Commits and fetches a consumer's offsets through its group coordinator; for the application's thread only."""

    def __init__(
        self,
        settings: Config,
        channel: CoordinatorChannel,
        subscriptions: SubscriptionState,
        identity: CommitIdentity,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self._log = ClientLog.of(_log, settings)
        self.channel = channel
        self.subscriptions = subscriptions
        self.identity = identity
        self.clock = clock
        self._waiting: deque[_Waiting] = deque()
        self._pending_async = 0
        self._completed: deque[Callable[[], None]] = deque()
        self._sends_topic_ids: bool = settings.group_protocol.lower() == "consumer"
        self.is_fenced = False
        self.on_commit: Callable[[Offsets], None] | None = None
        self.unread: Callable[[], Mapping[TopicPartition, int]] = dict
        """The offsets of the first polled records that the application has not got yet."""
        self.is_auto: bool = self.settings.enable_auto_commit
        self._backoff = ExponentialBackoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)
        self._next_auto_ms = self.clock.now_ms() + self.settings.auto_commit_interval_ms

    # --- one request

    def _send(self, offsets: dict[TopicPartition, OffsetAndMetadata], on_done: OnCommitted) -> None:
        """Send OffsetCommit; `on_done` gets the error or None. It gets the membership's error at once, without a
        request, when the membership forbids committing."""
        with self.channel.lock:
            member = self.identity.commit_metadata()
        if isinstance(member, KafkaError):
            on_done(member)
            return
        topic_ids = self._topic_ids(offsets)
        request = GroupRequest(
            ApiKey.OFFSET_COMMIT,
            partial(offset_requests.commit_fields, member, offsets, topic_ids),
            partial(self._committed, _Sent(member, offsets, topic_ids), on_done),
            partial(self._not_committed, on_done),
            min_version=2,
            max_version=topic_ids.newest_version,
        )
        self.channel.send(request)

    def _topic_ids(self, parts: Iterable[TopicPartition]) -> TopicIds:
        """The ids to name the topics by, none with the classic protocol."""
        return TopicIds.of(parts, self.channel.client.cluster.topic_id) if self._sends_topic_ids else BY_NAME

    def _committed(self, sent: _Sent, on_done: OnCommitted, entity: Entity, now_ms: int) -> None:
        try:
            error = offset_requests.commit_error(entity, self.settings.group_id, sent.topic_ids)
        except KafkaError as unreadable:
            error = unreadable
        if error is None:
            if self.on_commit is not None:
                self._completed.append(partial(self.on_commit, sent.offsets))
            on_done(None)
            return
        self._log.info("OffsetCommit of %s failed: %s", self.settings.group_id, error)
        if isinstance(error, offset_requests.MOVED):
            self.channel.lookup.mark_unknown()
        elif isinstance(error, (UnknownTopicId, UnknownTopicOrPartition)):
            self.channel.client.leaders.request_update()
        elif isinstance(
            error, (RebalanceInProgress, UnknownMemberId, IllegalGeneration, FencedInstanceId, StaleMemberEpoch)
        ):
            error = self.identity.note_commit_error(sent.member, error)
            self.is_fenced |= isinstance(error, FencedInstanceId)
        on_done(error)

    def _not_committed(self, on_done: OnCommitted, error: KafkaError, now_ms: int) -> None:
        if error.retriable:
            self.channel.lookup.mark_unknown()
        on_done(error)

    def absent_topics(self, error: KafkaError, parts: Iterable[TopicPartition]) -> list[str]:
        """Return the topics because of which a commit failed and that metadata does not have either; a deleted topic
        would be committed in vain until the time-out. The offsets of the others are committed."""
        if not isinstance(error, UnknownTopicOrPartition):
            return []
        return sorted({part.topic for part in parts if self.channel.client.is_absent(part.topic)})

    # --- sync

    def commit_sync(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int) -> Steps[None]:
        """Wait for pending async commits, then commit offsets and wait, repeating after retriable errors. Sends nothing
        without offsets. Raises CommitFailed, RebalanceInProgress, FencedInstanceId, Timeout and the broker's errors."""
        deadline = self.clock.now_ms() + timeout_ms
        yield from self.finish_pending(deadline)
        if offsets:
            yield from self._commit_until(offsets, deadline, timeout_ms, _MISSING_AFTER_MS)
            self.run_callbacks()

    def _commit_until(self, offsets: Offsets, deadline: int, timeout_ms: int, missing_after_ms: int) -> Steps[None]:
        """Commit until success. After `missing_after_ms` a topic that does not exist ends the tries. `timeout_ms` is
        for the message of Timeout."""
        attempts, started_ms = 0, self.clock.now_ms()
        while True:
            error = yield from self._commit_once(dict(offsets), deadline)
            if error is None:
                return
            if not offset_requests.is_retriable_commit(error):
                raise error
            absent = self.absent_topics(error, offsets)
            if absent and self.clock.now_ms() - started_ms >= missing_after_ms:
                raise UnknownTopicOrPartition(f"No offsets committed of topics that do not exist: {', '.join(absent)}")
            yield from self._back_off(attempts, deadline)
            attempts += 1
            if self.clock.now_ms() >= deadline:
                names = ", ".join(f"{part}={value.offset}" for part, value in offsets.items())
                raise Timeout(f"Timeout of {timeout_ms}ms expired before successfully committing offsets {{{names}}}")

    def _commit_once(self, offsets: dict[TopicPartition, OffsetAndMetadata], deadline: int) -> Steps[KafkaError | None]:
        if not (yield from self.await_coordinator(deadline)):
            return RetriableCommitFailed()
        attempt = Attempt()
        self._send(offsets, attempt.finish)
        while not attempt.is_done:
            if self.clock.now_ms() >= deadline:
                return RetriableCommitFailed()
            yield from self._turn(deadline)
        return attempt.error

    def await_coordinator(self, deadline: int) -> Steps[bool]:
        """Wait until the coordinator is known; return False after the deadline. Raises fatal lookup errors, and the
        connection error of a cluster that was never reached."""
        while not self.channel.lookup.is_known:
            failure = self.channel.take_failure()
            if failure is not None:
                raise failure
            if self.clock.now_ms() >= deadline:
                return False
            yield from self._turn(deadline)
            self.channel.client.ensure_contact(self.clock.now_ms())
        return True

    def _turn(self, deadline: int) -> Steps[None]:
        yield from self.channel.poll(deadline - self.clock.now_ms())
        self.advance()

    def _back_off(self, attempts: int, deadline: int) -> Steps[None]:
        until = min(deadline, self.clock.now_ms() + self._backoff.backoff_ms(attempts))
        while (remaining_ms := until - self.clock.now_ms()) > 0:
            yield from self.channel.poll(remaining_ms)

    # --- async

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: CommitCallback | None = None
    ) -> None:
        """Commit without waiting; `callback(offsets, error)` runs during a later call of the application. `error` is
        None for success and RetriableCommitFailed for most retriable errors. Without offsets nothing is sent and the
        callback gets None."""
        requested_offsets = dict(offsets)

        def on_done(error: KafkaError | None) -> None:
            self._pending_async -= 1
            if error is not None and error.retriable and not isinstance(error, RebalanceInProgress):
                cause, error = error, RetriableCommitFailed()
                error.__cause__ = cause
            self._completed.append(partial(self._call, callback, requested_offsets, error))

        self._pending_async += 1
        if not requested_offsets:
            on_done(None)
            return
        self._waiting.append(_Waiting(requested_offsets, on_done))
        self.advance()

    def advance(self) -> None:
        """Send async commits that wait for the coordinator; fail them when the lookup failed. Looks the coordinator up
        while it is unknown."""
        while self._waiting:
            if self.channel.lookup.is_known:
                item = self._waiting.popleft()
                self._send(item.offsets, item.on_done)
            elif self.channel.failure is not None:
                self._waiting.popleft().on_done(self.channel.failure)
            else:
                self.channel.tick(self.clock.now_ms())
                return

    def run_callbacks(self) -> None:
        """Run the callbacks of completed commits. If a commit was fenced, raises FencedInstanceId instead, once; the
        callbacks then run in the next call."""
        if self.is_fenced:
            self.is_fenced = False
            raise FencedInstanceId(
                "Get fenced exception for group.instance.id. The consumer was replaced by one with the same id."
            )
        while self._completed:
            self._completed.popleft()()

    def finish_pending(self, deadline: int) -> Steps[None]:
        """Wait for async commits in flight until the deadline, then run the callbacks of completed ones. Raises
        FencedInstanceId as `run_callbacks` does."""
        yield from self._await_pending(deadline)
        self.run_callbacks()

    def _await_pending(self, deadline: int) -> Steps[None]:
        while self._pending_async and self.clock.now_ms() < deadline:
            yield from self._turn(deadline)

    # --- in the background

    def maybe_auto_commit(self, now_ms: int) -> None:
        """With enable.auto.commit, start a commit of the positions when auto.commit.interval.ms has passed. While the
        coordinator is unknown, look it up and try again after retry.backoff.ms."""
        if not self.is_auto or now_ms < self._next_auto_ms:
            return
        if not self.channel.lookup.is_known:
            self.channel.tick(now_ms)
            self._next_auto_ms = now_ms + self.settings.retry_backoff_ms
            return
        self._next_auto_ms = now_ms + self.settings.auto_commit_interval_ms
        self.start_auto_commit()

    def start_auto_commit(self) -> Attempt | None:
        """Start a commit of the positions and return its Attempt; None when there are no positions or the coordinator
        is unknown. A failure is logged."""
        offsets = self.all_consumed()
        if not offsets or not self.channel.lookup.is_known:
            return None
        self.advance()  # an async commit that waits for the coordinator is older: sent later, it would be the last word
        attempt = Attempt()

        def on_done(error: KafkaError | None) -> None:
            if error is not None:
                self._log.warning("Auto-commit of offsets of group %s failed: %s", self.settings.group_id, error)
                if error.retriable and not self.absent_topics(error, offsets):
                    self._next_auto_ms = min(self._next_auto_ms, self.clock.now_ms() + self.settings.retry_backoff_ms)
            attempt.finish(error)

        self._send(offsets, on_done)
        return attempt

    def restart_auto_commit(self, now_ms: int) -> None:
        """Restart auto.commit.interval.ms, after a rebalance."""
        self._next_auto_ms = now_ms + self.settings.auto_commit_interval_ms

    def commit_before_end(self, deadline: int) -> Steps[None]:
        """With enable.auto.commit, commit consumed offsets before closing; log a failure instead of raising it. Runs no
        callbacks, which may raise."""
        if not self.is_auto:
            return
        offsets = self.all_consumed()
        if not offsets:
            return
        try:
            yield from self._await_pending(deadline)
            yield from self._commit_until(offsets, deadline, max(0, deadline - self.clock.now_ms()), 0)
        except KafkaError as error:
            self._log.warning(
                "The commit of offsets of group %s before closing failed: %s", self.settings.group_id, error
            )

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of the assigned partitions as offsets to commit. Where an iterator has not yielded
        records yet, it is the offset of the first of them, without a leader epoch: that of the position belongs to a
        later record. Partitions whose position is unset or not validated are left out."""
        offsets, unread = {}, self.unread()
        for part in self.subscriptions.assigned_partitions():
            state = self.subscriptions.state(part)
            if not state.has_valid_position() or state.position is None:
                continue
            if part in unread:
                offsets[part] = OffsetAndMetadata(unread[part])
            else:
                offsets[part] = OffsetAndMetadata(state.position.offset, max(-1, state.position.offset_epoch))
        return offsets

    # --- reading

    def request_committed(self, parts: Iterable[TopicPartition], on_fetched: Callable[[Fetched], None]) -> None:
        """Send OffsetFetch to the coordinator without retrying; `on_fetched` gets the offsets or the error,
        CoordinatorNotAvailable while the coordinator is unknown."""
        partitions = list(parts)
        topic_ids = self._topic_ids(partitions)

        def on_response(entity: Entity, now_ms: int) -> None:
            try:
                response = offset_requests.read_fetch(entity, self.settings.group_id, topic_ids)
            except KafkaError as unreadable:
                response = Fetched({}, unreadable)
            if isinstance(response.error, offset_requests.MOVED):
                self.channel.lookup.mark_unknown()
            elif isinstance(response.error, UnknownTopicId):
                self.channel.client.leaders.request_update()
            on_fetched(response)

        def on_failure(error: KafkaError, now_ms: int) -> None:
            if error.retriable:
                self.channel.lookup.mark_unknown()
            on_fetched(Fetched({}, error))

        with self.channel.lock:
            member = self.identity.fetch_metadata()
        fields = offset_requests.fetch_fields(member, self.settings.group_id, partitions, topic_ids)
        newest = topic_ids.newest_version
        self.channel.send(
            GroupRequest(ApiKey.OFFSET_FETCH, fields, on_response, on_failure, min_version=1, max_version=newest)
        )

    def committed(
        self, parts: Iterable[TopicPartition], timeout_ms: int
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Wait for the committed offsets, with retries; None for a partition without one. Raises Timeout and
        non-retriable errors."""
        partitions = list(parts)
        if not partitions:
            return {}
        deadline, attempts = self.clock.now_ms() + timeout_ms, 0
        while True:
            response = yield from self._fetch_once(partitions, deadline)
            if response is not None and response.error is None:
                return {part: response.offsets.get(part) for part in partitions}
            if response is not None and response.error is not None:
                if not offset_requests.is_retriable_fetch(response.error):
                    raise response.error
                yield from self._back_off(attempts, deadline)
                attempts += 1
            if self.clock.now_ms() >= deadline:
                names = ", ".join(map(str, partitions))
                raise Timeout(
                    f"Timeout of {timeout_ms}ms expired before the last committed offset for partitions [{names}] "
                    "could be determined. Try tuning default.api.timeout.ms larger to relax the threshold."
                )

    def _fetch_once(self, parts: list[TopicPartition], deadline: int) -> Steps[Fetched | None]:
        if not (yield from self.await_coordinator(deadline)):
            return None
        results: list[Fetched] = []
        self.request_committed(parts, results.append)
        while not results:
            if self.clock.now_ms() >= deadline:
                return None
            yield from self._turn(deadline)
        return results[0]

    def _call(self, callback: CommitCallback | None, offsets: Offsets, error: KafkaError | None) -> None:
        if callback is not None:
            callback(offsets, error)
        elif error is not None:
            self._log.error("An asynchronous commit of offsets failed: %s", error)


class NoMembership:
    """The identity of a consumer with manually assigned partitions: a group id without member or generation."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id

    def commit_metadata(self) -> ConsumerGroupMetadata | KafkaError:
        """Return the group id alone."""
        return ConsumerGroupMetadata(self._group_id)

    def note_commit_error(self, sent_metadata: ConsumerGroupMetadata, error: KafkaError) -> KafkaError:
        """Return CommitFailed when the group has members, else the error itself."""
        if isinstance(error, (UnknownMemberId, IllegalGeneration)):
            return CommitFailed(offset_requests.NOT_A_MEMBER)
        return error

    def fetch_metadata(self) -> ConsumerGroupMetadata | None:
        """Return None: OffsetFetch needs no member."""
        return None
