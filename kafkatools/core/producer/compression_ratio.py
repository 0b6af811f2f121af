"""CompressionRatioEstimator: estimates a topic's compression ratio, so that a batch takes more than its size of
uncompressed bytes.

Kafka's rule: the estimate starts at 1.0; it falls by at most 0.005 for each batch and rises by at least 0.05, so it
rather errs on the high side.
"""

from __future__ import annotations

import threading

from kafkatools.core.records.compression import CompressionType

COMPRESSION_RATIO_IMPROVING_STEP = 0.005
COMPRESSION_RATIO_DETERIORATE_STEP = 0.05


class CompressionRatioEstimator:
    """Estimated compression ratios by topic and codec."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ratios: dict[tuple[str, CompressionType], float] = {}

    def estimation(self, topic: str, codec: CompressionType) -> float:
        """The estimated compression ratio of a topic's batches; 1.0 before the first batch."""
        return self._ratios.get((topic, codec), 1.0)

    def update(self, topic: str, codec: CompressionType, observed: float) -> float:
        """Adjust a topic's estimated compression ratio with the ratio of a batch; return the new estimate."""
        with self._lock:
            current = self._ratios.get((topic, codec), 1.0)
            if observed > current:
                current = max(current + COMPRESSION_RATIO_DETERIORATE_STEP, observed)
            elif observed < current:
                current = max(current - COMPRESSION_RATIO_IMPROVING_STEP, observed)
            self._ratios[topic, codec] = current
            return current

    def set(self, topic: str, codec: CompressionType, ratio: float) -> None:
        """Replace a topic's estimated compression ratio, after a batch was too large for the broker."""
        with self._lock:
            self._ratios[topic, codec] = ratio
