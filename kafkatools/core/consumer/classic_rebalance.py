"""Rebalances of the classic group protocol on the application's thread (Kafka's ConsumerCoordinator).

Rules: `advance` performs the steps that ClassicMembership requests until one must wait for a response, metadata or a
commit. It does not wait itself, so polls go on reading owned partitions. Listeners and assignors run here, outside of
the lock, in Kafka's order. Eager members revoke all partitions before they join. Cooperative members revoke only those
of unsubscribed topics then, and after the SyncGroup response those that the new assignment lacks. Without a valid
generation, partitions are reported as lost, not as revoked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkatools.core.consumer.assignors.assignor import (
    Assignor,
    MemberSubscription,
    RebalanceProtocol,
    partitions_of,
    racks_of,
)
from kafkatools.core.consumer.group_subscription import SubscriptionType
from kafkatools.core.consumer.member_heartbeats import GroupParts, MemberHeartbeats
from kafkatools.core.consumer.network import Steps
from kafkatools.core.consumer.offset_requests import EXECUTING_REBALANCE, NOT_A_MEMBER, UNDERGOING_REBALANCE
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import (
    CommitFailed,
    ConfigError,
    FencedInstanceId,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
)
from kafkatools.core.group.classic_membership import ClassicMembership, Generation, MemberState, Step
from kafkatools.core.group.metadata import NO_GENERATION, ConsumerGroupMetadata
from kafkatools.core.group.subscription_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return the highest rebalance protocol that all assignors support. Raises ConfigError when there is none, when no
    assignor is configured, or when two share a name."""
    if not assignors:
        raise ConfigError("partition.assignment.strategy names no assignor, but the consumer subscribes to topics")
    names = [assignor.name for assignor in assignors]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"The assignor name: '{min(twice)}' is used in more than one assignor: [{', '.join(names)}]")
    common = set(assignors[0].supported_protocols).intersection(
        *(assignor.supported_protocols for assignor in assignors)
    )
    if not common:
        raise ConfigError(f"Specified assignors [{', '.join(names)}] do not have commonly supported rebalance protocol")
    return max(common)


