"""CompressionRatioEstimator: how far a topic's records shrink, so that a batch can be filled beyond its size before it
is compressed.

Kafka's rule: starts at 1.0; moves down by at most 0.005 per batch and up by at least 0.05, so that an estimate errs on
the safe side.
"""

from __future__ import annotations

import threading

from kafkatools.core.records.compression import CompressionType

COMPRESSION_RATIO_IMPROVING_STEP = 0.005
COMPRESSION_RATIO_DETERIORATE_STEP = 0.05


class CompressionRatioEstimator:
    """One figure per topic and codec."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ratios: dict[tuple[str, CompressionType], float] = {}

    def estimation(self, topic: str, codec: CompressionType) -> float:
        return self._ratios.get((topic, codec), 1.0)

    def update(self, topic: str, codec: CompressionType, observed: float) -> float:
        """Takes the ratio of a batch; gives the new estimate."""
        with self._lock:
            current = self._ratios.get((topic, codec), 1.0)
            if observed > current:
                current = max(current + COMPRESSION_RATIO_DETERIORATE_STEP, observed)
            elif observed < current:
                current = max(current - COMPRESSION_RATIO_IMPROVING_STEP, observed)
            self._ratios[topic, codec] = current
            return current

    def set(self, topic: str, codec: CompressionType, ratio: float) -> None:
        with self._lock:
            self._ratios[topic, codec] = ratio
