"""What a member of a group does between its rebalances, with either protocol: heartbeats, until nobody polls."""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.consumer.coordinator_channel import CoordinatorChannel
from kafkatools.core.consumer.group_subscription import GroupSubscription, ListenerCalls
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.consumer.offset_commits import OffsetCommits
from kafkatools.core.consumer.subscription import SubscriptionState
from kafkatools.core.group.classic_membership import ClassicMembership
from kafkatools.core.group.consumer_membership import ConsumerMembership


class GroupParts(NamedTuple):
    """What a rebalance works on."""

    client: ConsumerNetworkClient
    channel: CoordinatorChannel
    subscription: GroupSubscription
    subscriptions: SubscriptionState
    commits: OffsetCommits
    listener: ListenerCalls


class MemberHeartbeats:
    """The background duties of a member. A subclass says whether there is a membership to keep."""

    membership: ClassicMembership | ConsumerMembership
    _parts: GroupParts
    _seen_metadata = -1

    @property
    def _is_member(self) -> bool:
        raise NotImplementedError

    def _match_metadata(self) -> bool:
        """Match the subscription's pattern against the topics of fresh metadata; whether there was some."""
        version = self._parts.client.metadata_version
        if version == self._seen_metadata:
            return False
        self._seen_metadata = version
        self._parts.subscription.match(self._parts.client.cluster.topics)
        return True

    def tick(self, now_ms: int) -> None:
        """Heartbeats, and leaving when the application does not poll. Under the lock, by either thread."""
        membership = self.membership
        if self._is_member and membership.heartbeat.poll_expired(now_ms):
            request = membership.poll_expired()
        else:
            request = membership.heartbeat_request(now_ms)
        if request is not None:
            self._parts.channel.send(request)

    def delay_ms(self, now_ms: int, longest_ms: int) -> int:
        """How long nothing is due in the background."""
        if not self._is_member:
            return longest_ms
        heartbeat = self.membership.heartbeat
        return min(longest_ms, heartbeat.delay_ms(now_ms), heartbeat.poll_delay_ms(now_ms))
