"""Topic patterns of Kafka's tools (org.apache.kafka.server.util.TopicFilter.IncludeList)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from kafkatools.exit_status import UsageError

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics of the brokers themselves (org.apache.kafka.common.internals.Topic)."""


def include_filter(text: str, hidden: Collection[str] = INTERNAL_TOPICS) -> Callable[[str], bool]:
    """Return a predicate for whole topic names from the Java regular expression of --include; it rejects the names in
    `hidden`. Raises UsageError for an invalid expression."""
    from kafkatools.core.java.patterns import java_pattern  # keeps --help free of core imports

    try:
        pattern = java_pattern(text)
    except re.error as error:
        raise UsageError(f"{text} is an invalid regex: {error}") from None
    return lambda name: name not in hidden and pattern.fullmatch(name) is not None


class TopicFilter:
    """A regular expression for topic names, as in Kafka's tools: commas mean `or`; spaces and outer quotes are removed.
    Raises ValueError for an invalid expression."""

    def __init__(self, text: str) -> None:
        from kafkatools.core.java.patterns import java_pattern  # keeps --help free of core imports

        cleaned = text.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'")
        try:
            self._pattern = java_pattern(cleaned)
        except re.error:
            raise ValueError(f"{cleaned} is an invalid regex.") from None

    def takes(self, topic: str, *, exclude_internal: bool = False) -> bool:
        """Return whether the expression matches the whole topic name. With `exclude_internal`, False for the brokers'
        internal topics."""
        if exclude_internal and topic in INTERNAL_TOPICS:
            return False
        return self._pattern.fullmatch(topic) is not None
