"""Producer ids, from blocks that the metadata log hands out (Kafka's RPCProducerIdManager).

Rules: a block is written to the metadata log before its first id is used, so that no id is given twice, whoever runs on
the directory next. What is left of a block at a stop is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator


class ProducerIds:
    """Ids one by one."""

    def __init__(self, take_block: Callable[[], range]) -> None:
        """`take_block` gives the next block, durable in the metadata log; it may raise a KafkaError."""
        self._take_block = take_block
        self._ids: Iterator[int] = iter(())

    def next_id(self) -> int:
        """An id that nobody has."""
        for producer_id in self._ids:
            return producer_id
        self._ids = iter(self._take_block())
        return self.next_id()
