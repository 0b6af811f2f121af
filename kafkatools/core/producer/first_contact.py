"""Whether a broker answers at all, asked before a command begins to send."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkatools.core.producer.producer import Producer

_UNREACHABLE_MS = 5_000


def reason_not_to_start(producer: Producer) -> Exception | None:
    """Waits until a broker has answered; after some seconds, why none does. Nothing has been sent by then.

    With max.block.ms no longer than that the first record is left to say it.
    """
    metadata, client, clock = producer.sender.metadata, producer.sender.client, producer.clock
    if producer.config.max_block_ms <= _UNREACHABLE_MS:
        return None
    deadline_ms = clock.now_ms() + _UNREACHABLE_MS
    while metadata.cluster.is_bootstrap:
        left_ms = deadline_ms - clock.now_ms()
        errors = [client.connection_error(node) for node in metadata.cluster.nodes]
        if all(errors) and (left_ms <= 0 or not any(error.retriable for error in errors if error is not None)):
            return errors[0]
        metadata.await_update(metadata.update_version, max(100, min(left_ms, 1000)))
    return None
