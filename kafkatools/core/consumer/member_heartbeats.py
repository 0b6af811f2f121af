"""What a group member does in both protocols: heartbeats until the application stops polling, and the automatic offset
commit before partitions are revoked, which is retried until it is settled."""

from __future__ import annotations

import logging
from typing import NamedTuple

from kafkatools.core.client_log import ClientLog
from kafkatools.core.consumer.coordinator_channel import CoordinatorChannel
from kafkatools.core.consumer.group_subscription import GroupSubscription, ListenerCalls
from kafkatools.core.consumer.network import ConsumerNetworkClient, Steps
from kafkatools.core.consumer.offset_commits import Attempt, OffsetCommits
from kafkatools.core.consumer.subscription import SubscriptionState
from kafkatools.core.group.classic_membership import ClassicMembership
from kafkatools.core.group.consumer_membership import ConsumerMembership
from kafkatools.core.metrics.membership import RebalanceMetrics


class GroupParts(NamedTuple):
    """The objects that a rebalance works with: network client, coordinator channel, subscription, commits, listener,
    metrics."""

    client: ConsumerNetworkClient
    channel: CoordinatorChannel
    subscription: GroupSubscription
    subscriptions: SubscriptionState
    commits: OffsetCommits
    listener: ListenerCalls
    metrics: RebalanceMetrics


class CommitBeforeRebalance:
    """State of the automatic commit, with its retries, that a rebalance sends before partitions are revoked.

    It is settled when it succeeded, failed with a non-retriable error or for a topic that does not exist, or
    max.poll.interval.ms has passed. Nothing blocks: the caller calls `is_settled` again.
    """

    def __init__(self, commits: OffsetCommits) -> None:
        self._commits = commits
        self._limit_ms: int = commits.settings.max_poll_interval_ms
        self._retry_backoff_ms: int = commits.settings.retry_backoff_ms
        self._attempt: Attempt | None = None
        self._deadline_ms: int | None = None
        self._retry_ms = 0

    @property
    def is_begun(self) -> bool:
        """Return whether `is_settled` has found offsets to commit since the last `forget`."""
        return self._deadline_ms is not None

    def is_settled(self, now_ms: int) -> bool:
        """Start or retry the commit of consumed offsets if needed; return whether the rebalance can proceed. True at
        once without enable.auto.commit or without consumed offsets, and after a non-retriable error."""
        if not self._commits.is_auto or not self._commits.all_consumed():
            return True
        if self._deadline_ms is None:
            self._deadline_ms = now_ms + self._limit_ms
        if now_ms >= self._deadline_ms:
            return True
        if self._attempt is None:
            if now_ms < self._retry_ms:
                return False
            self._attempt = self._commits.start_auto_commit()
            if self._attempt is None:  # the coordinator is unknown
                self._retry_ms = now_ms + self._retry_backoff_ms
                return False
        if not self._attempt.is_done:
            return False
        error, self._attempt = self._attempt.error, None
        if error is None or not error.retriable:
            return True
        if self._commits.absent_topics(error, self._commits.all_consumed()):
            return True  # deleted topics
        self._retry_ms = now_ms + self._retry_backoff_ms
        return False

    def forget(self) -> None:
        """Reset the state, because the rebalance proceeds or has ended."""
        self._attempt, self._deadline_ms, self._retry_ms = None, None, 0


class MemberHeartbeats:
    """Base of ClassicRebalance and ConsumerRebalance: heartbeats, client-side topic patterns, dropped partitions."""

    membership: ClassicMembership | ConsumerMembership

    def __init__(self, parts: GroupParts) -> None:
        self._parts = parts
        self._log = ClientLog.of(logging.getLogger(type(self).__module__), parts.commits.settings)
        self._commit = CommitBeforeRebalance(parts.commits)
        self._seen_metadata = -1

    def _drop_all(self, *, as_lost: bool) -> Steps[None]:
        """Call the listener for all assigned partitions, as lost or as revoked, and assign none."""
        owned = self._parts.subscriptions.assigned_partitions()
        if owned:
            self._log.info("Giving away all assigned partitions as %s", "lost" if as_lost else "revoked")
            call = self._parts.listener.notify_lost if as_lost else self._parts.listener.notify_revoked
            yield from call(owned)
            self._parts.subscriptions.assign(())

    def _match_metadata(self) -> bool:
        """Match the topic pattern against new metadata; return whether metadata was new."""
        version = self._parts.client.metadata_version
        if version == self._seen_metadata:
            return False
        self._seen_metadata = version
        self._parts.subscription.match(self._parts.client.cluster.topics)
        return True

    def tick(self, now_ms: int) -> None:
        """Send a due heartbeat, or leave the group when max.poll.interval.ms has passed without a poll. The caller
        holds the lock."""
        membership = self.membership
        if membership.is_in_group and membership.heartbeat.poll_expired(now_ms):
            request = membership.poll_expired()
        else:
            request = membership.heartbeat_request(now_ms)
        if request is not None:
            self._parts.channel.send(request)

    def delay_ms(self, now_ms: int, longest_ms: int) -> int:
        """Return the ms until a heartbeat or the poll interval is due, at most `longest_ms`; `longest_ms` outside of
        the group."""
        if not self.membership.is_in_group:
            return longest_ms
        heartbeat = self.membership.heartbeat
        return min(longest_ms, heartbeat.delay_ms(now_ms), heartbeat.poll_delay_ms(now_ms))
