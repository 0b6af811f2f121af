"""First contact with a cluster: raise after 5 s when no bootstrap server can be reached, not after max.block.ms.

The usual causes are a wrong address and a broker that does not run. Once a broker has responded, the settings say how
long to wait during an outage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkatools.core.clock import Clock
    from kafkatools.core.config import Config
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.producer.sender import Sender

UNREACHABLE_MS = 5_000
_LOOK_MS = 500


class ConnectingProducer(Protocol):
    """The attributes of Producer that `reason_not_to_start` needs."""

    config: Config
    clock: Clock
    sender: Sender


def reason_not_to_start(producer: ConnectingProducer) -> Exception | None:
    """Wait for the first metadata; return the connection error if no broker responds within 5 s, else None. Returns
    None at once when max.block.ms is at most 5 s: then the first record reports the error in time."""
    metadata, clock = producer.sender.metadata, producer.clock
    if producer.config.max_block_ms <= UNREACHABLE_MS:
        return None
    deadline_ms = clock.now_ms() + UNREACHABLE_MS
    while metadata.cluster.is_bootstrap:
        left_ms = deadline_ms - clock.now_ms()
        errors = _final_errors(producer.sender, is_late=left_ms <= 0)
        if errors:
            return errors[0]
        metadata.await_update(metadata.update_version, max(100, min(left_ms, 1000)))
    return None


def await_update(sender: Sender, version: int, timeout_ms: int) -> bool:
    """Wait for metadata newer than `version`; False after `timeout_ms`. Raises the connection error when all brokers
    have failed for 5 s and none ever responded, and at once when no error is retriable."""
    metadata = sender.metadata
    waited_ms = 0
    while not metadata.update_version and waited_ms < timeout_ms:
        step_ms = min(_LOOK_MS, timeout_ms - waited_ms)
        if metadata.await_update(version, step_ms):
            return True
        waited_ms += step_ms
        errors = _final_errors(sender, is_late=waited_ms >= UNREACHABLE_MS)
        if errors:
            raise type(errors[0])("; ".join(dict.fromkeys(map(str, errors))))
    return metadata.await_update(version, timeout_ms - waited_ms)


def _final_errors(sender: Sender, *, is_late: bool) -> list[KafkaError]:
    """The errors of all connections, if all have failed and waiting cannot help: it is late or none is retriable."""
    nodes = sender.metadata.cluster.nodes
    errors = [error for error in map(sender.client.connection_error, nodes) if error is not None]
    is_final = len(errors) == len(nodes) and (is_late or not any(error.retriable for error in errors))
    return errors if is_final else []