class ClassicRebalance(MemberHeartbeats):
    """The application-thread side of a classic group membership: rejoin, assign as leader, revoke, leave."""

    def __init__(self, membership: ClassicMembership, parts: GroupParts, assignors: Sequence[Assignor]) -> None:
        self.membership: ClassicMembership = membership
        self._group_metadata = membership.group_metadata()
        super().__init__(parts)
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = common_protocol(assignors)
        self._joined_topics: frozenset[str] = frozenset()
        self._group_topics: frozenset[str] = frozenset()
        self._snapshot: dict[str, list[frozenset[str]]] | None = None
        self._awaited_metadata: int | None = None
        self._steps: dict[Step, Callable[[int], bool | Steps[bool]]] = {
            Step.PREPARE: self._prepare,
            Step.JOIN: self._join,
            Step.ASSIGN: self._assign,
            Step.SYNC: self._sync,
            Step.COMPLETE: self._complete,
        }

    # --- state for the group consumer

    def advance(self, now_ms: int) -> Steps[None]:
        """Request a rejoin when metadata or the subscription changed, then perform the due rebalance steps without
        waiting for responses.

        Raises fatal membership errors, errors of the leader's assignment and a listener's WakeupError at once. A fenced
        member has lost its partitions, and every call raises FencedInstanceId until `leave`. Raises
        KafkaError, caused by a listener's other exception, after the new assignment was applied.
        """
        self._note_changes()
        while True:
            with self._parts.channel.lock:
                failure, is_final = self.membership.failure_to_raise(), self.membership.has_ended
                step = self.membership.next_step(now_ms)
            if failure is not None:
                if is_final:
                    yield from self._drop_all(as_lost=True)
                raise failure.with_traceback(None)  # each poll raises it, and would add to its traceback
            action = self._steps.get(step)
            if action is None:
                return
            goes_on = action(now_ms)
            if not (goes_on if isinstance(goes_on, bool) else (yield from goes_on)):
                return

    def metadata_topics(self) -> frozenset[str]:
        """Return the topics whose metadata is needed: the member's own, and as group leader those of all members."""
        return self._parts.subscription.topics | self._group_topics

    def request_rejoin(self, reason: str) -> None:
        """Make a later `advance` send JoinGroup with this reason."""
        with self._parts.channel.lock:
            self.membership.request_rejoin(reason)

    def leave(self, reason: str, leaves: bool | None = None) -> Steps[None]:
        """Revoke all partitions (as lost during a rebalance or without a generation), reset the membership and send
        LeaveGroup without waiting. Follows Kafka's onLeavePrepare and maybeLeaveGroup. LeaveGroup is not sent by a
        member that never joined, or while the coordinator is unknown. `leaves` as in `leave_request`."""
        with self._parts.channel.lock:
            is_lost = not self.membership.has_generation or self.membership.is_rebalancing
        yield from self._drop_all(as_lost=is_lost)
        with self._parts.channel.lock:
            request = self.membership.leave_request(reason, leaves)
            if request is not None:
                self._parts.channel.send(request)
        self._group_topics, self._snapshot, self._joined_topics = frozenset(), None, frozenset()
        self._commit.forget()
        self._awaited_metadata = None

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata of the last assignment, even after the membership ended
        (ConsumerCoordinator.groupMetadata). Before the first assignment it has no member id. The heartbeat thread may
        lose the membership while the application still processes records. A broker would accept transactional offsets
        without a member id from any consumer, so the old member id stays."""
        return self._group_metadata

    # --- the member that commits offsets

    def commit_metadata(self) -> ConsumerGroupMetadata | KafkaError:
        """Return the group metadata for OffsetCommit in a stable generation. Otherwise return (not raise)
        RebalanceInProgress during a rebalance, CommitFailed when not a member."""
        if self.membership.state is MemberState.STABLE:
            return self.membership.group_metadata()
        if self.membership.is_rebalancing:
            return RebalanceInProgress(UNDERGOING_REBALANCE)
        return CommitFailed(NOT_A_MEMBER)

    def note_commit_error(self, sent_metadata: ConsumerGroupMetadata, error: KafkaError) -> KafkaError:
        """Return the application's error for a refused commit: FencedInstanceId, RebalanceInProgress or CommitFailed
        (Kafka's OffsetCommitResponseHandler). If the generation is still the one that sent the commit, also rejoin
        after RebalanceInProgress, or reset it after UnknownMemberId and IllegalGeneration."""
        membership = self.membership
        with self._parts.channel.lock:
            is_unchanged = membership.group_metadata() == sent_metadata
            if is_unchanged:
                membership.note_commit_error(membership.generation, error)
            if isinstance(error, FencedInstanceId):
                return error if is_unchanged else CommitFailed(NOT_A_MEMBER)
            if isinstance(error, RebalanceInProgress):
                return RebalanceInProgress(EXECUTING_REBALANCE)
            if not is_unchanged and membership.state is MemberState.PREPARING_REBALANCE:
                return RebalanceInProgress(UNDERGOING_REBALANCE)
        return CommitFailed(NOT_A_MEMBER)

    def fetch_metadata(self) -> ConsumerGroupMetadata | None:
        """Return None: OffsetFetch carries no member id in the classic protocol."""
        return None

    # --- reasons to join again

    def _note_changes(self) -> None:
        subscription = self._parts.subscription
        if self._match_metadata() and self._snapshot is not None and self._snapshot != self._partitions():
            self._snapshot = None
            self.request_rejoin("cached metadata has changed")
        if not self.membership.rejoin_needed_or_pending and self._joined_topics != subscription.topics:
            self.request_rejoin("subscription has changed")

    def _partitions(self) -> dict[str, list[frozenset[str]]]:
        """Return what makes a leader join again when it changes: the partitions, with client.rack also the racks of
        their replicas (MetadataSnapshot). A broker that restarts is missing from metadata, and so is its rack."""
        has_rack = bool(self.membership.settings.client_rack)
        topics = partitions_of(self._parts.client.cluster, sorted(self.metadata_topics()))
        return {
            topic: [racks_of(info) if has_rack else frozenset() for info in infos] for topic, infos in topics.items()
        }

    # --- the steps

    def _prepare(self, now_ms: int) -> Steps[bool]:
        """Commit consumed offsets, then revoke partitions before joining (Kafka's onJoinPrepare). Without a generation,
        report them as lost instead, without a commit. Returns False until the commit is settled."""
        with self._parts.channel.lock:
            generation = self.membership.generation
            is_member = self.membership.has_generation
        owned = self._parts.subscriptions.assigned_partitions()
        if is_member and not self._is_committed(owned, now_ms):
            return False
        self._commit.forget()
        yield from self._give_up(owned, is_member)
        with self._parts.channel.lock:
            if self.membership.generation == generation:
                self.membership.prepared()
        return True

    def _is_committed(self, owned: Sequence[TopicPartition], now_ms: int) -> bool:
        """Start or retry the automatic commit; return whether it has succeeded, finally failed or is not needed. Under
        the eager protocol, owned partitions return no records meanwhile."""
        is_first = not self._commit.is_begun
        if self._commit.is_settled(now_ms):
            return True
        if is_first and self._protocol is RebalanceProtocol.EAGER:
            self._parts.subscriptions.mark_pending_revocation(owned)
        return False

    def _give_up(self, owned: Sequence[TopicPartition], is_member: bool) -> Steps[None]:
        subscriptions, listener = self._parts.subscriptions, self._parts.listener
        if not is_member:
            yield from self._drop_all(as_lost=True)
        elif self._protocol is RebalanceProtocol.EAGER:
            yield from listener.notify_revoked(owned)
            subscriptions.assign(())
        else:
            topics = self._parts.subscription.topics
            revoked = [part for part in owned if part.topic not in topics]
            if revoked:
                yield from listener.notify_revoked(revoked)
                subscriptions.assign(part for part in owned if part.topic in topics)

    def _join(self, now_ms: int) -> bool:
        subscription = self._parts.subscription
        if subscription.needs_all_topics:
            cluster = self._parts.client.cluster
            if cluster.is_bootstrap:
                return False  # no metadata has arrived yet
            subscription.match(cluster.topics)
        self._snapshot, self._group_topics = None, frozenset()
        self._joined_topics = topics = subscription.topics
        owned = tuple(self._parts.subscriptions.assigned_partitions())
        with self._parts.channel.lock:
            generation: Generation = self.membership.generation
        protocols = [
            (
                name,
                encode_subscription(
                    Subscription(
                        tuple(topics),
                        assignor.subscription_user_data(topics),
                        owned,
                        generation.generation_id,
                        self.membership.settings.client_rack or None,
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]
        with self._parts.channel.lock:
            if self.membership.next_step(now_ms) is Step.JOIN:
                self._parts.metrics.joins(now_ms)
                self._parts.channel.send(self.membership.join_request(protocols, now_ms))
        return True

    def _assign(self, now_ms: int) -> bool:
        """As group leader, assign partitions to all members and send SyncGroup. Returns False while a metadata response
        for the group's topics is outstanding; topics that it lacks stay unassigned. Raises KafkaError for an
        undecodable subscription or an unknown protocol, after abandoning the join."""
        joined = self.membership.joined
        if joined is None:
            return True
        subscriptions: dict[str, MemberSubscription] = {}
        try:
            for member, instance, data in joined.members:
                subscriptions[member] = _member_subscription(decode_subscription(data), instance)
            assignor = self._assignors.get(joined.protocol_name)
            if assignor is None:
                raise InconsistentGroupProtocol(
                    f"Coordinator selected invalid assignment protocol: {joined.protocol_name}"
                )
        except KafkaError:
            with self._parts.channel.lock:
                self.membership.abandon_join("the assignment failed")
            raise
        topics = frozenset(topic for subscription in subscriptions.values() for topic in subscription.topics)
        if not self._has_metadata(topics):
            return False
        self._snapshot = self._partitions()
        assigned = assignor.assign(partitions_of(self._parts.client.cluster, topics), subscriptions)
        assignments = {
            member: encode_assignment(Assignment(tuple(assigned.get(member, ())))) for member, _, _ in joined.members
        }
        self._send_sync(assignments, now_ms)
        return True

    def _has_metadata(self, topics: frozenset[str]) -> bool:
        """Return whether metadata covers the group's topics, or was refreshed since they became known. Otherwise
        request a refresh and return False. Always True for a topic pattern, which needs the metadata of all topics."""
        client = self._parts.client
        self._group_topics = topics
        if self._awaited_metadata is None:
            if self._parts.subscription.needs_all_topics or topics <= client.cluster.topics.keys():
                return True
            client.replace_topics(self.metadata_topics())
            self._awaited_metadata = client.leaders.request_update(reset_backoff=True)
        if client.update_version <= self._awaited_metadata:
            return False
        self._awaited_metadata = None
        return True

    def _send_sync(self, assignments: dict[str, bytes], now_ms: int) -> None:
        with self._parts.channel.lock:
            if self.membership.joined is not None and self._parts.channel.lookup.is_known:
                self._parts.channel.send(self.membership.sync_request(assignments, now_ms))

    def _sync(self, now_ms: int) -> bool:
        joined = self.membership.joined
        if joined is not None and joined.skips_assignment:
            self._group_topics = frozenset(
                topic for _, _, data in joined.members for topic in decode_subscription(data).topics
            )
            self._snapshot = self._partitions()
        self._send_sync({}, now_ms)
        return True

    def _complete(self, now_ms: int) -> Steps[bool]:
        """Apply the assignment of a finished SyncGroup and call the listener (Kafka's onJoinComplete). An assignment
        with unsubscribed topics is dropped and the member rejoins. Returns True, for the next step, only when the
        generation was lost meanwhile."""
        with self._parts.channel.lock:
            data, generation = self.membership.assignment, self.membership.generation
            group_metadata = self.membership.group_metadata()
            self.membership.completed()
        if data is None or generation.generation_id == NO_GENERATION:
            return True
        self._group_metadata = group_metadata
        self._parts.metrics.ended(now_ms)
        assigned = [TopicPartition(*part) for part in decode_assignment(data).partitions]
        if not self._parts.subscription.accepts(assigned):
            self._log.warning("An assignment holds topics that are not subscribed: %s", assigned)
            self.request_rejoin("received assignment does not match the current subscription")
            return False
        try:
            yield from self._give_away(assigned)
        except BaseException:  # WakeupError or an interrupt: the partitions still have to be exchanged
            with self._parts.channel.lock:
                self.membership.postpone(data, generation)
            raise
        yield from self._take_over(assigned, generation, now_ms)
        return False

    def _give_away(self, assigned: list[TopicPartition]) -> Steps[None]:
        """Under the cooperative protocol, revoke the partitions that the new assignment lacks, and join again for the
        members that get them."""
        if self._protocol is not RebalanceProtocol.COOPERATIVE:
            return
        remaining = set(assigned)
        owned = self._parts.subscriptions.assigned_partitions()
        revoked = [part for part in owned if part not in remaining]
        if revoked:
            yield from self._parts.listener.notify_revoked(revoked)
            self.request_rejoin("need to revoke partitions and re-join")

    def _take_over(self, assigned: list[TopicPartition], generation: Generation, now_ms: int) -> Steps[None]:
        subscriptions, listener = self._parts.subscriptions, self._parts.listener
        owned = set(subscriptions.assigned_partitions())
        if self._parts.subscription.type is SubscriptionType.AUTO_PATTERN:
            self._parts.subscription.topics |= {part.topic for part in assigned}
            self._joined_topics = self._parts.subscription.topics
        assignor = self._assignors.get(generation.protocol_name or "")
        if assignor is not None:
            assignor.on_assignment(assigned, generation.generation_id)
        self._parts.commits.restart_auto_commit(now_ms)
        subscriptions.assign(assigned)
        self._parts.client.set_topics({part.topic for part in assigned})
        yield from listener.notify_assigned([part for part in assigned if part not in owned])
        listener.raise_error()


def _member_subscription(subscription: Subscription, instance: str | None) -> MemberSubscription:
    topics, user_data, owned, generation_id, rack_id = subscription
    partitions = [TopicPartition(*part) for part in owned]
    return MemberSubscription(list(topics), partitions, user_data, generation_id, instance, rack_id)
