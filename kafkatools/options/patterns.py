"""Topic patterns of Kafka's tools (org.apache.kafka.server.util.TopicFilter.IncludeList)."""

from __future__ import annotations

import re

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics of the brokers themselves (org.apache.kafka.common.internals.Topic)."""


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
