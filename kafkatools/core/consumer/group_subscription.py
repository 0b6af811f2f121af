"""What a consumer with a group subscribes to, and who is told about rebalances, without I/O (SubscriptionState's half).

Rules: topics, a pattern and partitions assigned by hand exclude each other until `unsubscribe`. A pattern is matched
here against all topics that metadata shows; a `SubscriptionPattern` is matched by the broker (KIP-848). A topic matches
as a whole. Internal topics match only with exclude.internal.topics=false.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import IllegalState, KafkaError
from kafkatools.core.net.metadata import TopicView

_EXCLUSIVE = "Subscription to topics, partitions and pattern are mutually exclusive"


class SubscriptionPattern(NamedTuple):
    """A regular expression (RE2) that the group coordinator matches, with group.protocol=consumer."""

    pattern: str


class SubscriptionType(enum.Enum):
    """Kafka's SubscriptionType."""

    NONE = "none"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    AUTO_PATTERN_RE2J = "server pattern"
    USER_ASSIGNED = "assigned"


class RebalanceListener:
    """Told when partitions come and go, on the thread that polls (ConsumerRebalanceListener); override what you need.

    With eager assignors everything is revoked before a rebalance and assigned after it; with cooperative ones only what
    moves. Lost partitions may be somebody else's already: their offsets cannot be committed any more.
    """

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These are about to go; they are still ours."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are new."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These went without notice; as revoked, unless overridden."""
        self.on_partitions_revoked(partitions)


Takes = Callable[[str], bool]
Topics = Iterable[str] | re.Pattern[str] | SubscriptionPattern | Takes


class GroupSubscription:
    """Topics or a pattern, and the listener."""

    def __init__(self, exclude_internal_topics: bool) -> None:
        self._exclude_internal = exclude_internal_topics
        self.type = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()
        self.server_pattern: str | None = None
        self.listener: RebalanceListener = RebalanceListener()
        self._takes: Takes | None = None

    @property
    def is_automatic(self) -> bool:
        """Whether the group assigns our partitions."""
        return self.type not in (SubscriptionType.NONE, SubscriptionType.USER_ASSIGNED)

    @property
    def needs_all_topics(self) -> bool:
        """Whether metadata has to cover every topic: a pattern's topics are known by their ids or names only then."""
        return self.type in (SubscriptionType.AUTO_PATTERN, SubscriptionType.AUTO_PATTERN_RE2J)

    def become(self, kind: SubscriptionType) -> None:
        """Takes a kind of subscription. Raises IllegalState when there is another."""
        if self.type not in (SubscriptionType.NONE, kind):
            raise IllegalState(_EXCLUSIVE)
        self.type = kind

    def subscribe(self, wanted: Topics, listener: RebalanceListener | None) -> bool:
        """Takes a subscription; whether it differs from the present one."""
        before = (self.type, self.topics, self._takes, self.server_pattern)
        if isinstance(wanted, SubscriptionPattern):
            self.become(SubscriptionType.AUTO_PATTERN_RE2J)
            self.server_pattern = wanted.pattern
        elif isinstance(wanted, re.Pattern):
            self.become(SubscriptionType.AUTO_PATTERN)
            self._takes = _Whole(wanted)
        elif callable(wanted):
            self.become(SubscriptionType.AUTO_PATTERN)
            self._takes = wanted
        else:
            topics = _checked([wanted] if isinstance(wanted, str) else wanted)
            self.become(SubscriptionType.AUTO_TOPICS)
            self.topics = topics
        self.listener = listener or RebalanceListener()
        return before != (self.type, self.topics, self._takes, self.server_pattern)

    def unsubscribe(self) -> None:
        """Nothing is subscribed any more."""
        self.type = SubscriptionType.NONE
        self.topics, self._takes, self.server_pattern = frozenset(), None, None

    def match(self, topics: Mapping[str, TopicView]) -> bool:
        """Looks a pattern's topics up; whether they changed."""
        if self._takes is None:
            return False
        found = frozenset(name for name, topic in topics.items() if self._is_wanted(name, topic.is_internal))
        changed, self.topics = found != self.topics, found
        return changed

    def _is_wanted(self, topic: str, is_internal: bool) -> bool:
        return not (is_internal and self._exclude_internal) and self._takes is not None and self._takes(topic)

    def accepts(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment holds nothing but what is subscribed."""
        if self.type is SubscriptionType.AUTO_PATTERN_RE2J:
            return True
        takes = self._takes or self.topics.__contains__
        return all(takes(part.topic) for part in partitions)


class _Whole:
    """A pattern as a predicate; two of the same pattern are equal."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def __call__(self, topic: str) -> bool:
        return self._pattern.fullmatch(topic) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Whole) and other._pattern == self._pattern

    def __hash__(self) -> int:
        return hash(self._pattern)


def _checked(topics: Iterable[str]) -> frozenset[str]:
    found = frozenset(topics)
    if any(not topic or not topic.strip() for topic in found):
        raise ValueError("Topic collection to subscribe to cannot contain null or empty topic")
    return found


class ListenerCalls:
    """Calls the listener; its errors are kept until the rebalance is done, the first one is raised then.

    WakeupError goes through at once (ConsumerRebalanceListenerInvoker).
    """

    def __init__(self, subscription: GroupSubscription) -> None:
        self._subscription = subscription
        self._error: BaseException | None = None

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """onPartitionsRevoked."""
        self._call(self._subscription.listener.on_partitions_revoked, partitions)

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """onPartitionsAssigned."""
        self._call(self._subscription.listener.on_partitions_assigned, partitions)

    def lost(self, partitions: Iterable[TopicPartition]) -> None:
        """onPartitionsLost."""
        self._call(self._subscription.listener.on_partitions_lost, partitions)

    def _call(self, method: Callable[[Sequence[TopicPartition]], None], partitions: Iterable[TopicPartition]) -> None:
        try:
            method(sorted(partitions))
        except WakeupError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever the application raises goes back to it, after the rebalance
            self._error = self._error or error

    def raise_error(self) -> None:
        """Raises what the listener raised, as the cause of a KafkaError."""
        error, self._error = self._error, None
        if error is not None:
            raise KafkaError("User rebalance callback throws an error") from error
