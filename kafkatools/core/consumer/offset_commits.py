"""Committed offsets: written (sync, async, in the background) and read (the offset half of ConsumerCoordinator).

Rules:

- What is committed in the background is what previous polls returned: the positions at the start of a poll.
- Callbacks of async commits run on the application's thread, in the order of the commits, inside of a later call.
  `commit_sync` runs those of all earlier commits first.
- A commit carries the generation the partitions were given in. A generation that is not stable commits nothing:
  RebalanceInProgress or CommitFailed, without asking the broker. So a member that was stopped and comes back cannot
  write over what its successor committed.
- An async commit is not tried again, a sync one until its time is over.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from kafkatools.core.clock import Clock
from kafkatools.core.consumer import offset_requests
from kafkatools.core.consumer.coordinator_channel import CoordinatorChannel
from kafkatools.core.consumer.errors import RetriableCommitFailed
from kafkatools.core.consumer.offset_requests import MAX_VERSION, Fetched, Offsets
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
)
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity

_log = logging.getLogger(__name__)

CommitCallback = Callable[[Offsets, KafkaError | None], None]
OnCommitted = Callable[[KafkaError | None], None]


class CommitIdentity(Protocol):
    """In whose name offsets are committed."""

    def commit_metadata(self) -> ConsumerGroupMetadata | KafkaError:
        """The member and its generation, or why nothing can be committed now."""

    def note_commit_error(self, sent: ConsumerGroupMetadata, error: KafkaError) -> KafkaError:
        """A commit was refused; the error for the application."""

    def fetch_metadata(self) -> ConsumerGroupMetadata | None:
        """Who asks for offsets, where the broker wants to know."""


class CommitSettings(NamedTuple):
    """The settings of commits."""

    group_id: str
    is_auto: bool
    auto_interval_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class _Waiting(NamedTuple):
    offsets: dict[TopicPartition, OffsetAndMetadata]
    on_done: OnCommitted


class Attempt:
    """One request, and what became of it."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: KafkaError | None = None

    def finish(self, error: KafkaError | None) -> None:
        """The answer is here."""
        self.is_done, self.error = True, error


