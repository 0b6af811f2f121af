"""First contact with a cluster: report after 5 s that no bootstrap server can be reached, not after max.block.ms.
Errors that no retry can resolve are reported at once.

The usual causes are a wrong address and a broker that does not run. Once a broker has responded, the settings say how
long to wait during an outage.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from kafkatools.core.clock import Clock
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.producer.sender import Sender

UNREACHABLE_MS = 5_000
_CHECK_MS = 500

Result = TypeVar("Result")


class MetadataWait(NamedTuple):
    """A wait for metadata newer than `version`, at most `timeout_ms`. The answer is that of
    `ProducerMetadata.await_update`."""

    version: int
    timeout_ms: int


MetadataSteps = Generator[MetadataWait, bool, Result]


def reason_not_to_start(sender: Sender, clock: Clock, max_block_ms: int) -> Exception | None:
    """Wait for the first metadata and return None, or return the first server's error once the connections to all
    bootstrap servers have failed. That takes at least 5 s if an error is retriable.

    Returns None at once when max.block.ms is at most 5 s: then the first record reports the error in time. Raises
    AuthenticationFailed and UnsupportedVersion when metadata fails with them.
    """
    metadata = sender.metadata
    if max_block_ms <= UNREACHABLE_MS:
        return None
    deadline_ms = clock.now_ms() + UNREACHABLE_MS
    while metadata.cluster.is_bootstrap:
        remaining_ms = deadline_ms - clock.now_ms()
        errors = _final_errors(sender, is_late=remaining_ms <= 0)
        if errors:
            return errors[0]
        metadata.await_update(metadata.update_version, max(100, min(remaining_ms, 1000)))
    return None


def await_update(sender: Sender, version: int, timeout_ms: int) -> MetadataSteps[bool]:
    """Wait for metadata newer than `version`; False after `timeout_ms`. Raises an error set by `Metadata.fail`.

    Before the first metadata it also raises the connection errors, once all brokers have failed: after 5 s, or at once
    when no error is retriable.
    """
    metadata = sender.metadata
    waited_ms = 0
    while not metadata.update_version and waited_ms < timeout_ms:
        step_ms = min(_CHECK_MS, timeout_ms - waited_ms)
        if (yield MetadataWait(version, step_ms)):
            return True
        waited_ms += step_ms
        errors = _final_errors(sender, is_late=waited_ms >= UNREACHABLE_MS)
        if errors:
            raise type(errors[0])("; ".join(dict.fromkeys(map(str, errors))))
    return (yield MetadataWait(version, timeout_ms - waited_ms))


def _final_errors(sender: Sender, *, is_late: bool) -> list[KafkaError]:
    """The errors of the connections to all nodes. Empty while a node has no error, or while an error is retriable and
    `is_late` is False."""
    nodes = sender.metadata.cluster.nodes
    errors = [error for error in map(sender.client.connection_error, nodes) if error is not None]
    is_final = len(errors) == len(nodes) and (is_late or not any(error.retriable for error in errors))
    return errors if is_final else []
