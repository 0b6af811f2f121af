"""Rebalances under KIP-848 as the application's thread goes through them (ConsumerMembershipManager's reconciliation).

Rules: the broker says what we are to have; `advance` commits what was consumed, gives up what goes, takes what comes,
in this order and with the listener's calls, and lets the next heartbeat acknowledge it. A partition that is to go is
neither fetched nor handed out any more while its commit is on its way. Topics come as ids: those that metadata does not
know yet wait for it, and the rest goes ahead.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable

from kafkatools.core.consumer.commit_before import CommitBeforeRebalance
from kafkatools.core.consumer.errors import RetriableCommitFailed
from kafkatools.core.consumer.member_heartbeats import GroupParts, MemberHeartbeats
from kafkatools.core.consumer.offset_requests import NOT_A_MEMBER
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import CommitFailed, KafkaError, StaleMemberEpoch
from kafkatools.core.group.consumer_membership import ConsumerMembership, MemberState
from kafkatools.core.group.metadata import ConsumerGroupMetadata

_log = logging.getLogger(__name__)


class ConsumerRebalance(MemberHeartbeats):
    """See the module."""

    def __init__(self, membership: ConsumerMembership, parts: GroupParts) -> None:
        self.membership: ConsumerMembership = membership
        self._parts = parts
        self._names: dict[uuid.UUID, str] = {}
        settings = membership.settings
        self._commit = CommitBeforeRebalance(parts.commits, settings.max_poll_interval_ms, settings.retry_backoff_ms)
        self._unresolved: frozenset[uuid.UUID] = frozenset()

    # --- what the group consumer asks

    @property
    def _is_member(self) -> bool:
        return self.membership.is_in_group

    def advance(self, now_ms: int) -> None:
        """Does what can be done now. Raises what no other try cures, and what listeners raised."""
        self._note_subscription()
        with self._parts.channel.lock:
            failure = self.membership.take_failure()
            state = self.membership.state
        if failure is not None:
            raise failure
        if state in (MemberState.FENCED, MemberState.STALE, MemberState.UNSUBSCRIBED):
            self._rejoin(now_ms)
        elif state is MemberState.RECONCILING:
            self._reconcile(now_ms)
        else:
            return
        self._parts.channel.tick(now_ms)
        self._parts.listener.raise_error()

    def metadata_topics(self) -> frozenset[str]:
        """The topics whose partitions matter."""
        return self._parts.subscription.topics

    def request_rejoin(self, reason: str) -> None:
        """The broker decides when to rebalance: nothing to ask for."""
        _log.warning("The consumer protocol knows no rebalance on demand (%s)", reason)

    def leave(self, reason: str, *, even_static: bool = False) -> None:
        """Gives the partitions up and leaves."""
        owned = self._parts.subscriptions.assigned_partitions()
        with self._parts.channel.lock:
            is_member = self.membership.has_epoch
        if owned:
            call = self._parts.listener.revoked if is_member else self._parts.listener.lost
            call(owned)
            self._parts.subscriptions.assign(())
        self._commit.forget()
        with self._parts.channel.lock:
            request = self.membership.leave_request()
            if request is not None:
                self._parts.channel.send(request)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who we are."""
        with self._parts.channel.lock:
            return self.membership.group_metadata()

    # --- in whose name offsets are committed

    def commit_metadata(self) -> ConsumerGroupMetadata | KafkaError:
        """The member and its epoch, while it has one."""
        if self.membership.has_epoch:
            return self.membership.group_metadata()
        return CommitFailed(NOT_A_MEMBER)

    def note_commit_error(self, sent: ConsumerGroupMetadata, error: KafkaError) -> KafkaError:
        """An epoch that grew meanwhile is worth another try; everything else says that we are out."""
        with self._parts.channel.lock:
            now = self.membership.group_metadata()
        is_newer = now.member_id == sent.member_id and now.generation_id > sent.generation_id
        if isinstance(error, StaleMemberEpoch) and is_newer:
            return RetriableCommitFailed()
        return CommitFailed(NOT_A_MEMBER)

    def fetch_metadata(self) -> ConsumerGroupMetadata | None:
        """The broker refuses readers whose epoch is old."""
        return self.membership.group_metadata() if self.membership.has_epoch else None

    # --- subscription and membership

    def _note_subscription(self) -> None:
        subscription = self._parts.subscription
        self._match_metadata()
        with self._parts.channel.lock:
            self.membership.subscribe(subscription.topics, subscription.server_pattern)

    def _rejoin(self, now_ms: int) -> None:
        """What was ours is lost; start over. A pattern that is matched here waits for metadata first."""
        owned = self._parts.subscriptions.assigned_partitions()
        if owned:
            _log.info("Giving away all assigned partitions as lost")
            self._parts.listener.lost(owned)
            self._parts.subscriptions.assign(())
        self._commit.forget()
        if self._parts.subscription.needs_all_topics and self._parts.client.cluster.is_bootstrap:
            return
        with self._parts.channel.lock:
            self.membership.rejoin()

    # --- reconciliation

    def _reconcile(self, now_ms: int) -> None:
        with self._parts.channel.lock:
            target, life = dict(self.membership.target or {}), self.membership.life
            has_taken_one = self.membership.current is not None
        resolved = self._resolved(target)
        wanted = {TopicPartition(name, index) for topic, name in resolved.items() for index in target[topic]}
        owned = self._parts.subscriptions.assigned_partitions()
        if has_taken_one and wanted == set(owned) and self._unresolved:
            return  # all that can be done is done until metadata knows the rest
        revoked = [part for part in owned if part not in wanted]
        for part in owned:
            self._parts.subscriptions.state(part).pending_revocation = part not in wanted
        if not self._commit.is_settled(now_ms):
            return
        self._commit.forget()
        if revoked:
            self._parts.listener.revoked(revoked)
            self._parts.subscriptions.assign(part for part in owned if part in wanted)
        if self._is_over(life):
            return
        self._parts.subscriptions.assign([*(part for part in owned if part in wanted), *sorted(wanted - set(owned))])
        self._parts.client.set_topics({part.topic for part in wanted})
        self._parts.listener.assigned(wanted - set(owned))
        self._parts.commits.restart_auto_commit(now_ms)
        with self._parts.channel.lock:
            if not self._is_over(life):
                self.membership.acknowledge({topic: target[topic] for topic in resolved})

    def _is_over(self, life: int) -> bool:
        """Whether we were fenced, or left, while the listener ran."""
        with self._parts.channel.lock:
            return self.membership.life != life or self.membership.state is not MemberState.RECONCILING

    def _resolved(self, target: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
        """The names of the topics that are known; fresh metadata is asked for when some are not."""
        cluster = self._parts.client.cluster
        found: dict[uuid.UUID, str] = {}
        missing: set[uuid.UUID] = set()
        for topic in target:
            name = cluster.topic_name(topic) or self._names.get(topic)
            if name is None:
                missing.add(topic)
            else:
                found[topic] = name
        self._names = dict(found)
        self._unresolved = frozenset(missing)
        if missing:
            self._parts.client.leaders.request_update()
        return found
