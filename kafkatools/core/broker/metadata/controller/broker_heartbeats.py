"""What the active controller knows of brokers from their heartbeats: when each was heard of, how far it has read the
metadata log, whether it may be unfenced and whether it may stop.

Source: BrokerHeartbeatManager and BrokerHeartbeatTracker of Apache Kafka 4.3. Rules: none of this is in the metadata
log. A controller that becomes active gives every unfenced broker a full session, but for the node that led before it
(of our own): that one's runs since it was last heard of. A broker is unfenced when it has read its own registration; it
may stop when it leads nothing and every other active broker has read the metadata log up to where its last leadership
was moved away.

When several sessions have expired, absent brokers are fenced before brokers whose new process asks to register. After
all brokers were killed, all sessions expire together, and the broker that is fenced last is the only eligible leader
replica and the last known leader of its partitions: they have no leader until it is back. Apache Kafka fences in the
order of a ConcurrentHashMap, so that last broker may be one that does not come back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

NEVER = 2**63 - 1


class BrokerControlState(Enum):
    """What a broker is to the controller."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


@dataclass(slots=True)
class BrokerHeartbeatState:
    """One broker; `controlled_shutdown_offset` -1 unless it is stopping."""

    is_fenced: bool
    registration_offset: int
    metadata_offset: int = -1
    controlled_shutdown_offset: int = -1

    @property
    def is_active(self) -> bool:
        return not self.is_fenced and self.controlled_shutdown_offset < 0

    @property
    def control_state(self) -> BrokerControlState:
        if self.controlled_shutdown_offset >= 0:
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.FENCED if self.is_fenced else BrokerControlState.UNFENCED


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """What a heartbeat says."""

    metadata_offset: int
    want_fence: bool
    want_shut_down: bool


class BrokerHeartbeats:
    """Sessions and states of all brokers."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, BrokerHeartbeatState] = {}
        self._contacts: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._restarted: set[tuple[int, int]] = set()

    # -- sessions --------------------------------------------------------------------------------------------------
    def begin_sessions(self, epochs: Mapping[int, int], now_ms: int, last_heard: tuple[int, int] | None) -> None:
        """This controller became active: epochs of the unfenced brokers by id. `last_heard` may be a node and when it
        was heard of; what is longer ago than half a session says nothing about it."""
        if last_heard is not None:
            node_id, heard_ms = last_heard
            if node_id in epochs and now_ms - heard_ms <= self.session_timeout_ms // 2:
                self.note_contact(node_id, epochs[node_id], heard_ms)
        for broker_id, epoch in epochs.items():
            if (broker_id, epoch) not in self._contacts:
                self.note_contact(broker_id, epoch, now_ms)

    def note_contact(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """A broker was heard of."""
        self._contacts[broker_id, epoch] = now_ms
        self._contacts.move_to_end((broker_id, epoch))

    def has_valid_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Whether this incarnation was heard of within the session time-out."""
        last = self._contacts.get((broker_id, epoch))
        return last is not None and now_ms - last < self.session_timeout_ms

    def note_restart(self, broker_id: int, epoch: int) -> None:
        """Note that a new process of a broker asks to register, so the process of this epoch has ended."""
        if (broker_id, epoch) in self._contacts:
            self._restarted.add((broker_id, epoch))

    def expired(self, now_ms: int) -> tuple[int, int] | None:
        """Id and epoch of the broker to fence next because its session is over: an absent broker before one that has
        restarted. None when no session is over. The answer stays the same until `end_session`."""
        restarted = None
        for session, last in self._contacts.items():
            if now_ms - last < self.session_timeout_ms:
                break
            if session not in self._restarted:
                return session
            restarted = restarted or session
        return restarted

    def end_session(self, broker_id: int, epoch: int) -> None:
        """The broker was fenced, or there is nothing to fence."""
        self._contacts.pop((broker_id, epoch), None)
        self._restarted.discard((broker_id, epoch))

    @property
    def next_deadline_ms(self) -> int:
        """When the next session is over, unless the broker is heard of."""
        for last in self._contacts.values():
            return last + self.session_timeout_ms
        return NEVER

    # -- states ----------------------------------------------------------------------------------------------------
    def register(self, broker_id: int, registration_offset: int, *, is_fenced: bool) -> None:
        """A broker is registered, or was when this controller became active."""
        known = self._brokers.get(broker_id)
        if known is None:
            self._brokers[broker_id] = BrokerHeartbeatState(is_fenced, registration_offset)
        else:
            known.registration_offset = registration_offset
            self.touch(broker_id, known.metadata_offset if known.is_fenced != is_fenced else -1, is_fenced=is_fenced)

    def remove(self, broker_id: int) -> None:
        """Forget a broker's state: it is not registered any more, or anew."""
        self._brokers.pop(broker_id, None)

    def fence(self, broker_id: int) -> None:
        """A broker is fenced; with that it is not stopping any more: at its next heartbeat it may stop at once."""
        self.touch(broker_id, self._brokers[broker_id].metadata_offset, is_fenced=True)

    def touch(self, broker_id: int, metadata_offset: int, *, is_fenced: bool) -> None:
        """Note what a heartbeat led to."""
        broker = self._brokers[broker_id]
        broker.is_fenced, broker.metadata_offset = is_fenced, metadata_offset
        if is_fenced:
            broker.controlled_shutdown_offset = -1

    def note_controlled_shutdown(self, broker_id: int, end_offset: int) -> None:
        """A broker begins to stop; its leaderships are moved by records below `end_offset`."""
        broker = self._brokers[broker_id]
        if broker.controlled_shutdown_offset < 0:
            broker.controlled_shutdown_offset = end_offset

    def registration_offset(self, broker_id: int) -> int:
        """Where the broker's registration is in the metadata log."""
        return self._brokers[broker_id].registration_offset

    def lowest_active_offset(self) -> int:
        """How far the slowest active broker has read the metadata log."""
        return min((each.metadata_offset for each in self._brokers.values() if each.is_active), default=NEVER)

    def next_state(
        self, broker_id: int, request: HeartbeatRequest, *, has_leaderships: bool
    ) -> tuple[BrokerControlState, BrokerControlState]:
        """What a broker is and what it becomes by a heartbeat (calculateNextBrokerState)."""
        broker = self._brokers[broker_id]
        current = broker.control_state
        if current is BrokerControlState.FENCED:
            return current, self._next_of_fenced(broker, request)
        if current is BrokerControlState.UNFENCED:
            return current, _next_of_unfenced(request, has_leaderships)
        if not has_leaderships and broker.controlled_shutdown_offset <= self.lowest_active_offset():
            return current, BrokerControlState.SHUTDOWN_NOW
        return current, current

    def _next_of_fenced(self, broker: BrokerHeartbeatState, request: HeartbeatRequest) -> BrokerControlState:
        if request.want_shut_down:
            return BrokerControlState.SHUTDOWN_NOW
        if not request.want_fence and request.metadata_offset >= broker.registration_offset:
            return BrokerControlState.UNFENCED
        return BrokerControlState.FENCED


def _next_of_unfenced(request: HeartbeatRequest, has_leaderships: bool) -> BrokerControlState:
    if request.want_fence:
        return BrokerControlState.SHUTDOWN_NOW if request.want_shut_down else BrokerControlState.FENCED
    if request.want_shut_down:
        return BrokerControlState.CONTROLLED_SHUTDOWN if has_leaderships else BrokerControlState.SHUTDOWN_NOW
    return BrokerControlState.UNFENCED
