"""KIP-848 rebalances on the application's thread (the reconciliation of Kafka's ConsumerMembershipManager).

Rules: the broker sends the target assignment. `advance` commits consumed offsets, revokes partitions, then adds new
ones, calling the rebalance listener each time; the next heartbeat acknowledges the result. A partition being revoked is
neither fetched nor returned while its offsets are committed. Targets name topics by id: an id that is missing from
metadata waits for fresh metadata, the remaining topics do not.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from kafkatools.core.consumer.errors import RetriableCommitFailed
from kafkatools.core.consumer.member_heartbeats import GroupParts, MemberHeartbeats
from kafkatools.core.consumer.network import Steps
from kafkatools.core.consumer.offset_requests import NOT_A_MEMBER
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import CommitFailed, KafkaError, StaleMemberEpoch
from kafkatools.core.group.consumer_membership import ConsumerMembership, MemberState
from kafkatools.core.group.metadata import ConsumerGroupMetadata


class ConsumerRebalance(MemberHeartbeats):
    """The application-thread side of a KIP-848 group membership: reconcile assignments, rejoin, leave."""

    def __init__(self, membership: ConsumerMembership, parts: GroupParts) -> None:
        self.membership: ConsumerMembership = membership
        super().__init__(parts)
        self._names: dict[uuid.UUID, str] = {}
        self._unresolved: frozenset[uuid.UUID] = frozenset()

    # --- state for the group consumer

    def advance(self, now_ms: int) -> Steps[None]:
        """Pass subscription changes to the membership, then rejoin or reconcile if its state requires it; never waits
        for a response. Raises fatal membership errors, a listener's WakeupError, and KafkaError with a listener's other
        exception as its cause. After a fatal error the partitions are lost, and every call raises it until `leave`."""
        self._note_subscription()
        with self._parts.channel.lock:
            failure = self.membership.failure_to_raise()
            state = self.membership.state
        if failure is not None:
            if state is MemberState.FATAL:
                yield from self._drop_all(as_lost=True)
            raise failure.with_traceback(None)  # each poll raises it, and would add to its traceback
        if state in (MemberState.FENCED, MemberState.STALE, MemberState.UNSUBSCRIBED):
            yield from self._rejoin(now_ms)
        elif state is MemberState.RECONCILING:
            yield from self._reconcile(now_ms)
        else:
            return
        self._parts.channel.tick(now_ms)
        self._parts.listener.raise_error()

    def metadata_topics(self) -> frozenset[str]:
        """Return the subscribed topics, whose metadata the client must fetch."""
        return self._parts.subscription.topics

    def request_rejoin(self, reason: str) -> None:
        """Log a warning: in KIP-848 groups only the broker starts rebalances."""
        self._log.warning(
            "Ignored a request to rebalance: the consumer protocol has no rebalances on demand (%s)", reason
        )

    def leave(self, reason: str, leaves: bool | None = None) -> Steps[None]:
        """Revoke all partitions (as lost without an epoch), reset the membership and send the leave heartbeat without
        waiting. A member outside of the group or without a known coordinator sends none. `leaves` as in
        `leave_request`; ignores `reason`."""
        with self._parts.channel.lock:
            is_member = self.membership.has_epoch
        yield from self._drop_all(as_lost=not is_member)
        self._commit.forget()
        with self._parts.channel.lock:
            request = self.membership.leave_request(leaves)
            if request is not None:
                self._parts.channel.send(request)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group id, member id, member epoch and instance id."""
        with self._parts.channel.lock:
            return self.membership.group_metadata()

    # --- the member that commits offsets

    def commit_metadata(self) -> ConsumerGroupMetadata | KafkaError:
        """Return the group metadata for OffsetCommit; return (not raise) CommitFailed while the member has no epoch."""
        if self.membership.has_epoch:
            return self.membership.group_metadata()
        return CommitFailed(NOT_A_MEMBER)

    def note_commit_error(self, sent_metadata: ConsumerGroupMetadata, error: KafkaError) -> KafkaError:
        """Return the application's error for a refused commit: RetriableCommitFailed for StaleMemberEpoch when the
        member epoch grew since the request, else CommitFailed."""
        with self._parts.channel.lock:
            current = self.membership.group_metadata()
        is_newer = current.member_id == sent_metadata.member_id and current.generation_id > sent_metadata.generation_id
        if isinstance(error, StaleMemberEpoch) and is_newer:
            return RetriableCommitFailed()
        return CommitFailed(NOT_A_MEMBER)

    def fetch_metadata(self) -> ConsumerGroupMetadata | None:
        """Return the member id and epoch that OffsetFetch must carry; None while the member has no epoch."""
        return self.membership.group_metadata() if self.membership.has_epoch else None

    # --- subscription and membership

    def _note_subscription(self) -> None:
        subscription = self._parts.subscription
        self._match_metadata()
        with self._parts.channel.lock:
            self.membership.subscribe(subscription.topics, subscription.server_pattern)

    def _rejoin(self, now_ms: int) -> Steps[None]:
        """Drop all partitions as lost and rejoin the group; a client-side pattern first waits for metadata."""
        self._parts.metrics.failed(now_ms)
        yield from self._drop_all(as_lost=True)
        self._commit.forget()
        if self._parts.subscription.needs_all_topics and self._parts.client.cluster.is_bootstrap:
            return
        with self._parts.channel.lock:
            self.membership.rejoin()

    # --- reconciliation

    def _reconcile(self, now_ms: int) -> Steps[None]:
        with self._parts.channel.lock:
            target, life = dict(self.membership.target or {}), self.membership.life
            has_taken_one = self.membership.current is not None
        resolved = self._resolved(target)
        assigned = {TopicPartition(name, index) for topic, name in resolved.items() for index in target[topic]}
        owned = self._parts.subscriptions.assigned_partitions()
        if has_taken_one and assigned == set(owned) and self._unresolved:
            return  # the remaining topic ids wait for metadata
        self._parts.metrics.started(now_ms)
        revoked = [part for part in owned if part not in assigned]
        for part in owned:
            self._parts.subscriptions.state(part).pending_revocation = part not in assigned
        if not self._commit.is_settled(now_ms):
            return
        self._commit.forget()
        if revoked:
            yield from self._parts.listener.notify_revoked(revoked)
            self._parts.subscriptions.assign(part for part in owned if part in assigned)
        if self._is_over(life):
            return
        self._parts.subscriptions.assign(
            [*(part for part in owned if part in assigned), *sorted(assigned - set(owned))]
        )
        self._parts.client.set_topics({part.topic for part in assigned})
        yield from self._parts.listener.notify_assigned(assigned - set(owned))
        self._parts.commits.restart_auto_commit(now_ms)
        with self._parts.channel.lock:
            if not self._is_over(life):
                self.membership.acknowledge({topic: target[topic] for topic in resolved})
                self._parts.metrics.ended(self._parts.channel.clock.now_ms())

    def _is_over(self, life: int) -> bool:
        """Return whether the membership ended, or its state is no longer RECONCILING, since the reconciliation
        began."""
        with self._parts.channel.lock:
            return self.membership.life != life or self.membership.state is not MemberState.RECONCILING

    def _resolved(self, target: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
        """Return the names of the topic ids found in metadata or resolved by the previous call; request fresh metadata
        when some are missing."""
        cluster = self._parts.client.cluster
        names: dict[uuid.UUID, str] = {}
        missing: set[uuid.UUID] = set()
        for topic in target:
            name = cluster.topic_name(topic) or self._names.get(topic)
            if name is None:
                missing.add(topic)
            else:
                names[topic] = name
        self._names = dict(names)
        self._unresolved = frozenset(missing)
        if missing:
            self._parts.client.leaders.request_update()
        return names
