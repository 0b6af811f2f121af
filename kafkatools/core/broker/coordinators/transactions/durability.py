"""Waiting until what was appended may be told of (with log.durability=fsync: until it is on the disk)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.replicas.delayed_produce import DelayedProduce, ProduceStatus

NONE = 0


class Durability:
    """The purgatory of produce requests, for appends of the coordinator."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def when_durable(self, statuses: Sequence[ProduceStatus | None], done: Callable[[int], None]) -> None:
        """Call `done` with an error code when everything is durable: at once when there is nothing to wait for, at the
        latest after request.timeout.ms."""
        pending = [status for status in statuses if status is not None]
        if not pending:
            done(NONE)
            return

        def complete(finished: Sequence[ProduceStatus]) -> None:
            done(next((status.error_code for status in finished if status.error_code), NONE))

        host = self._host
        waiting = DelayedProduce(host.config.request_timeout_ms, pending, complete)
        keys = [status.partition.key for status in pending]
        host.produce_purgatory.try_complete_else_watch(waiting, keys, host.clock.now_ms())
