"""The active controller's view of brokers from their heartbeats: sessions, metadata offsets, and whether a broker may
be unfenced or shut down.

Source: BrokerHeartbeatManager and BrokerHeartbeatTracker of Apache Kafka 4.3. Rules: none of this is in the metadata
log. A new active controller gives every unfenced broker a full session. Unlike in Kafka, the session of the previous
leader's broker counts from its last response. A broker may be unfenced when it has replayed its own registration. It
may shut down when it leads nothing and every other active broker has replayed the move of its last leadership.

When several sessions have expired, absent brokers are fenced before brokers whose new process asks to register. After
all brokers were killed, all sessions expire together, and the broker that is fenced last is the only eligible leader
replica and the last known leader of its partitions: they have no leader until it is back. Apache Kafka fences in the
order of a ConcurrentHashMap, so that last broker may be one that does not come back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique

NEVER = 2**63 - 1


@unique
class BrokerControlState(Enum):
    """The controller's state of a broker."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        """Return whether a broker in this state is fenced: FENCED or SHUTDOWN_NOW."""
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


@dataclass(slots=True)
class BrokerHeartbeatState:
    """The offsets of one broker; `controlled_shutdown_offset` is -1 outside of a controlled shutdown."""

    is_fenced: bool
    registration_offset: int
    metadata_offset: int = -1
    controlled_shutdown_offset: int = -1

    @property
    def is_active(self) -> bool:
        """Return whether the broker is neither fenced nor in a controlled shutdown."""
        return not self.is_fenced and self.controlled_shutdown_offset < 0

    @property
    def control_state(self) -> BrokerControlState:
        """The broker's state before its next heartbeat."""
        if self.controlled_shutdown_offset >= 0:
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.FENCED if self.is_fenced else BrokerControlState.UNFENCED


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A heartbeat's replayed metadata offset and the state that the broker wants."""

    metadata_offset: int
    want_fence: bool
    want_shut_down: bool


class BrokerHeartbeats:
    """The sessions and heartbeat states of all brokers."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, BrokerHeartbeatState] = {}
        self._contacts: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._restarted: set[tuple[int, int]] = set()

    def begin_sessions(
        self, epochs: Mapping[int, int], now_ms: int, last_leader_contact: tuple[int, int] | None
    ) -> None:
        """Start the sessions of the unfenced brokers (`epochs` by id) on a new active controller. `last_leader_contact`
        is (node id, time in ms): that node's session starts then, unless this is more than half a session ago."""
        if last_leader_contact is not None:
            node_id, contact_ms = last_leader_contact
            if node_id in epochs and now_ms - contact_ms <= self.session_timeout_ms // 2:
                self.note_contact(node_id, epochs[node_id], contact_ms)
        for broker_id, epoch in epochs.items():
            if (broker_id, epoch) not in self._contacts:
                self.note_contact(broker_id, epoch, now_ms)

    def note_contact(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """Restart the session of a broker that sent a request."""
        self._contacts[broker_id, epoch] = now_ms
        self._contacts.move_to_end((broker_id, epoch))

    def has_valid_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Return whether the broker with this epoch has sent a request within the session time-out."""
        last = self._contacts.get((broker_id, epoch))
        return last is not None and now_ms - last < self.session_timeout_ms

    def note_restart(self, broker_id: int, epoch: int) -> None:
        """Note that a new process of a broker asks to register, so the process of this epoch has ended. Without a
        session of this epoch, nothing changes."""
        if (broker_id, epoch) in self._contacts:
            self._restarted.add((broker_id, epoch))

    def expired(self, now_ms: int) -> tuple[int, int] | None:
        """Return (id, epoch) of the broker to fence next because its session has expired, None without one. An absent
        broker comes before one that has restarted. The result stays the same until `end_session`."""
        restarted = None
        for session, last in self._contacts.items():
            if now_ms - last < self.session_timeout_ms:
                break
            if session not in self._restarted:
                return session
            restarted = restarted or session
        return restarted

    def end_session(self, broker_id: int, epoch: int) -> None:
        """Remove the session of a broker that was fenced or needs no fencing."""
        self._contacts.pop((broker_id, epoch), None)
        self._restarted.discard((broker_id, epoch))

    @property
    def next_deadline_ms(self) -> int:
        """Time in ms at which the oldest session expires, NEVER without sessions."""
        for last in self._contacts.values():
            return last + self.session_timeout_ms
        return NEVER

    def register(self, broker_id: int, registration_offset: int, *, is_fenced: bool) -> None:
        """Set a broker's registration offset and fencing, at its registration or at this controller's activation."""
        broker = self._brokers.get(broker_id)
        if broker is None:
            self._brokers[broker_id] = BrokerHeartbeatState(is_fenced, registration_offset)
        else:
            broker.registration_offset = registration_offset
            self.touch(broker_id, broker.metadata_offset if broker.is_fenced != is_fenced else -1, is_fenced=is_fenced)

    def remove(self, broker_id: int) -> None:
        """Forget the state of a broker that is unregistered or registers again."""
        self._brokers.pop(broker_id, None)

    def fence(self, broker_id: int) -> None:
        """Note that a broker was fenced, which ends its controlled shutdown: it may stop at its next heartbeat."""
        self.touch(broker_id, self._brokers[broker_id].metadata_offset, is_fenced=True)

    def touch(self, broker_id: int, metadata_offset: int, *, is_fenced: bool) -> None:
        """Set a broker's fencing and metadata offset; fencing ends its controlled shutdown."""
        broker = self._brokers[broker_id]
        broker.is_fenced, broker.metadata_offset = is_fenced, metadata_offset
        if is_fenced:
            broker.controlled_shutdown_offset = -1

    def note_controlled_shutdown(self, broker_id: int, end_offset: int) -> None:
        """Note the start of a controlled shutdown, whose leaderships moved with the records below `end_offset`. A later
        call in the same shutdown changes nothing."""
        broker = self._brokers[broker_id]
        if broker.controlled_shutdown_offset < 0:
            broker.controlled_shutdown_offset = end_offset

    def registration_offset(self, broker_id: int) -> int:
        """Return the offset of the broker's registration in the metadata log."""
        return self._brokers[broker_id].registration_offset

    def lowest_active_offset(self) -> int:
        """Return the lowest metadata offset that an active broker has replayed, NEVER without active brokers."""
        return min((broker.metadata_offset for broker in self._brokers.values() if broker.is_active), default=NEVER)

    def next_state(
        self, broker_id: int, request: HeartbeatRequest, *, has_leaderships: bool
    ) -> tuple[BrokerControlState, BrokerControlState]:
        """Return a broker's state before and after a heartbeat (calculateNextBrokerState). Changes nothing: `touch` and
        `note_controlled_shutdown` store the new state."""
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
