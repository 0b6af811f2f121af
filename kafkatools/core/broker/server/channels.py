"""Protocols for requests of a node to other nodes.

Rules: nothing here waits. `on_response` runs later on the node's thread, once, with None when no response arrives;
after the channel was closed it does not run. In tests a channel is a list of requests and a deterministic network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.quorum_description import QuorumDescription
    from kafkatools.core.broker.metadata.quorum.raft_log import Records
    from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
    from kafkatools.core.protocol.entities import Entity, Fields

OnResponse = Callable[[Any | None], None]
"""Gets the response's entity; None after a refused or lost connection or a time-out, or if the node lacks the API."""
OnRawResponse = Callable[[memoryview | None], None]
"""Gets the encoded body of a response (without its header), valid until it returns; or None."""


class PeerChannel(Protocol):
    """Requests to nodes by id. Each kind of work (raft, replica fetches, markers) has connections of its own."""

    def send(
        self,
        node_id: int,
        api_key: int,
        fields: Mapping[str, Any],
        on_response: OnResponse,
        *,
        timeout_ms: int | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> None:
        """Send a request as soon as the connection is up. `fields` are those of the newest version, as for
        `messages.build`.

        `timeout_ms` is request.timeout.ms by default. `may_send` is called right before the request is written; when it
        returns False the request is dropped and `on_response` gets None.
        """
        ...

    def send_raw(
        self,
        node_id: int,
        api_key: int,
        version: int,
        body: bytes,
        on_response: OnRawResponse,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request with a body that is already encoded in this version, as followers do for Fetch."""
        ...


class ControllerChannel(Protocol):
    """Requests to the active controller. After NOT_CONTROLLER or a lost connection they are sent again, to the next
    active controller, until the time-out."""

    def send(
        self, api_key: int, fields: Mapping[str, Any], on_response: OnResponse, *, timeout_ms: int | None = None
    ) -> None:
        """Send a request; `on_response` runs as for a `PeerChannel`."""
        ...


class Quorum(Protocol):
    """The KRaft quorum as a node sees it."""

    @property
    def node_id(self) -> int: ...

    @property
    def leader_id(self) -> int | None:
        """The id of the active controller, None when the node knows none."""
        ...

    @property
    def voters(self) -> Mapping[int, tuple[str, int]]:
        """The (host, port) of each voter by id."""
        ...

    @property
    def settings(self) -> RaftSettings: ...

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version: 1 for a dynamic quorum (KIP-853), else 0."""
        ...

    def describe(self, now_ms: int) -> QuorumDescription:
        """The state of voters and observers. Raises NotController unless this node leads the quorum."""
        ...

    def handle_add_voter(self, entity: Entity, now_ms: int, respond: Callable[[Fields], None]) -> None:
        """Handle AddRaftVoter; `respond` gets the response's fields, now or later."""
        ...

    def handle_remove_voter(self, entity: Entity, now_ms: int, respond: Callable[[Fields], None]) -> None:
        """Handle RemoveRaftVoter; `respond` gets the response's fields, now or later."""
        ...


class RecordWriter(Protocol):
    """The log that the active controller writes to."""

    @property
    def commits_at_once(self) -> bool:
        """Return whether an append is committed as soon as it is written, as in a quorum of one node."""
        ...

    @property
    def epoch(self) -> int:
        """The leader epoch of the active controller."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version."""
        ...

    def upgrade_kraft_version(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version, or only check it. Raises InvalidUpdateVersion."""
        ...

    def append(self, records: Records, wall_ms: int) -> int:
        """Write records as one batch and return the offset of the first; the batch may not be committed yet. Raises
        NotController when this node no longer leads the quorum."""
        ...
