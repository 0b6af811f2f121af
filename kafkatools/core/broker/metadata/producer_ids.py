"""Producer ids, from blocks that the metadata log hands out (Kafka's RPCProducerIdManager).

Rules: a block is written to the metadata log before its first id is used, so that no id is given twice, whoever runs on
the directory next. What is left of a block at a stop is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from kafkatools.core.errors import CoordinatorLoadInProgress
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.broker.server.channels import ControllerChannel

ASK_BELOW = 500


class ProducerIdSource(Protocol):
    """Where producer ids come from."""

    def next_id(self) -> int:
        """An id that nobody has. Raises CoordinatorLoadInProgress while there is none."""
        ...


class ProducerIds:
    """Ids one by one, from the controller of this very node."""

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


class RemoteProducerIds:
    """Ids one by one, from blocks that the active controller gives (AllocateProducerIds): the next one is asked for
    while there are still ids of the last."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], controller: ControllerChannel) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._blocks: list[range] = []
        self._is_asking = False

    def next_id(self) -> int:
        """An id that nobody has. Raises CoordinatorLoadInProgress while none is here."""
        if sum(len(block) for block in self._blocks) < ASK_BELOW:
            self.prefetch()
        if not self._blocks:
            raise CoordinatorLoadInProgress()
        block = self._blocks[0]
        if len(block) == 1:
            self._blocks.pop(0)
        else:
            self._blocks[0] = block[1:]
        return block[0]

    def prefetch(self) -> None:
        """Ask for a block, unless that is under way."""
        if self._is_asking:
            return
        self._is_asking = True
        fields = {"broker_id": self._broker_id, "broker_epoch": self._broker_epoch()}
        self._controller.send(ApiKey.ALLOCATE_PRODUCER_IDS, fields, self._take)

    def _take(self, answer: Any | None) -> None:
        self._is_asking = False
        if answer is not None and not int(answer.error_code) and answer.producer_id_len > 0:
            start = int(answer.producer_id_start)
            self._blocks.append(range(start, start + answer.producer_id_len))
