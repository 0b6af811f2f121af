"""How the parts of a node talk to other nodes: what they are given, whatever carries it.

Rules: nothing here waits. `on_answer` runs later on the node's thread, exactly once, also when nothing comes: then
with None. In tests a channel is a list of requests and a deterministic network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.quorum_description import QuorumDescription
    from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings

OnAnswer = Callable[[Any | None], None]
"""Gets the response's entity, or None: the connection was refused or lost, the time is over, or the node does not know
the API."""
OnRawAnswer = Callable[[memoryview | None], None]
"""Gets the body of a response, unread (behind the response's header), valid until it returns; or None."""


class PeerChannel(Protocol):
    """Requests to nodes by id, each kind of work over connections of its own (raft, replica fetches, markers)."""

    def send(
        self,
        node_id: int,
        api_key: int,
        fields: Mapping[str, Any],
        on_answer: OnAnswer,
        *,
        timeout_ms: int | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> None:
        """Send a request when the connection stands. `fields` are those of the newest version, as for
        `messages.build`; durations in ms. Without `timeout_ms` request.timeout.ms holds. `may_send` is called right
        before the request is written; when it returns False the request is not sent and `on_answer` gets None."""
        ...

    def send_raw(
        self,
        node_id: int,
        api_key: int,
        version: int,
        body: bytes,
        on_answer: OnRawAnswer,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request whose body is framed already, in this very version: what followers fetch by."""
        ...


class ControllerChannel(Protocol):
    """Requests to the active controller, wherever it is; NOT_CONTROLLER and a lost connection are tried again at the
    next one until the time is over."""

    def send(
        self, api_key: int, fields: Mapping[str, Any], on_answer: OnAnswer, *, timeout_ms: int | None = None
    ) -> None:
        """Send a request; `on_answer` as for a `PeerChannel`."""
        ...


class Quorum(Protocol):
    """The quorum of controllers as a node knows it."""

    @property
    def node_id(self) -> int: ...

    @property
    def leader_id(self) -> int | None:
        """The active controller, None when none is known."""
        ...

    @property
    def voters(self) -> Mapping[int, tuple[str, int]]:
        """The controllers by id, and where they listen."""
        ...

    @property
    def settings(self) -> RaftSettings: ...

    def describe(self, now_ms: int) -> QuorumDescription:
        """The quorum as its leader knows it. Raises NotController on every other node."""
        ...


class RecordWriter(Protocol):
    """Where the active controller writes: the log of a quorum of one, or the quorum's."""

    @property
    def commits_at_once(self) -> bool:
        """Whether a record is committed when it is written: in a quorum of one."""
        ...

    @property
    def epoch(self) -> int:
        """The leader epoch in which it writes."""
        ...

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        ...

    def append(self, records: list[Any], wall_ms: int) -> int:
        """Write records as one batch, committed or not; gives the offset of the first. Raises NotController when this
        node does not lead the quorum any more."""
        ...
