"""Failed creations of internal topics, for the status of later heartbeats (the error cache of Kafka's
AutoTopicCreationManager)."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 1000


class CreationFailures:
    """The errors of internal topics that could not be created, each until its time. Such a topic is not created again
    before."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[str, int]] = {}

    def note(self, topic: str, message: str, until_ms: int) -> None:
        """Keep the error of a topic until `until_ms`. With more than 1,000 topics the oldest error is dropped."""
        self._failures.pop(topic, None)
        self._failures[topic] = (message, until_ms)
        if len(self._failures) > _MOST:
            del self._failures[next(iter(self._failures))]

    def of(self, topics: Iterable[str], now_ms: int) -> dict[str, str]:
        """The errors of these topics that still hold, by topic."""
        found = {}
        for topic in topics:
            message, until_ms = self._failures.get(topic, ("", 0))
            if until_ms > now_ms:
                found[topic] = message
        return found
