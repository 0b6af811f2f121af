"""ProducerMetadata: metadata of the topics that a producer sends to (Kafka's ProducerMetadata).

Rules: a new topic is requested without back-off; the request has only new topics, unless a full update is due. A topic
without a send for metadata.max.idle.ms is dropped at the next response that contains it. A request may create the
topic, if the brokers allow that.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import IllegalState
from kafkatools.core.net.addresses import parse_bootstrap_servers
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.sendable_names import ensure_sendable_topic


class ProducerMetadata(Metadata):
    """The metadata of the topics that records were sent to. `_expiry_ms`: when to drop each topic; None before its
    first response."""

    def __init__(self, config: Config, clock: Clock) -> None:
        super().__init__(
            parse_bootstrap_servers(config.bootstrap_servers),
            max_age_ms=config.metadata_max_age_ms,
            backoff=ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            allow_auto_topic_creation=True,
            rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
        )
        self._clock = clock
        self._max_idle_ms: int = config.metadata_max_idle_ms
        self._expiry_ms: dict[str, int | None] = {}
        self._new_topics: set[str] = set()
        self.waiting = 0  # number of threads that wait for an update
        self._is_closed = False

    def add(self, topic: str, now_ms: int) -> None:
        """Register a send to a topic: request the metadata of a new topic, extend the expiry of another one. Raises
        InvalidTopic for a name that no request can hold."""
        with self._lock:
            if topic not in self._expiry_ms:
                ensure_sendable_topic(topic)
                self._expiry_ms[topic] = None
                self._new_topics.add(topic)
                self.request_update_for_new_topics()
            elif self._expiry_ms[topic] is not None:
                self._expiry_ms[topic] = now_ms + self._max_idle_ms

    def contains(self, topic: str) -> bool:
        """Return whether a send to the topic was registered and the topic was not dropped since."""
        return topic in self._expiry_ms

    def touch(self, topic: str) -> None:
        """Extend the expiry of a topic that a response contained; no effect on other topics. Called for every send, so
        without the lock (one store into a dict)."""
        if self._expiry_ms.get(topic) is not None:
            self._expiry_ms[topic] = self._clock.now_ms() + self._max_idle_ms

    def request_update_for_topic(self, topic: str, now_ms: int) -> int:
        """Register a send to a topic and request an update; return the update version that the update will exceed."""
        with self._lock:
            self.add(topic, now_ms)
            if topic in self._new_topics:
                return self.request_update_for_new_topics()
            return self.request_update(reset_backoff=False)

    def await_update(self, last_version: int, timeout_ms: int) -> bool:
        """Wait for an update after `last_version`; return False when the time is up. Raises, and clears, the error set
        by `fail`. Raises IllegalState after `close`."""
        with self._lock:
            self.waiting += 1
            try:
                arrived = self._condition.wait_for(
                    lambda: self._update_version > last_version or self._error or self._is_closed, timeout_ms / 1000
                )
            finally:
                self.waiting -= 1
            if self._is_closed:
                raise IllegalState("The producer was closed while a call waited for metadata")
            error = self.take_error()
            if error is not None:
                raise error
            return bool(arrived)

    def close(self) -> None:
        """End all waits for an update with IllegalState."""
        with self._lock:
            self._is_closed = True
            self._condition.notify_all()

    def raise_for_topic(self, topic: str) -> None:
        """Raise TopicAuthorizationFailed or InvalidTopic if that is the topic's error in the metadata."""
        error = self.cluster.topic_error(topic)
        if error is not None:
            raise error

    # -- the hooks of Metadata, under its lock --

    def topics_of_interest(self) -> Collection[str]:
        return sorted(self._expiry_ms)

    def new_topics(self) -> Collection[str]:
        return sorted(self._new_topics)

    def retain_topic(self, topic: str, now_ms: int) -> bool:
        """Return whether to keep a topic of a Metadata response: records were sent to it within metadata.max.idle.ms,
        or it is new. Drops an expired one (ProducerMetadata.retainTopic)."""
        if topic not in self._expiry_ms:
            return False
        expiry_ms = self._expiry_ms[topic]
        if expiry_ms is not None and expiry_ms <= now_ms and topic not in self._new_topics:
            del self._expiry_ms[topic]
            return False
        return True

    def on_update(self, now_ms: int) -> None:
        """Mark topics with metadata or an error in the response as no longer new, and start their expiry."""
        for topic in [*self._cluster.topics, *self._cluster.topic_errors]:
            if topic in self._expiry_ms and self._expiry_ms[topic] is None:
                self._expiry_ms[topic] = now_ms + self._max_idle_ms
            self._new_topics.discard(topic)


def not_present(topic: str, partition: int | None, count: int | None, waited_ms: int) -> str:
    """Kafka's message for a topic or partition that metadata did not contain within `waited_ms`."""
    if partition is None or count is None:
        return f"Topic {topic} not present in metadata after {waited_ms} ms."
    return (
        f"Partition {partition} of topic {topic} with partition count {count} "
        f"is not present in metadata after {waited_ms} ms."
    )
