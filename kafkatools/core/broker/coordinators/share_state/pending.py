"""What is waited for before a member of a share group is told that its acknowledgements are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.errors import KafkaError


class PendingWrite:
    """A write that a coordinator is asked for; `error` says how it went."""

    __slots__ = ("_then", "error", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self.error: KafkaError | None = None
        self._then: list[Callable[[], None]] = []

    def finish(self, error: KafkaError | None) -> None:
        """It is kept, or not."""
        self.is_over, self.error = True, error
        then, self._then = self._then, []
        for act in then:
            act()

    def then(self, act: Callable[[], None]) -> None:
        """Do this when it is over."""
        if self.is_over:
            act()
        else:
            self._then.append(act)


Kept = ProduceStatus | PendingWrite | None
"""An append on this node, a question to a coordinator, or nothing to wait for."""


def when_kept(host: Host, kept: Sequence[Kept], done: Callable[[], None]) -> None:
    """Call back when all of it is over, at once when there is nothing to wait for."""
    writes = [each for each in kept if isinstance(each, PendingWrite)]
    left = [len(writes) + 1]

    def note() -> None:
        left[0] -= 1
        if not left[0]:
            done()

    host.when_durable([each for each in kept if isinstance(each, ProduceStatus)], lambda _code: note())
    for write in writes:
        write.then(note)
