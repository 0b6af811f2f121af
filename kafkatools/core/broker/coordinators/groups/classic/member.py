"""A member of a classic group (Kafka's ClassicGroupMember)."""

from __future__ import annotations

from collections.abc import Container

from kafkatools.core.broker.coordinators.groups.requests import Client, Protocols, ResponseCallback


class Member:
    """A member of a classic group: protocols, assignment and pending responses."""

    __slots__ = (
        "assignment",
        "client",
        "instance_id",
        "is_new",
        "awaiting_join_callback",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "awaiting_sync_callback",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client: Client,
        timeouts_ms: tuple[int, int],
        protocol_type: str,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client = client
        self.session_timeout_ms, self.rebalance_timeout_ms = timeouts_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False
        self.awaiting_join_callback: ResponseCallback | None = None
        self.awaiting_sync_callback: ResponseCallback | None = None

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
