"""The requests to other quorum members, one at a time for each node (Kafka's RequestManager).

A response waits until it is taken; one to a forgotten request is dropped. A failed request is repeated after a back-off
that doubles with every failure, up to half an election time-out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkatools.core.broker.metadata.quorum.quorum_states import NEVER
from kafkatools.core.broker.metadata.quorum.raft_messages import Fields
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.server.channels import PeerChannel


@dataclass(slots=True, eq=False)
class _Peer:
    pending: object | None = None
    backoff_until_ms: int = 0
    failures: int = 0
    losses: int = 0


class PeerResponse(NamedTuple):
    """A response, with `entity` None when none came."""

    node_id: int
    api_key: int
    entity: Any
    peer: _Peer
    token: object


class PeerRequests:
    """The requests that one member has under way in its current state."""

    def __init__(self, channel: PeerChannel, settings: RaftSettings) -> None:
        self._channel = channel
        self._settings = settings
        self._peers: defaultdict[int, _Peer] = defaultdict(_Peer)
        self._responses: deque[PeerResponse] = deque()

    @property
    def has_responses(self) -> bool:
        """Return whether responses wait for `take_responses`."""
        return bool(self._responses)

    @property
    def is_asking(self) -> bool:
        """Return whether any request is under way."""
        return any(peer.pending is not None for peer in self._peers.values())

    @property
    def is_asking_bootstrap(self) -> bool:
        """Return whether a request to a bootstrap server is under way."""
        return any(peer.pending is not None for node_id, peer in self._peers.items() if node_id < 0)

    def backoff_until_ms(self, node_id: int) -> int:
        """Time in ms until which no request goes to a node; 0 or a past time if one may be sent at once."""
        return self._peers[node_id].backoff_until_ms

    def losses(self, node_id: int) -> int:
        """Return how many requests to a node in a row got no response."""
        return self._peers[node_id].losses

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Return whether a request to a node could be sent now: none is under way or backed off."""
        peer = self._peers[node_id]
        return peer.pending is None and peer.backoff_until_ms <= now_ms

    def forget(self) -> None:
        """Forget all requests under way and all back-offs."""
        self._peers.clear()

    def send(self, node_id: int, api_key: int, fields: Callable[[], Fields], now_ms: int) -> int:
        """Send a request unless one is under way or backed off. Returns the end of the back-off in ms, else NEVER."""
        peer = self._peers[node_id]
        if peer.pending is not None:
            return NEVER
        if peer.backoff_until_ms > now_ms:
            return peer.backoff_until_ms
        token = peer.pending = object()

        def note(entity: Any) -> None:
            self._responses.append(PeerResponse(node_id, api_key, entity, peer, token))

        self._channel.send(node_id, api_key, fields(), note, timeout_ms=self._settings.request_timeout_ms)
        return NEVER

    def take_responses(self) -> Iterator[PeerResponse]:
        """Yield the responses to requests that were not forgotten."""
        while self._responses:
            response = self._responses.popleft()
            if self._peers.get(response.node_id) is response.peer and response.peer.pending is response.token:
                response.peer.pending = None
                yield response

    def settle(self, response: PeerResponse, now_ms: int, *, is_settled: bool) -> None:
        """Reset the node's failure count if the request is settled, else start a back-off. A request without a response
        also counts as lost."""
        peer = response.peer
        peer.losses = 0 if response.entity is not None else peer.losses + 1
        if is_settled:
            peer.failures = 0
            return
        peer.failures += 1
        first_ms = self._settings.retry_backoff_ms
        longest_ms = max(first_ms, self._settings.election_timeout_ms // 2)
        peer.backoff_until_ms = now_ms + min(first_ms << min(peer.failures - 1, 10), longest_ms)
