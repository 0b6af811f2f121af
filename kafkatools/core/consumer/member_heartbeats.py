"""Heartbeats of a group member in both protocols, until the application stops polling."""

from __future__ import annotations

import logging
from typing import NamedTuple

from kafkatools.core.consumer.commit_before import CommitBeforeRebalance
from kafkatools.core.consumer.coordinator_channel import CoordinatorChannel
from kafkatools.core.consumer.group_subscription import GroupSubscription, ListenerCalls
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.consumer.offset_commits import OffsetCommits
from kafkatools.core.consumer.subscription import SubscriptionState
from kafkatools.core.group.classic_membership import ClassicMembership
from kafkatools.core.group.consumer_membership import ConsumerMembership

_log = logging.getLogger(__name__)


class GroupParts(NamedTuple):
    """The objects that a rebalance works with: network client, coordinator channel, subscription, commits, listener."""

    client: ConsumerNetworkClient
    channel: CoordinatorChannel
    subscription: GroupSubscription
    subscriptions: SubscriptionState
    commits: OffsetCommits
    listener: ListenerCalls


class MemberHeartbeats:
    """Base of ClassicRebalance and ConsumerRebalance: heartbeats, client-side topic patterns, dropped partitions."""

    membership: ClassicMembership | ConsumerMembership

    def __init__(self, parts: GroupParts) -> None:
        self._parts = parts
        self._commit = CommitBeforeRebalance(parts.commits)
        self._seen_metadata = -1

    def _drop_all(self, *, as_lost: bool) -> None:
        """Call the listener for all assigned partitions, as lost or as revoked, and assign none."""
        owned = self._parts.subscriptions.assigned_partitions()
        if owned:
            _log.info("Giving away all assigned partitions as %s", "lost" if as_lost else "revoked")
            call = self._parts.listener.notify_lost if as_lost else self._parts.listener.notify_revoked
            call(owned)
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