@dataclass(eq=False, repr=False)
class OffsetCommits:
    """See the module. One thread, the application's."""

    settings: CommitSettings
    channel: CoordinatorChannel
    subscriptions: SubscriptionState
    identity: CommitIdentity
    clock: Clock
    _backoff: ExponentialBackoff = field(init=False)
    _next_auto_ms: int = field(init=False)
    _waiting: deque[_Waiting] = field(default_factory=deque, init=False)
    _pending_async: int = field(default=0, init=False)
    _completed: deque[Callable[[], None]] = field(default_factory=deque, init=False)
    is_fenced: bool = field(default=False, init=False)
    on_commit: Callable[[Offsets], None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._backoff = ExponentialBackoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)
        self._next_auto_ms = self.clock.now_ms() + self.settings.auto_interval_ms

    @property
    def is_auto(self) -> bool:
        """enable.auto.commit."""
        return self.settings.is_auto

    def use_identity(self, identity: CommitIdentity) -> None:
        """From now on in this name."""
        self.identity = identity

    # --- one request

    def _send(self, offsets: dict[TopicPartition, OffsetAndMetadata], on_done: OnCommitted) -> None:
        """Sends a commit to the coordinator, which is known."""
        with self.channel.lock:
            member = self.identity.commit_metadata()
        if isinstance(member, KafkaError):
            on_done(member)
            return
        request = GroupRequest(
            ApiKey.OFFSET_COMMIT,
            partial(offset_requests.commit_fields, member, offsets),
            partial(self._committed, member, offsets, on_done),
            partial(self._not_committed, on_done),
            min_version=2,
            max_version=MAX_VERSION,
        )
        self.channel.send(request)

    def _committed(
        self, sent: ConsumerGroupMetadata, offsets: Offsets, on_done: OnCommitted, entity: Entity, now_ms: int
    ) -> None:
        error = offset_requests.commit_error(entity, self.settings.group_id)
        if error is None:
            if self.on_commit is not None:
                self._completed.append(partial(self.on_commit, offsets))
            on_done(None)
            return
        _log.info("OffsetCommit of %s failed: %s", self.settings.group_id, error)
        if isinstance(error, offset_requests.MOVED):
            self.channel.lookup.mark_unknown()
        elif isinstance(
            error, (RebalanceInProgress, UnknownMemberId, IllegalGeneration, FencedInstanceId, StaleMemberEpoch)
        ):
            error = self.identity.note_commit_error(sent, error)
            self.is_fenced |= isinstance(error, FencedInstanceId)
        on_done(error)

    def _not_committed(self, on_done: OnCommitted, error: KafkaError, now_ms: int) -> None:
        if error.retriable:
            self.channel.lookup.mark_unknown()
        on_done(error)

    # --- sync

    def commit_sync(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int) -> None:
        """Commits and waits. Raises CommitFailed, RebalanceInProgress, Timeout and what the broker says."""
        deadline = self.clock.now_ms() + timeout_ms
        while self._pending_async and self.clock.now_ms() < deadline:
            self._turn(deadline)
        self.run_callbacks()
        if not offsets:
            return
        attempts = 0
        while True:
            error = self._commit_once(dict(offsets), deadline)
            if error is None:
                self.run_callbacks()
                return
            if not offset_requests.is_retriable_commit(error):
                raise error
            self._back_off(attempts, deadline)
            attempts += 1
            if self.clock.now_ms() >= deadline:
                raise self._too_late(timeout_ms, offsets)

    def _too_late(self, timeout_ms: int, offsets: Offsets) -> KafkaError:
        names = ", ".join(f"{part}={value.offset}" for part, value in offsets.items())
        return Timeout(f"Timeout of {timeout_ms}ms expired before successfully committing offsets {{{names}}}")

    def _commit_once(self, offsets: dict[TopicPartition, OffsetAndMetadata], deadline: int) -> KafkaError | None:
        if not self.await_coordinator(deadline):
            return RetriableCommitFailed()
        attempt = Attempt()
        self._send(offsets, attempt.finish)
        while not attempt.is_done:
            if self.clock.now_ms() >= deadline:
                return RetriableCommitFailed()
            self._turn(deadline)
        return attempt.error

    def await_coordinator(self, deadline: int) -> bool:
        """Waits until the coordinator is known; False when the time is over. Raises what makes it hopeless."""
        while not self.channel.lookup.is_known:
            failure = self.channel.take_failure()
            if failure is not None:
                raise failure
            if self.clock.now_ms() >= deadline:
                return False
            self._turn(deadline)
        return True

    def _turn(self, deadline: int) -> None:
        self.channel.poll(deadline - self.clock.now_ms())
        self.advance()

    def _back_off(self, attempts: int, deadline: int) -> None:
        until = min(deadline, self.clock.now_ms() + self._backoff.backoff_ms(attempts))
        while (left := until - self.clock.now_ms()) > 0:
            self.channel.poll(left)

    # --- async

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: CommitCallback | None = None
    ) -> None:
        """Commits without waiting; `callback(offsets, error)` runs in a later call of the application's."""
        kept = dict(offsets)

        def done(error: KafkaError | None) -> None:
            self._pending_async -= 1
            if error is not None and error.retriable and not isinstance(error, RebalanceInProgress):
                cause, error = error, RetriableCommitFailed()
                error.__cause__ = cause
            self._completed.append(partial(_call, callback, kept, error))

        self._pending_async += 1
        if not kept:
            done(None)
            return
        self._waiting.append(_Waiting(kept, done))
        self.advance()

    def advance(self) -> None:
        """Sends what waited for the coordinator; what waited in vain ends."""
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
        """Runs the callbacks of commits that are done."""
        if self.is_fenced:
            self.is_fenced = False
            raise FencedInstanceId(
                "Get fenced exception for group.instance.id. The consumer was replaced by one with the same id."
            )
        while self._completed:
            self._completed.popleft()()

    def finish_pending(self, deadline: int) -> None:
        """Waits for async commits that are on their way, and runs their callbacks."""
        while self._pending_async and self.clock.now_ms() < deadline:
            self._turn(deadline)
        self.run_callbacks()

    # --- in the background

    def maybe_auto_commit(self, now_ms: int) -> None:
        """Commits what was consumed when auto.commit.interval.ms has passed. Costs a comparison when it has not."""
        if not self.settings.is_auto or now_ms < self._next_auto_ms:
            return
        if not self.channel.lookup.is_known:
            self.channel.tick(now_ms)
            self._next_auto_ms = now_ms + self.settings.retry_backoff_ms
            return
        self._next_auto_ms = now_ms + self.settings.auto_interval_ms
        self.start_auto_commit()

    def start_auto_commit(self) -> Attempt | None:
        """Commits what was consumed; None when that is nothing."""
        offsets = self.all_consumed()
        if not offsets or not self.channel.lookup.is_known:
            return None
        attempt = Attempt()

        def done(error: KafkaError | None) -> None:
            if error is not None:
                _log.warning("Auto commit of offsets of %s failed: %s", self.settings.group_id, error)
                if error.retriable:
                    self._next_auto_ms = min(self._next_auto_ms, self.clock.now_ms() + self.settings.retry_backoff_ms)
            attempt.finish(error)

        self._send(offsets, done)
        return attempt

    def restart_auto_commit(self, now_ms: int) -> None:
        """The interval begins anew: a rebalance is done."""
        self._next_auto_ms = now_ms + self.settings.auto_interval_ms

    def commit_before_end(self, deadline: int) -> None:
        """The last background commit: waits, and keeps its failure to the log."""
        if not self.settings.is_auto:
            return
        offsets = self.all_consumed()
        if not offsets:
            return
        try:
            self.commit_sync(offsets, max(0, deadline - self.clock.now_ms()))
        except KafkaError as error:
            _log.warning("The last commit of offsets of %s failed: %s", self.settings.group_id, error)

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions of everything that is read."""
        found = {}
        for part in self.subscriptions.assigned_partitions():
            state = self.subscriptions.state(part)
            if state.has_valid_position() and state.position is not None:
                found[part] = OffsetAndMetadata(state.position.offset, max(-1, state.position.offset_epoch))
        return found

    # --- reading

    def request_committed(self, parts: Iterable[TopicPartition], on_fetched: Callable[[Fetched], None]) -> None:
        """Asks the coordinator, which is known, once."""
        wanted = list(parts)

        def answered(entity: Entity, now_ms: int) -> None:
            fetched = offset_requests.read_fetch(entity, self.settings.group_id)
            if isinstance(fetched.error, offset_requests.MOVED):
                self.channel.lookup.mark_unknown()
            on_fetched(fetched)

        def failed(error: KafkaError, now_ms: int) -> None:
            if error.retriable:
                self.channel.lookup.mark_unknown()
            on_fetched(Fetched({}, error))

        with self.channel.lock:
            member = self.identity.fetch_metadata()
        fields = offset_requests.fetch_fields(member, self.settings.group_id, wanted)
        self.channel.send(
            GroupRequest(ApiKey.OFFSET_FETCH, fields, answered, failed, min_version=1, max_version=MAX_VERSION)
        )

    def committed(
        self, parts: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets, None where there is none. Raises Timeout."""
        wanted = list(parts)
        if not wanted:
            return {}
        deadline, attempts = self.clock.now_ms() + timeout_ms, 0
        while True:
            fetched = self._fetch_once(wanted, deadline)
            if fetched is not None and fetched.error is None:
                return {part: fetched.offsets.get(part) for part in wanted}
            if fetched is not None and fetched.error is not None:
                if not offset_requests.is_retriable_fetch(fetched.error):
                    raise fetched.error
                self._back_off(attempts, deadline)
                attempts += 1
            if self.clock.now_ms() >= deadline:
                names = ", ".join(map(str, wanted))
                raise Timeout(
                    f"Timeout of {timeout_ms}ms expired before the last committed offset for partitions [{names}] "
                    "could be determined. Try tuning default.api.timeout.ms larger to relax the threshold."
                )

    def _fetch_once(self, parts: list[TopicPartition], deadline: int) -> Fetched | None:
        if not self.await_coordinator(deadline):
            return None
        found: list[Fetched] = []
        self.request_committed(parts, found.append)
        while not found:
            if self.clock.now_ms() >= deadline:
                return None
            self._turn(deadline)
        return found[0]


def _call(callback: CommitCallback | None, offsets: Offsets, error: KafkaError | None) -> None:
    if callback is not None:
        callback(offsets, error)
    elif error is not None:
        _log.error("An asynchronous commit of offsets failed: %s", error)


class NoMembership:
    """Commits of a consumer whose partitions are assigned by hand: in no generation."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id

    def commit_metadata(self) -> ConsumerGroupMetadata | KafkaError:
        """Nobody in particular."""
        return ConsumerGroupMetadata(self._group_id)

    def note_commit_error(self, sent: ConsumerGroupMetadata, error: KafkaError) -> KafkaError:
        """The group has members: it is not for us to write."""
        if isinstance(error, (UnknownMemberId, IllegalGeneration)):
            return CommitFailed(offset_requests.NOT_A_MEMBER)
        return error

    def fetch_metadata(self) -> ConsumerGroupMetadata | None:
        """Nobody in particular."""
        return None
