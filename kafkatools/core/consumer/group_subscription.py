"""A group consumer's subscription and its rebalance listener, without I/O (half of Kafka's SubscriptionState).

Rules: topics, a pattern and manually assigned partitions exclude each other until `unsubscribe`. A regular expression
or predicate is matched here against all topics in metadata, as a full match; the broker matches a `SubscriptionPattern`
(KIP-848). Internal topics match only with exclude.internal.topics=false.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.network import Steps
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import IllegalState, KafkaError
from kafkatools.core.metrics.membership import RebalanceMetrics
from kafkatools.core.net.metadata import TopicView
from kafkatools.core.net.sendable_names import ensure_sendable_topic

_EXCLUSIVE = "Subscription to topics, partitions and pattern are mutually exclusive"


class SubscriptionPattern(NamedTuple):
    """An RE2 topic pattern that the group coordinator matches; needs group.protocol=consumer."""

    pattern: str


@enum.unique
class SubscriptionType(enum.Enum):
    """Kafka's SubscriptionType: none, topics, client-side pattern, broker-side pattern, manual assignment."""

    NONE = "none"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    AUTO_PATTERN_RE2J = "server pattern"
    USER_ASSIGNED = "assigned"


class RebalanceListener:
    """Callbacks for assigned and revoked partitions, on the polling thread (ConsumerRebalanceListener). Override any of
    them; with kafkatools.aio.Consumer they may be coroutine functions.

    Eager assignors revoke everything before a rebalance and assign everything afterwards; cooperative ones only the
    partitions that move. Lost partitions may already belong to another member: their offsets cannot be committed any
    more.
    """

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called before these partitions are revoked, while their offsets can still be committed. An eager rebalance
        calls it also without partitions."""
        return None

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called after every rebalance with the newly assigned partitions, possibly none."""
        return None

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called after partitions were lost without a revocation; by default calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(partitions)


TopicFilter = Callable[[str], bool]
Topics = Iterable[str] | re.Pattern[str] | SubscriptionPattern | TopicFilter


class GroupSubscription:
    """The subscribed topics or pattern, and the rebalance listener."""

    def __init__(self, exclude_internal_topics: bool) -> None:
        self._exclude_internal = exclude_internal_topics
        self.type = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()
        self.server_pattern: str | None = None
        self.listener: RebalanceListener = RebalanceListener()
        self._matches_topic: TopicFilter | None = None

    @property
    def is_automatic(self) -> bool:
        """Return whether the group, not the application, assigns the partitions."""
        return self.type not in (SubscriptionType.NONE, SubscriptionType.USER_ASSIGNED)

    @property
    def needs_all_topics(self) -> bool:
        """Return whether metadata must cover every topic, as both kinds of pattern require."""
        return self.type in (SubscriptionType.AUTO_PATTERN, SubscriptionType.AUTO_PATTERN_RE2J)

    def become(self, kind: SubscriptionType) -> None:
        """Set the kind of subscription. Raises IllegalState when another kind is set."""
        if self.type not in (SubscriptionType.NONE, kind):
            raise IllegalState(_EXCLUSIVE)
        self.type = kind

    def subscribe(self, subscription: Topics, listener: RebalanceListener | None) -> None:
        """Set topics or a pattern, and the listener (None: one that does nothing). Raises IllegalState for a change of
        kind, ValueError for an empty topic name, InvalidTopic for one that no request can hold."""
        if isinstance(subscription, SubscriptionPattern):
            self.become(SubscriptionType.AUTO_PATTERN_RE2J)
            self.server_pattern = subscription.pattern
        elif isinstance(subscription, re.Pattern):
            self.become(SubscriptionType.AUTO_PATTERN)
            self._matches_topic = lambda topic: subscription.fullmatch(topic) is not None
        elif callable(subscription):
            self.become(SubscriptionType.AUTO_PATTERN)
            self._matches_topic = subscription
        else:
            topics = valid_topics([subscription] if isinstance(subscription, str) else subscription)
            self.become(SubscriptionType.AUTO_TOPICS)
            self.topics = topics
        self.listener = listener or RebalanceListener()

    def unsubscribe(self) -> None:
        """Drop the topics or pattern; the listener stays."""
        self.type = SubscriptionType.NONE
        self.topics, self._matches_topic, self.server_pattern = frozenset(), None, None

    def match(self, topics: Mapping[str, TopicView]) -> None:
        """Set the subscribed topics to those that the client-side pattern matches, without internal ones if they are
        excluded. Does nothing without such a pattern."""
        if self._matches_topic is not None:
            names = (name for name, view in topics.items() if not (view.is_internal and self._exclude_internal))
            self.topics = frozenset(filter(self._matches_topic, names))

    def accepts(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether all these partitions belong to subscribed topics or match the client-side pattern; True for a
        broker-side pattern."""
        if self.type is SubscriptionType.AUTO_PATTERN_RE2J:
            return True
        matches = self._matches_topic or self.topics.__contains__
        return all(matches(part.topic) for part in partitions)


def valid_topics(topics: Iterable[str]) -> frozenset[str]:
    """Return the names of topics to subscribe to. Raises ValueError for an empty name, InvalidTopic for one that no
    request can hold."""
    names = frozenset(topics)
    if any(not topic or not topic.strip() for topic in names):
        raise ValueError("Topic collection to subscribe to cannot contain null or empty topic")
    for name in names:
        ensure_sendable_topic(name)
    return names


class ListenerCalls:
    """Calls the rebalance listener and stores its first exception until `raise_error`, after the rebalance. WakeupError
    is raised at once (Kafka's ConsumerRebalanceListenerInvoker)."""

    def __init__(self, subscription: GroupSubscription, metrics: RebalanceMetrics) -> None:
        self._subscription = subscription
        self._metrics = metrics
        self._error: BaseException | None = None
        self.is_calling = False
        """Whether a callback runs now; not while a coroutine function of it is waited for."""

    def notify_revoked(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Call on_partitions_revoked with the sorted partitions."""
        with self._metrics.time("revoked"):
            yield from self._call(self._subscription.listener.on_partitions_revoked, partitions)

    def notify_assigned(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Call on_partitions_assigned with the sorted partitions."""
        with self._metrics.time("assigned"):
            yield from self._call(self._subscription.listener.on_partitions_assigned, partitions)

    def notify_lost(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Call on_partitions_lost with the sorted partitions."""
        with self._metrics.time("lost"):
            yield from self._call(self._subscription.listener.on_partitions_lost, partitions)

    def _call(
        self,
        method: Callable[[Sequence[TopicPartition]], Awaitable[None] | None],
        partitions: Iterable[TopicPartition],
    ) -> Steps[None]:
        try:
            outcome = self._called(method, sorted(partitions))
            if isinstance(outcome, Awaitable):
                yield outcome
        except WakeupError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever the application raises goes back to it, after the rebalance
            self._error = self._error or error

    def _called(
        self, method: Callable[[Sequence[TopicPartition]], Awaitable[None] | None], partitions: list[TopicPartition]
    ) -> Awaitable[None] | None:
        self.is_calling = True
        try:
            return method(partitions)
        finally:
            self.is_calling = False

    def raise_error(self) -> None:
        """Raise the listener's stored exception as the cause of a KafkaError and forget it; do nothing without one."""
        error, self._error = self._error, None
        if error is not None:
            raise KafkaError("User rebalance callback throws an error") from error
