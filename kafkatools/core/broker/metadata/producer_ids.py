"""Producer ids from blocks that the active controller allocates (Kafka's RPCProducerIdManager).

Rules: a block is written to the metadata log before its first id is used, so that no id is assigned twice, even after
another node takes over the directory. The unused rest of a block is lost at a stop.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.broker.server.channels import ControllerChannel
from kafkatools.core.errors import CoordinatorLoadInProgress
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity

PREFETCH_BELOW = 500
OnBlock = Callable[[range], None]


class ProducerIds:
    """Assigns producer ids from its blocks, and requests the next block when fewer than `request_below` ids are left.
    `request_block(on_block)` calls `on_block` with a block, which may be empty: at once, or later on the node's thread.
    It may raise a KafkaError."""

    def __init__(self, request_block: Callable[[OnBlock], None], request_below: int = 1) -> None:
        self._request_block = request_block
        self._request_below = request_below
        self._blocks: list[range] = []
        self._is_requesting = False

    def next_id(self) -> int:
        """Return an unused producer id; requests a new block when few are left. Raises CoordinatorLoadInProgress
        without an id, and errors of `request_block`."""
        if sum(len(block) for block in self._blocks) < self._request_below:
            self.prefetch()
        if not self._blocks:
            raise CoordinatorLoadInProgress()
        block = self._blocks[0]
        self._blocks[:1] = [block[1:]] if len(block) > 1 else []
        return block[0]

    def prefetch(self) -> None:
        """Request a block, unless a request is under way. Raises the errors of `request_block`."""
        if self._is_requesting:
            return
        self._is_requesting = True
        try:
            self._request_block(self._take)
        except Exception:
            self._is_requesting = False
            raise

    def _take(self, block: range) -> None:
        self._is_requesting = False
        if block:
            self._blocks.append(block)


def request_from_controller(controller: ControllerChannel, fields: dict[str, int], on_block: OnBlock) -> None:
    """Request a block from the controller (AllocateProducerIds); `on_block` gets an empty one after an error."""

    def handle_response(response: Entity | None) -> None:
        start = count = 0
        if response is not None and not int(response.error_code):
            start, count = int(response.producer_id_start), response.producer_id_len
        on_block(range(start, start + count))

    controller.send(ApiKey.ALLOCATE_PRODUCER_IDS, fields, handle_response)
