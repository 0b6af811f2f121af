"""A member of a classic group (Kafka's ClassicGroupMember)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import InitVar, dataclass, field

from kafkatools.core.broker.coordinators.groups.requests import Client, Protocols, ResponseCallback


@dataclass(eq=False, repr=False, slots=True)
class Member:
    """A member of a classic group: protocols, assignment and pending responses."""

    member_id: str
    instance_id: str | None
    client: Client
    timeouts_ms: InitVar[tuple[int, int]]
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int = field(init=False)
    rebalance_timeout_ms: int = field(init=False)
    assignment: bytes = field(default=b"", init=False)
    is_new: bool = field(default=False, init=False)
    awaiting_join_callback: ResponseCallback | None = field(default=None, init=False)
    awaiting_sync_callback: ResponseCallback | None = field(default=None, init=False)

    def __post_init__(self, timeouts_ms: tuple[int, int]) -> None:
        self.session_timeout_ms, self.rebalance_timeout_ms = timeouts_ms

    @property
    def is_awaiting_join(self) -> bool:
        """Return whether a JoinGroup response is pending."""
        return self.awaiting_join_callback is not None

    @property
    def is_awaiting_sync(self) -> bool:
        """Return whether a SyncGroup response is pending."""
        return self.awaiting_sync_callback is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Return whether an expired session is ignored: a member with a pending response sends no heartbeats. A new
        member does expire, or its group could wait for it forever."""
        return not self.is_new and (self.is_awaiting_join or self.is_awaiting_sync)

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for a protocol. Raises KeyError if the member does not support it."""
        return dict(self.protocols)[protocol]

    def vote(self, candidates: Container[str]) -> str:
        """The first of the member's protocols that is a candidate. Raises ValueError if none is."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise ValueError("Member does not support any of the candidate protocols")
